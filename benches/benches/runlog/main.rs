//! The run log: its cost on the hot path, and the throughput of each engine.
//!
//! * `append` alone: the cost per event of the memory engine, as the bridge pays it, and of the encoding.
//! * `append + tail`: every run appends one event at a time and waits for the acknowledgement, while a watcher follows it:
//!   the total rate, and the time from before the append until the watcher has the event. Memory, disk (group commit,
//!   fdatasync before the acknowledgement), and Redis (append-only file, `everysec`) if `redis-server` is installed.
//! * `shared`: two replicas on one Redis, each in its own process ([`shared`]).
//!
//! One part only: `cargo xtask bench runlog -- shared` (`cost`, `rate`, `shared`).

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aqueduct_benches::redis::Server;
use aqueduct_benches::{measure, print_figure, print_head};
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunOutcome, SourceEvent, StreamContext, Timestamp, Update};
use aqueduct_runlog::codec::{Decoder, Encoder};
use aqueduct_runlog::{DiskLog, Follow, LogLimits, MemoryLog, RedisConfig, RedisLog, RunLog, RunMeta};
use aqueduct_transport_grpc::convert::{EventReader, EventWriter};
use aqueduct_transport_grpc::proto;
use futures_util::{FutureExt as _, StreamExt as _};
use prost::Message as _;

type Failure = Box<dyn std::error::Error + Send + Sync>;

mod shared;

fn main() -> Result<(), Failure> {
    // Arguments that cargo adds.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["replica", arguments @ ..] = arguments.as_slice() {
        return shared::run_replica(arguments);
    }
    let is_wanted = |part: &str| arguments.is_empty() || arguments.contains(&part);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine: {}", load.trim());
    if is_wanted("cost") {
        hot_path();
        encoding();
    }
    if is_wanted("rate") {
        rates()?;
    }
    if is_wanted("shared") {
        shared::report()?;
    }
    Ok(())
}

/// Measures the rate and the delay of each engine.
fn rates() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("\nappend + tail, one event per append, one watcher per run");
    println!("{:<10} {:>6} {:>9} {:>12} {:>12} {:>12}", "engine", "runs", "events", "events/s", "p50", "p99");
    runtime.block_on(async {
        let memory: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
        carry("memory", &memory, 1, 50_000).await?;
        carry("memory", &memory, 1_000, 200).await?;
        let folder = tempfile::tempdir()?;
        let disk: Arc<dyn RunLog> = Arc::new(DiskLog::open(folder.path(), LogLimits::default())?);
        carry("disk", &disk, 1, 2_000).await?;
        carry("disk", &disk, 1_000, 50).await?;
        match Server::start() {
            Some(server) => {
                let config = RedisConfig::new(server.url());
                let redis: Arc<dyn RunLog> = Arc::new(RedisLog::new(&config)?);
                carry("redis", &redis, 1, 5_000).await?;
                carry("redis", &redis, 1_000, 100).await?;
            }
            None => println!("redis is not measured: install the package `redis-server`"),
        }
        Ok(())
    })
}

/// Returns text deltas of a stream machine, and the end of the run.
fn events(deltas: usize) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for _ in 0..deltas {
        context.handle_update(Update::text("some twenty bytes, ok").in_message("message-1")).ok();
    }
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).ok();
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn meta(id: &str) -> RunMeta {
    RunMeta {
        run_id: RunId::from(id),
        thread_id: "thread".into(),
        agent: "agent".to_owned(),
        owner: String::new(),
        opened_at: Timestamp(1),
    }
}

const FOREVER: Timestamp = Timestamp(1 << 52);

/// Measures the cost of the memory log for a run: the append, and the read by one watcher that keeps up. The first line is the
/// baseline without a log, in which the driver passes its events to the watcher.
fn hot_path() {
    const EVENTS: usize = 100_000;
    print_head("the log in memory on the way of a run");
    for batch in [1, 8, 64] {
        let prepare = || {
            let batches: Vec<Vec<BlockEvent>> = events(EVENTS).chunks(batch).map(<[_]>::to_vec).collect();
            (Arc::new(MemoryLog::default()), batches)
        };
        let without = measure(EVENTS, prepare, |(log, batches)| (log, hand_over(batches)));
        print_figure(&format!("batches of {batch}, no log"), &without);
        let append = measure(EVENTS, prepare, |(log, batches)| (append_all(&log, batches, |_| {}), log));
        print_figure(&format!("batches of {batch}, append"), &append);
        let through = measure(EVENTS, prepare, |(log, batches)| {
            let shared: Arc<dyn RunLog> = Arc::<MemoryLog>::clone(&log);
            let mut follow = Follow::new(shared, RunId::from("run"), 0);
            let mut taken = 0;
            append_all(&log, batches, |_| {
                while let Some(Some(Ok(_))) = follow.next().now_or_never() {
                    taken += 1;
                }
            });
            (log, follow, taken)
        });
        print_figure(&format!("batches of {batch}, append and follow"), &through);
        let added = through.nanoseconds() - without.nanoseconds();
        println!("batches of {batch}: the log adds {added:.0} ns per event (aim: 500)");
    }
}

