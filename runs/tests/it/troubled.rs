//! Runs on a log that refuses calls for a while. Their agents must not receive a cancel: the log's trouble is not the caller's
//! wish, and another replica may drive the run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_core::agent::{AgentRequest, Checkpoint, Takeover};
use aqueduct_core::service::{Caller, NumberedEvent, RefusalKind, RunService as _};
use aqueduct_core::{Agent, BlockEvent, CancelToken, RunInput, SourceEvent, SourceStream, Timestamp, Update};
use aqueduct_runlog::{LogScope, RunLog as _};
use aqueduct_runs::{AgentOptions, Clock, Runs, Settings};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::troubled_log::{ChangePage, Troubled};

/// An agent that emits what it is given, and reports how its stream ends: `true` for a cancel, `false` if it is dropped.
struct Prompted {
    words: watch::Receiver<usize>,
    ended: mpsc::Sender<bool>,
}

/// Reports that a stream was dropped without a cancel.
struct Dropped(CancelToken, mpsc::Sender<bool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.0.is_cancelled() {
            self.1.try_send(false).ok();
        }
    }
}

impl Agent for Prompted {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let (words, ended, cancel) = (self.words.clone(), self.ended.clone(), request.cancel);
        let state = (words, Dropped(cancel.clone(), ended.clone()));
        let emitted = stream::unfold(state, move |(mut words, dropped)| {
            let (cancel, ended) = (cancel.clone(), ended.clone());
            async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {
                        ended.try_send(true).ok();
                        return None;
                    }
                    _ = words.changed() => {}
                }
                let text = format!("word {} ", *words.borrow());
                Some((Update::text(text).in_message("m").into(), (words, dropped)))
            }
        });
        let checkpoint = SourceEvent::Checkpoint(Checkpoint(json!({ "task": 1 })));
        Box::pin(stream::iter([checkpoint]).chain(emitted))
    }

    fn can_resume(&self, _: &Checkpoint) -> bool {
        true
    }
}

const LEASE: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(20);

struct World {
    log: Arc<Troubled>,
    runs: Runs,
    words: watch::Sender<usize>,
    ended: mpsc::Receiver<bool>,
    began_at: Instant,
}

impl World {
    fn new() -> Self {
        let log = Arc::new(Troubled::default());
        let (words, said) = watch::channel(0);
        let (report, ended) = mpsc::channel(8);
        let began_at = Instant::now();
        let clock: Clock = Arc::new(move || now(began_at));
        let runs = Runs::builder()
            .agent_with(
                "a",
                Prompted { words: said, ended: report },
                AgentOptions::default().with_grace(GRACE),
            )
            .shared_log(Arc::clone(&log) as _)
            .settings(Settings::default().with_lease(LEASE).with_scope(LogScope::Replicas))
            .clock(clock)
            .build();
        tokio::spawn(runs.clone().run_housekeeping());
        Self { log, runs, words, ended, began_at }
    }

    fn now(&self) -> Timestamp {
        now(self.began_at)
    }
}

fn now(began_at: Instant) -> Timestamp {
    Timestamp(1_000_000 + i64::try_from(began_at.elapsed().as_millis()).unwrap())
}

/// The lease is lost while the log refuses the owner's appends: the agent works for the replica that took the run over.
#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_lease_in_an_outage_does_not_cancel_the_agent() {
    let mut world = World::new();
    let mut started =
        world.runs.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    started.events.next().await.unwrap();
    world.log.refuses_appends.store(true, Ordering::SeqCst);
    world.words.send(1).unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let lapsed = Timestamp(world.now().0 + 60_000);
    world.log.log.take_over(&"r".into(), lapsed, Timestamp(lapsed.0 + 60_000)).await.unwrap();
    let is_cancelled = tokio::time::timeout(Duration::from_secs(60), world.ended.recv()).await;
    assert_eq!(is_cancelled, Ok(Some(false)), "the stream is dropped, and the agent is not cancelled");
}

