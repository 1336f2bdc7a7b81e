//! Publishers that come back to another replica, or after their replica died: nothing that was acknowledged is lost, and
//! nothing is doubled.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test says no"
)]

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::{Caller, Ingest, NumberedEvent, PublishRequest, RefusalKind, RunService as _};
use aqueduct_core::{
    BlockEvent, ByteString, Interrupt, InterruptId, RunInput, RunOutcome, SourceEvent, Timestamp, ToolCallId,
    Update,
};
use aqueduct_runlog::{LogScope, MemoryLog, RunLog as _, RunQuery};
use aqueduct_runs::{AgentOptions, LineDecoder, Runs, Settings};
use futures_util::StreamExt as _;

/// Numbers the words that it decodes, so that a decoder without the earlier lines is found out. The line `ask` is an
/// interrupt, and `ok` proves that its reply came.
#[derive(Default)]
struct Counted {
    lines: u64,
    events: Vec<SourceEvent>,
}

impl LineDecoder for Counted {
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String> {
        self.lines += 1;
        if &**line == "ask" {
            let finished = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            self.events.extend([SourceEvent::interrupt(Interrupt::new("q", "input_required")), finished]);
        } else if &**line != "quiet" {
            self.events.push(Update::text(format!("{}:{line} ", self.lines)).into());
        }
        Ok(())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        self.events.push(SourceEvent::finished());
        Ok(())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        Vec::new()
    }

    fn replies_taken(&self, line: &str) -> Vec<InterruptId> {
        if line == "ok" { vec!["q".into()] } else { Vec::new() }
    }
}

fn replica(log: &Arc<MemoryLog>) -> Runs {
    replica_at(log, 0)
}

/// A replica whose clock is so many milliseconds ahead.
fn replica_at(log: &Arc<MemoryLog>, ahead: i64) -> Runs {
    let clock = move || Timestamp(aqueduct_runs::now().0 + ahead);
    let settings = Settings::default().with_lease(Duration::from_millis(50)).with_scope(LogScope::Replicas);
    Runs::builder()
        .published("team", AgentOptions::default())
        .ingest_format("counted", || Box::new(Counted::default()))
        .shared_log(Arc::clone(log) as _)
        .settings(settings)
        .clock(Arc::new(clock))
        .build()
}

async fn publish(runs: &Runs) -> Box<dyn Ingest> {
    let request = PublishRequest {
        agent: "team".to_owned(),
        thread_id: Some("t".into()),
        run_id: Some("r".into()),
        format: "counted".to_owned(),
    };
    runs.publish(&Caller::default(), request).await.unwrap()
}

async fn send(publisher: &mut Box<dyn Ingest>, number: u64, line: &'static str) {
    assert_eq!(publisher.accept(number, line.into()).await.unwrap(), number);
}

async fn events(runs: &Runs, run: &str) -> Vec<NumberedEvent> {
    runs.watch(&Caller::default(), &run.into(), 0).await.unwrap().collect().await
}

fn text(events: &[NumberedEvent]) -> String {
    let delta = |event: &NumberedEvent| match &event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

fn is_success(events: &[NumberedEvent]) -> bool {
    matches!(&events.last().unwrap().event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Success)
}

#[tokio::test]
async fn a_publisher_goes_on_at_another_replica_while_the_first_lives() {
    let log = Arc::new(MemoryLog::default());
    let (one, other) = (replica(&log), replica(&log));
    let mut first = publish(&one).await;
    send(&mut first, 1, "a").await;
    send(&mut first, 2, "quiet").await;
    send(&mut first, 3, "b").await;
    let mut second = publish(&other).await;
    assert_eq!(second.acknowledged(), 3);
    let refused = first.accept(4, "lost".into()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable, "{refused}");
    send(&mut second, 3, "b").await;
    send(&mut second, 4, "c").await;
    // And back again, to the replica that remembers an older state.
    drop(second);
    let mut third = publish(&one).await;
    assert_eq!(third.acknowledged(), 4);
    send(&mut third, 5, "d").await;
    third.finish().await.unwrap();
    let seen = events(&other, "r").await;
    assert_eq!((text(&seen).as_str(), is_success(&seen)), ("1:a 3:b 4:c 5:d ", true));
    assert!(!seen.iter().any(|event| matches!(event.event, BlockEvent::Custom(_))), "{seen:?}");
}

#[tokio::test]
async fn a_publisher_comes_back_after_its_replica_died() {
    let log = Arc::new(MemoryLog::default());
    let dying = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let one = replica(&log);
    let begun = dying.spawn(async move {
        let mut publisher = publish(&one).await;
        send(&mut publisher, 1, "a").await;
        send(&mut publisher, 2, "b").await;
        publisher
    });
    std::mem::forget(begun.await.unwrap());
    dying.shutdown_background();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (finder, other) = (replica(&log), replica(&log));
    finder.sweep_once().await.unwrap();
    assert_eq!(finder.active_runs(), 1, "it waits there for its publisher");
    let mut publisher = publish(&other).await;
    assert_eq!(publisher.acknowledged(), 2);
    send(&mut publisher, 3, "c").await;
    publisher.finish().await.unwrap();
    let seen = events(&finder, "r").await;
    assert_eq!((text(&seen).as_str(), is_success(&seen)), ("1:a 2:b 3:c ", true));
}

#[tokio::test]
async fn a_workflow_that_waits_is_answered_after_its_replica_died() {
    let log = Arc::new(MemoryLog::default());
    let (one, other) = (replica(&log), replica(&log));
    let mut first = publish(&one).await;
    send(&mut first, 1, "a").await;
    send(&mut first, 2, "ask").await;
    std::mem::forget(first);
    let mut second = publish(&other).await;
    assert_eq!(second.acknowledged(), 2);
    let reply = InterruptReply { id: "q".into(), resolved: true, payload: Some("yes".into()) };
    let mut input = RunInput::prompt("t", "r2", "");
    input.messages.clear();
    input.resume = vec![reply.clone()];
    other.start(&Caller::default(), "team", input).await.unwrap();
    let given = tokio::time::timeout(Duration::from_secs(5), second.reply()).await;
    assert_eq!(given.expect("no reply at the second replica"), reply);
    drop(second);
    // A reply that no line confirms is sent again, at any replica.
    let mut third = publish(&one).await;
    let given = tokio::time::timeout(Duration::from_secs(5), third.reply()).await;
    assert_eq!((third.acknowledged(), given.expect("no reply at the first replica")), (2, reply));
    send(&mut third, 3, "ok").await;
    third.finish().await.unwrap();
    assert_eq!(text(&events(&one, "r").await), "1:a ");
    let seen = events(&other, "r2").await;
    assert_eq!((text(&seen).as_str(), is_success(&seen)), ("3:ok ", true));
}

/// Its publisher cannot go on: without its first payloads no decoder can.
#[tokio::test]
async fn a_trimmed_run_whose_replica_died_is_ended() {
    let log = Arc::new(MemoryLog::default());
    let one = replica(&log);
    let mut publisher = publish(&one).await;
    for (number, line) in [(1, "a"), (2, "b"), (3, "c")] {
        send(&mut publisher, number, line).await;
    }
    std::mem::forget(publisher);
    let run = log.list(RunQuery::default(), 1).await.unwrap().remove(0);
    log.trim(&run.meta.run_id, 3).await.unwrap();
    replica_at(&log, 3_600_000).sweep_once().await.unwrap();
    let run = log.state(&run.meta.run_id).await.unwrap();
    assert!(run.earliest > 1 && run.closed_at.is_some(), "{run:?}");
}