/// Appends all batches; the memory engine completes at once. Returns the number of the last event.
fn append_all(log: &MemoryLog, batches: Vec<Vec<BlockEvent>>, mut then: impl FnMut(u64)) -> u64 {
    let Some(Ok(lease)) = log.open(meta("run"), FOREVER).now_or_never() else { return 0 };
    let mut head = 0;
    for batch in batches {
        if let Some(Ok(last)) = log.append(&lease, batch, Timestamp(1)).now_or_never() {
            head = last;
        }
        then(head);
    }
    head
}

/// Passes the same events on without a log.
fn hand_over(batches: Vec<Vec<BlockEvent>>) -> usize {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(64);
    let mut taken = 0;
    for batch in batches {
        for event in batch {
            sender.try_send(event).ok();
        }
        while receiver.try_recv().is_ok() {
            taken += 1;
        }
    }
    taken
}

fn encoding() {
    const EVENTS: usize = 100_000;
    print_head("encoding, for engines that leave the process");
    let figure = measure(
        EVENTS,
        || events(EVENTS),
        |events| {
            let mut encoder = Encoder::default();
            events
                .iter()
                .filter_map(|event| encoder.encode(event).ok())
                .map(|bytes| bytes.len())
                .sum::<usize>()
        },
    );
    print_figure("encode", &figure);
    let encode = || {
        let mut encoder = Encoder::default();
        let records = events(EVENTS).into_iter().filter_map(move |event| encoder.encode(&event).ok());
        records.map(bytes::Bytes::from).collect::<Vec<_>>()
    };
    let size: usize = encode().iter().map(bytes::Bytes::len).sum();
    let figure = measure(EVENTS, encode, |records| {
        let mut decoder = Decoder::default();
        records.into_iter().filter_map(|record| decoder.decode(record).ok()).count()
    });
    print_figure("decode", &figure);
    println!("{} bytes per delta of 21 bytes", size / EVENTS);
    as_protobuf(EVENTS);
}

/// Measures the same events in the messages of `aqueduct.v1`, each self-contained like a record of a log: the cost of one
/// encoding for both (`docs/decisions/0021-two-encodings.md`).
fn as_protobuf(count: usize) {
    let run = RunId::from("run");
    let message = |event: BlockEvent| {
        let mut writer = EventWriter::new(&run);
        writer.push(&NumberedEvent { number: 1, event }).ok()?;
        Some(writer.take().encode_to_vec())
    };
    let figure = measure(
        count,
        || events(count),
        |events| events.into_iter().filter_map(message).map(|bytes| bytes.len()).sum::<usize>(),
    );
    print_figure("encode as aqueduct.v1, one message each", &figure);
    let encode = || events(count).into_iter().filter_map(message).map(bytes::Bytes::from).collect::<Vec<_>>();
    let size: usize = encode().iter().map(bytes::Bytes::len).sum();
    let figure = measure(count, encode, |records| {
        let mut read = 0_usize;
        for record in records {
            let Ok(message) = proto::StreamMessage::decode(record) else { continue };
            EventReader::new().read(message, |_| read += 1).ok();
        }
        read
    });
    print_figure("decode", &figure);
    println!("{} bytes per delta of 21 bytes", size / count);
}

/// Writes and watches several runs at once.
async fn carry(engine: &str, log: &Arc<dyn RunLog>, runs: usize, deltas: usize) -> Result<(), Failure> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..runs)
        .map(|run| tokio::spawn(carry_one(Arc::clone(log), format!("{engine}-{runs}-{run}"), deltas)))
        .collect();
    let mut delays = Vec::new();
    for task in tasks {
        delays.extend(task.await??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    delays.sort_unstable();
    let at = |share: usize| delays.get((delays.len() * share / 100).min(delays.len() - 1)).copied();
    let (half, most) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
    let count = u32::try_from(delays.len())?;
    let rate = f64::from(count) / seconds;
    println!("{engine:<10} {runs:>6} {count:>9} {rate:>12.0} {half:>12.1?} {most:>12.1?}");
    Ok(())
}

async fn carry_one(log: Arc<dyn RunLog>, id: String, deltas: usize) -> Result<Vec<Duration>, Failure> {
    let lease = log.open(meta(&id), FOREVER).await?;
    let all = events(deltas);
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::new(Mutex::new(Vec::with_capacity(all.len())));
    let (follow, times) = (Follow::new(Arc::clone(&log), lease.run_id.clone(), 0), Arc::clone(&sent));
    let watcher = tokio::spawn(follow.map(move |event| delay(&times, &event?)).collect::<Vec<_>>());
    for event in all {
        sent.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        log.append(&lease, vec![event], Timestamp(1)).await?;
    }
    watcher.await?.into_iter().collect()
}

fn delay(sent: &Mutex<Vec<Instant>>, event: &NumberedEvent) -> Result<Duration, Failure> {
    let index = usize::try_from(event.number)? - 1;
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(sent.get(index).ok_or("an event came before it was sent")?.elapsed())
}