/// A log that cannot say whether a run is watched elsewhere is asked again.
#[tokio::test(start_paused = true)]
async fn a_run_is_not_cancelled_because_the_log_cannot_tell_its_watchers() {
    let mut world = World::new();
    let started =
        world.runs.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    drop(started);
    world.log.refuses_states.store(true, Ordering::SeqCst);
    world.log.watched(&"r".into(), Timestamp(world.now().0 + 60_000)).await.unwrap();
    let is_cancelled = tokio::time::timeout(GRACE + LEASE, world.ended.recv()).await;
    assert!(is_cancelled.is_err(), "cancelled although it is watched: {is_cancelled:?}");
    world.log.refuses_states.store(false, Ordering::SeqCst);
    let is_cancelled = tokio::time::timeout(Duration::from_secs(120), world.ended.recv()).await;
    assert_eq!(is_cancelled, Ok(Some(true)), "the run has no watcher, here or elsewhere");
}

/// The grace begins when the last watcher leaves, at whatever replica it was.
#[tokio::test(start_paused = true)]
async fn the_grace_begins_when_the_last_watcher_leaves_another_replica() {
    let mut world = World::new();
    let started =
        world.runs.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    drop(started);
    // Longer than the grace, so that the local countdown has ended before the remote watcher leaves.
    world.log.watched(&"r".into(), Timestamp(world.now().0 + 30_000)).await.unwrap();
    let until = |seconds| tokio::time::sleep_until(world.began_at + Duration::from_secs(seconds));
    until(48).await;
    assert!(world.ended.try_recv().is_err(), "cancelled within the grace of its last watcher");
    until(53).await;
    assert_eq!(world.ended.try_recv(), Ok(true));
}

/// An agent whose work is found again: the answer as a whole.
struct Kept;

impl Agent for Kept {
    fn run(&self, _: AgentRequest) -> SourceStream {
        let words = ["one ", "two "].map(|word| Update::text(word).in_message("m").into());
        let checkpoint = SourceEvent::Checkpoint(Checkpoint(json!({ "task": 1 })));
        Box::pin(stream::iter([checkpoint].into_iter().chain(words)).chain(stream::pending()))
    }

    fn can_resume(&self, _: &Checkpoint) -> bool {
        true
    }

    fn resume(&self, _: AgentRequest, takeover: Takeover) -> SourceStream {
        let whole = vec![Update::text("one two three").in_message("m").snapshot().last().into()];
        let (rest, _) = takeover.history.deduplicate(whole, |_| false);
        Box::pin(stream::iter(rest).chain(stream::iter([SourceEvent::finished()])))
    }
}

/// Returns the words of a run that another replica took over while the log changed its pages.
async fn words_after_takeover(change: ChangePage) -> String {
    let log = Arc::new(Troubled::default());
    let replica = |ahead: i64| {
        let clock: Clock = Arc::new(move || Timestamp(1_000_000 + ahead));
        Runs::builder().agent("a", Kept).shared_log(Arc::clone(&log) as _).clock(clock).build()
    };
    let (owner, other) = (replica(0), replica(60_000));
    let mut started =
        owner.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    let is_second =
        |event: &BlockEvent| matches!(event, BlockEvent::BlockDelta { delta, .. } if **delta == *"two ");
    while !is_second(&started.events.next().await.unwrap().event) {}
    // Its watcher would read the changed pages, too.
    drop(started);
    *log.page.lock().unwrap() = Some(change);
    other.sweep_once().await.unwrap();
    while log.log.state(&"r".into()).await.unwrap().closed_at.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stored = log.log.read(&"r".into(), 0, 100).await.unwrap().events;
    let delta = |event: NumberedEvent| match event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    };
    stored.into_iter().filter_map(delta).collect()
}

