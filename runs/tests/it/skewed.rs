//! Replicas whose clocks differ: the runs of a thread have the order in which they were opened, and every run ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aqueduct_core::service::{Caller, Ingest, PublishRequest, RunService as _, StartedRun};
use aqueduct_core::{
    ByteString, Interrupt, InterruptId, InterruptReply, RunId, RunInput, RunOutcome, SourceEvent, ThreadId,
    Timestamp, ToolCallId, Update,
};
use aqueduct_runlog::{LogScope, MemoryLog, RunLog, RunQuery};
use aqueduct_runs::{AgentOptions, Clock, LineDecoder, Runs, Settings};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(3);

/// Lines of a workflow: `ask ID` requests an interrupt, all others are text.
#[derive(Debug, Default)]
struct Lines(VecDeque<SourceEvent>);

impl LineDecoder for Lines {
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String> {
        match line.strip_prefix("ask ") {
            Some(id) => {
                self.0.push_back(SourceEvent::interrupt(Interrupt::new(id.to_owned(), "input_required")));
                self.0.push_back(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None });
            }
            None => self.0.push_back(Update::text(line.to_string()).in_message("m").into()),
        }
        Ok(())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        self.0.push_back(SourceEvent::finished());
        Ok(())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.0.pop_front()
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        Vec::new()
    }

    fn replies_taken(&self, _: &str) -> Vec<InterruptId> {
        Vec::new()
    }
}

/// A replica, and the difference of its clock in milliseconds.
struct Replica {
    runs: Runs,
    ahead: Arc<AtomicI64>,
}

fn replica(log: &Arc<MemoryLog>, ahead: i64) -> Replica {
    let (begun, ahead) = (tokio::time::Instant::now(), Arc::new(AtomicI64::new(ahead)));
    let skew = Arc::clone(&ahead);
    let clock: Clock = Arc::new(move || {
        let passed = i64::try_from(begun.elapsed().as_millis()).unwrap();
        Timestamp(1_000_000 + passed + skew.load(Ordering::Relaxed))
    });
    let finished = |_: RunInput| stream::iter(vec![SourceEvent::finished()]);
    let runs = Runs::builder()
        .published("workflow", AgentOptions::default().with_grace(Duration::from_secs(8)))
        .ingest_format("lines", || Box::new(Lines::default()))
        .settings(Settings::default().with_lease(LEASE).with_scope(LogScope::Replicas))
        .clock(clock)
        .shared_log(Arc::clone(log) as _)
        .build();
    Replica { runs: runs.agent("brief", finished), ahead }
}

/// Returns the runs of a thread, oldest first.
async fn listed(log: &MemoryLog, thread: &str) -> Vec<RunId> {
    let query = RunQuery { thread_id: Some(ThreadId::from(thread)), ..RunQuery::default() };
    log.list(query, 100).await.unwrap().into_iter().map(|run| run.meta.run_id).collect()
}

async fn run(replica: &Replica, id: &str) {
    let input = RunInput::prompt("t", id.to_owned(), "hello");
    let started = replica.runs.start(&Caller::default(), "brief", input).await.unwrap();
    started.events.collect::<Vec<_>>().await;
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_thread_have_the_order_in_which_replicas_opened_them() {
    let log = Arc::new(MemoryLog::default());
    let (fast, slow) = (replica(&log, 900), replica(&log, 0));
    // Against the order of their ids, by which the log lists runs of the same time.
    run(&fast, "d").await;
    run(&slow, "c").await;
    run(&slow, "b").await;
    run(&fast, "a").await;
    assert_eq!(listed(&log, "t").await, ["d", "c", "b", "a"].map(RunId::from));
}

/// A clock that is wrong by more than a lease is not followed: the time of a run would be wrong in the whole fleet.
#[tokio::test(start_paused = true)]
async fn a_clock_far_ahead_is_not_followed() {
    let log = Arc::new(MemoryLog::default());
    let (far, right) = (replica(&log, 3_600_000), replica(&log, 0));
    run(&far, "r1").await;
    run(&right, "r2").await;
    assert!(log.state(&"r2".into()).await.unwrap().meta.opened_at < Timestamp(1_010_000));
}

async fn publish(replica: &Replica) -> Box<dyn Ingest> {
    let request = PublishRequest {
        agent: "workflow".to_owned(),
        thread_id: Some("t".into()),
        run_id: Some("p".into()),
        format: "lines".to_owned(),
    };
    replica.runs.publish(&Caller::default(), request).await.unwrap()
}

async fn reply(replica: &Replica) -> StartedRun {
    let mut input = RunInput::prompt("t", "answer", "");
    input.messages.clear();
    input.resume = vec![InterruptReply { id: "q".into(), resolved: true, payload: Some(json!("yes")) }];
    replica.runs.start(&Caller::default(), "workflow", input).await.unwrap()
}

/// The run that replies was opened by a replica whose clock is so slow that it seems older than the run that asked.
#[tokio::test(start_paused = true)]
async fn a_published_run_of_a_dead_replica_ends_although_it_seems_older_than_the_run_that_asked() {
    let log = Arc::new(MemoryLog::default());
    let (owner, other) = (replica(&log, 0), replica(&log, -10_000));
    let mut publisher = publish(&owner).await;
    publisher.accept(1, "before".into()).await.unwrap();
    publisher.accept(2, "ask q".into()).await.unwrap();
    let mut answer = reply(&other).await;
    publisher.reply().await;
    publisher.accept(3, "after".into()).await.unwrap();
    while log.state(&"answer".into()).await.unwrap().head < 3 {
        answer.events.next().await.unwrap();
    }
    // The owner dies. Its leases lapse after ten seconds more, by the slow clock.
    std::mem::forget((publisher, owner));
    other.ahead.store(60_000, Ordering::Relaxed);
    let mut sweeps = 0;
    while log.state(&"answer".into()).await.unwrap().closed_at.is_none() {
        assert!(sweeps < 30, "the run never ends");
        other.runs.sweep_once().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        sweeps += 1;
    }
    assert_eq!(listed(&log, "\u{1f}t").await.len(), 1, "no mailbox but that of the owner");
}
