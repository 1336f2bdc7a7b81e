//! The run log in memory, and the encoding of events for the other engines.

use std::sync::Arc;

use aqueduct_benches_counts::Failure;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::codec::{Decoder, Encoder};
use aqueduct_runlog::{Follow, MemoryLog, RunLog, RunMeta};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::stream::deltas;
use crate::{EVENTS, case, is_wanted};

const FOREVER: Timestamp = Timestamp(1 << 52);

pub(crate) fn run() -> Result<(), Failure> {
    for batch in [1, 64] {
        append(&format!("memory log, append in batches of {batch}"), batch, false)?;
        append(&format!("memory log, append in batches of {batch} and follow"), batch, true)?;
    }
    if is_wanted("log codec, encode") {
        let events = deltas(EVENTS);
        case(EVENTS, || {
            let mut encoder = Encoder::default();
            let records = events.iter().filter_map(|event| encoder.encode(event).ok());
            records.map(|bytes| bytes.len()).sum::<usize>()
        });
    }
    if is_wanted("log codec, decode") {
        let mut encoder = Encoder::default();
        let encode = |event: &BlockEvent| encoder.encode(event).map(bytes::Bytes::from);
        let records = deltas(EVENTS).iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        case(EVENTS, || {
            let mut decoder = Decoder::default();
            records.iter().filter_map(|record| decoder.decode(record.clone()).ok()).count()
        });
    }
    Ok(())
}

/// Appends a run, with or without a watcher that keeps up.
fn append(name: &str, batch: usize, is_followed: bool) -> Result<(), Failure> {
    if !is_wanted(name) {
        return Ok(());
    }
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
    case(EVENTS, || {
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