/// An engine may serve a page from its memory, to which the last events of the storage have not come yet.
#[tokio::test(start_paused = true)]
async fn a_takeover_reads_events_behind_a_page_that_ends_early() {
    let words = words_after_takeover(|mut page| {
        let last = page.events.len().saturating_sub(1);
        if page.events.len() > 1 {
            page.events.truncate(last);
            page.head -= 1;
        }
        page
    });
    assert_eq!(words.await, "one two three");
}

/// Storage that came back without its last events, while the memory of an engine still has them.
#[tokio::test(start_paused = true)]
async fn a_takeover_ignores_events_that_the_log_does_not_hold() {
    let words = words_after_takeover(|mut page| {
        let lost = page.events.last().cloned().map(|last| NumberedEvent { number: last.number + 1, ..last });
        page.head += 1;
        page.events.extend(lost);
        page
    });
    assert_eq!(words.await, "one two three");
}

/// No other replica can take the run over before the new lease lapses: a call that fails is made again.
#[tokio::test(start_paused = true)]
async fn a_takeover_goes_on_after_calls_that_fail_for_a_moment() {
    let log = Arc::new(Troubled::default());
    let replica = |ahead: i64| {
        let clock: Clock = Arc::new(move || Timestamp(1_000_000 + ahead));
        let settings = Settings::default().with_lease(LEASE);
        let runs = Runs::builder().agent("a", Kept).shared_log(Arc::clone(&log) as _);
        runs.settings(settings).clock(clock).build()
    };
    let (owner, other) = (replica(0), replica(60_000));
    let started = owner.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    drop(started);
    log.refuses_states.store(true, Ordering::SeqCst);
    let recovery = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        log.refuses_states.store(false, Ordering::SeqCst);
    };
    let (swept, ()) = tokio::join!(other.sweep_once(), recovery);
    swept.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(log.log.state(&"r".into()).await.unwrap().closed_at.is_some(), "no replica drives the run");
}

/// An A2A task that other replicas would not find is not promised to its client.
#[tokio::test(start_paused = true)]
async fn a_run_whose_record_is_not_stored_is_refused() {
    let world = World::new();
    world.log.refuses_notes.store(true, Ordering::SeqCst);
    let input = |run: &'static str, record: Option<Value>| {
        let mut input = RunInput::prompt("t", run, "hello");
        input.record = record.map(Arc::new);
        input
    };
    let start = |input| world.runs.start(&Caller::default(), "a", input);
    let refused = start(input("r1", Some(json!({ "task": "r1" })))).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    start(input("r2", None)).await.unwrap();
    world.log.refuses_notes.store(false, Ordering::SeqCst);
    start(input("r3", Some(json!({ "task": "r3" })))).await.unwrap();
}

/// No other replica can take over a run that the log does not have: its agent works for no watcher.
#[tokio::test(start_paused = true)]
async fn the_agent_of_a_run_that_vanished_from_the_log_is_cancelled() {
    let mut world = World::new();
    let started =
        world.runs.start(&Caller::default(), "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    world.log.is_empty.store(true, Ordering::SeqCst);
    let ended = tokio::time::timeout(LEASE, world.ended.recv()).await;
    assert_eq!(ended.unwrap(), Some(true), "the agent was not cancelled");
    drop(started);
}

/// A log that cannot be read does not say that the run does not exist.
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_looked_up_is_not_reported_as_missing() {
    let world = World::new();
    let anyone = Caller::default();
    let _started = world.runs.start(&anyone, "a", RunInput::prompt("t", "r", "hello")).await.unwrap();
    let kind = async || world.runs.find_run(&anyone, &"r".into()).await.map(drop).map_err(|error| error.kind);
    world.log.refuses_states.store(true, Ordering::SeqCst);
    assert_eq!(kind().await, Err(RefusalKind::Unavailable));
    world.log.refuses_states.store(false, Ordering::SeqCst);
    assert_eq!(kind().await, Ok(()));
}
