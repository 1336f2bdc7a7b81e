//! The run log on a real Redis, and on a cluster of them: the conformance suite, replicas that see each other, take-over
//! races, crashes of the server.

#![expect(
    clippy::print_stdout,
    reason = "how many races and how long a pause is what one wants to know of these tests"
)]

mod cluster;
mod crashes;
mod cuts;
mod kept;
mod leaving;
mod publishers;
mod races;
mod repeats;
pub(super) mod replicas;
mod sentinel;
mod served;
pub(super) mod server;
mod stopped;
mod taken_up;

use std::cell::Cell;
use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunInfo, StreamContext, Timestamp, Update};
use aqueduct_runlog::testing::{conform, conform_shared, meta};
use aqueduct_runlog::{Control, Follow, LogLimits, RedisConfig, RedisLog, RunLog};
use futures_util::StreamExt as _;

use server::Server;

/// Leases of these tests lapse at once, or never.
const LAPSED: Timestamp = Timestamp(0);
const HELD: Timestamp = Timestamp(1 << 50);

/// A piece of text of that writer, and the end of its run.
fn say(writer: &str, number: u64) -> BlockEvent {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    context.handle_update(Update::text(format!("{writer} {number}"))).unwrap();
    std::iter::from_fn(|| context.poll_event()).last().unwrap()
}

fn said(event: &BlockEvent) -> String {
    match event {
        BlockEvent::BlockDelta { delta, .. } => delta.to_string(),
        other => format!("{other:?}"),
    }
}

fn end() -> BlockEvent {
    aqueduct_runlog::testing::events(0).pop().unwrap()
}

#[tokio::test]
async fn redis_conforms() {
    let server = Server::start();
    let count = Cell::new(0);
    let make = async |limits| {
        count.set(count.get() + 1);
        Arc::new(server.log(&format!("log{}", count.get()), limits)) as Arc<dyn RunLog>
    };
    conform(make).await;
    conform_shared(make).await;
}

/// Over TLS, with pushes of the server; and not with a server whose certificate no trusted authority signed.
#[tokio::test]
async fn the_log_goes_over_tls_to_a_server_that_is_trusted() {
    let server = Server::start_tls();
    let log = || Arc::new(server.log("shared", LogLimits::default()));
    let (writer, other) = (log(), log());
    writer.check().await.unwrap();
    let lease = writer.open(meta("a"), HELD).await.unwrap();
    let follow = Follow::new(Arc::clone(&other) as Arc<dyn RunLog>, lease.run_id.clone(), 0);
    let watcher = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
    for number in 1..=20 {
        writer.append(&lease, vec![say("writer", number)], Timestamp(5)).await.unwrap();
    }
    writer.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    assert_eq!(watcher.await.unwrap().len(), 21);
    let patience = std::time::Duration::ZERO;
    let stranger = RedisLog::new(&RedisConfig { patience, ..RedisConfig::new(server.url()) }).unwrap();
    let refused = stranger.check().await.unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
}

/// Two replicas share a log: one writes, the other watches and sends messages.
#[tokio::test]
async fn replicas_see_each_other() {
    let server = Server::start();
    let log = || Arc::new(server.log("shared", LogLimits::default()));
    let (writer, other): (Arc<RedisLog>, Arc<RedisLog>) = (log(), log());
    let lease = writer.open(meta("a"), HELD).await.unwrap();
    let events: Vec<BlockEvent> = (1..=2_000).map(|number| say("writer", number)).chain([end()]).collect();
    let watchers: Vec<_> = (0..5)
        .map(|_| {
            let follow = Follow::new(Arc::clone(&other) as Arc<dyn RunLog>, lease.run_id.clone(), 0);
            tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>())
        })
        .collect();
    for batch in events.chunks(3) {
        writer.append(&lease, batch.to_vec(), Timestamp(5)).await.unwrap();
    }
    let wanted: Vec<String> = events.iter().map(said).collect();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), wanted);
    }
    let lease = writer.open(meta("b"), HELD).await.unwrap();
    let (got, sent) = tokio::join!(writer.controls(&lease, 0), other.control(&lease.run_id, Control::Cancel));
    sent.unwrap();
    assert_eq!(got, Ok(vec![Control::Cancel]));
}
