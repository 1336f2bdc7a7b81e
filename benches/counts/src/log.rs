//! The run log in memory, and the encoding of events for the other engines.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::codec::{Decoder, Encoder};
use aqueduct_runlog::{Follow, MemoryLog, RunLog, RunMeta};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::stream::deltas;
use crate::{EVENTS, Failure, case};

const FOREVER: Timestamp = Timestamp(1 << 52);

pub(crate) fn run() -> Result<(), Failure> {
    for batch in [1, 64] {
        append(&format!("memory log, append in batches of {batch}"), batch, false)?;
        append(&format!("memory log, append in batches of {batch} and follow"), batch, true)?;
    }
    let events = deltas(EVENTS);
    case("log codec, encode", EVENTS, || {
        let mut encoder = Encoder::default();
        events.iter().filter_map(|event| encoder.encode(event).ok()).map(|bytes| bytes.len()).sum::<usize>()
    });
    let mut encoder = Encoder::default();
    let mut records = Vec::new();
    for event in &events {
        records.push(bytes::Bytes::from(encoder.encode(event)?));
    }
    case("log codec, decode", EVENTS, || {
        let mut decoder = Decoder::default();
        records.iter().filter_map(|record| decoder.decode(record.clone()).ok()).count()
    });
    Ok(())
}

/// Appends a run, with or without a watcher that keeps up.
fn append(name: &str, batch: usize, is_followed: bool) -> Result<(), Failure> {
    let log = Arc::new(MemoryLog::default());
    let meta = RunMeta {
        run_id: RunId::from("run"),
        thread_id: "thread".into(),
        agent: "agent".to_owned(),
        owner: String::new(),
        opened_at: Timestamp(1),
    };
    let lease = log.open(meta, FOREVER).now_or_never().ok_or("the log did not open at once")??;
    let shared: Arc<dyn RunLog> = Arc::<MemoryLog>::clone(&log);
    let mut follow = Follow::new(shared, lease.run_id.clone(), 0);
    let mut batches: Vec<Vec<BlockEvent>> = deltas(EVENTS).chunks(batch).map(<[_]>::to_vec).collect();
    case(name, EVENTS, || {
        let mut taken = 0;
        for batch in batches.drain(..) {
            let appended = log.append(&lease, batch, Timestamp(1)).now_or_never();
            taken += usize::from(matches!(appended, Some(Ok(_))));
            while is_followed && matches!(follow.next().now_or_never(), Some(Some(Ok(_)))) {
                taken += 1;
            }
        }
        taken
    });
    Ok(())
}
