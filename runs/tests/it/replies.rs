//! Replies to interrupts: taken once, bound to the run that asked and to its principal.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::service::{Caller, NumberedEvent, RefusalKind, RunService as _, ServiceError, StartedRun};
use aqueduct_core::{
    BlockEvent, Identity, Interrupt, InterruptId, InterruptReply, Principal, RunId, RunInput, RunOutcome,
    SourceEvent, Timestamp, Update,
};
use aqueduct_runlog::{LogLimits, MemoryLog, RunLog, RunQuery};
use aqueduct_runs::{AccessPolicy, Runs};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::troubled_log::Troubled;

/// The replies that the agent was given.
type Given = Arc<Mutex<Vec<Value>>>;

/// The token is the principal.
#[derive(Debug)]
struct ByToken;

impl AccessPolicy for ByToken {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let principal = Principal::new("tenant", caller.token.clone().unwrap_or_default());
        let refused = || ServiceError::new(RefusalKind::Unauthenticated, "send a token");
        principal.map(|principal| Arc::new(Identity::new(principal))).ok_or_else(refused)
    }
}

/// An agent that asks until it has `asks` replies, one question a run. A reply "unreachable" fails the first time.
fn asking(
    asks: usize,
    given: &Given,
) -> impl Fn(RunInput) -> stream::Iter<std::vec::IntoIter<SourceEvent>> + use<> {
    let given = Arc::clone(given);
    move |input: RunInput| {
        let mut given = given.lock().unwrap();
        let said = input.resume.first().and_then(|reply| reply.payload.clone());
        if let Some(said) = said {
            let fails = said == "unreachable" && !given.contains(&said);
            given.push(said.clone());
            if fails {
                return stream::iter(vec![SourceEvent::failed("unreachable", "the agent is away")]);
            }
            if given.len() >= asks {
                return stream::iter(vec![
                    Update::text(format!("done: {said}")).into(),
                    SourceEvent::finished(),
                ]);
            }
        }
        let id = format!("q{}", given.len() + 1);
        let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
        stream::iter(vec![SourceEvent::interrupt(Interrupt::new(id, "input_required")), waits])
    }
}

/// An agent that asks `q1`. Its runs that reply go on without end.
fn endless_after_reply(input: &RunInput) -> BoxStream<'static, SourceEvent> {
    let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
    let asks = stream::iter(vec![SourceEvent::interrupt(Interrupt::new("q1", "x")), waits]);
    if input.resume.is_empty() { asks.boxed() } else { stream::pending().boxed() }
}

fn engine(log: &Arc<dyn RunLog>, asks: usize, given: &Given) -> Runs {
    let runs = Runs::builder().access(Arc::new(ByToken)).shared_log(Arc::clone(log)).build();
    runs.agent("asking", asking(asks, given))
}

fn caller(token: &str) -> Caller {
    Caller { token: Some(token.to_owned()), ..Caller::default() }
}

fn reply(run: &str, id: &str, payload: &str) -> RunInput {
    let mut input = RunInput::prompt("thread", run.to_owned(), "");
    input.messages.clear();
    let id = InterruptId::new(id.to_owned());
    input.resume = vec![InterruptReply { id, resolved: true, payload: Some(json!(payload)) }];
    input
}

async fn start(runs: &Runs, token: &str, input: RunInput) -> Result<StartedRun, ServiceError> {
    runs.start(&caller(token), "asking", input).await
}

async fn all(started: StartedRun) -> Vec<NumberedEvent> {
    started.events.collect().await
}

/// The run that asks `q1`.
async fn ask(runs: &Runs) {
    let started = start(runs, "ada", RunInput::prompt("thread", "r1", "go")).await.unwrap();
    assert!(
        matches!(&all(started).await.last().unwrap().event, BlockEvent::RunFinished(end) if end.interrupts.len() == 1)
    );
}

fn shown(events: &[NumberedEvent]) -> Vec<String> {
    let id = |event: &NumberedEvent| match &event.event {
        BlockEvent::RunStarted(run) => Some(run.run_id.to_string()),
        BlockEvent::RunFinished(end) => Some(end.run.run_id.to_string()),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

fn engines() -> Vec<(&'static str, Arc<dyn RunLog>, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let disk = aqueduct_runlog::DiskLog::open(folder.path(), LogLimits::default()).unwrap();
    vec![("memory", Arc::new(MemoryLog::default()), None), ("disk", Arc::new(disk), Some(folder))]
}

#[tokio::test]
async fn a_reply_under_the_id_of_the_run_that_asked_goes_on_under_it() {
    for (name, log, _folder) in engines() {
        let given = Given::default();
        let runs = engine(&log, 2, &given);
        ask(&runs).await;
        let second = start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap();
        assert_eq!(second.run_id.as_str(), "r1~resume1", "{name}");
        assert_eq!(shown(&all(second).await), ["r1", "r1"], "{name}");
        let third = all(start(&runs, "ada", reply("r1", "q2", "no")).await.unwrap()).await;
        assert_eq!(shown(&third), ["r1", "r1"], "{name}");
        let ids: Vec<_> = third
            .iter()
            .filter_map(|event| match &event.event {
                BlockEvent::BlockStarted(block) => Some(block.id.to_string()),
                _ => None,
            })
            .collect();
        assert!(ids[0].starts_with("r1~resume2"), "{name}: ids of blocks stay unique in the thread: {ids:?}");
        assert_eq!(*given.lock().unwrap(), [json!("yes"), json!("no")], "{name}");
    }
}

#[tokio::test]
async fn the_same_reply_again_adds_nothing() {
    for (name, log, _folder) in engines() {
        for run in ["r1", "r2"] {
            let given = Given::default();
            let runs = engine(&log, 1, &given);
            let thread = format!("{run}-{name}");
            let at = |mut input: RunInput, run: &str| {
                input.thread_id = thread.clone().into();
                input.run_id = RunId::from(format!("{thread}-{run}"));
                input
            };
            all(start(&runs, "ada", at(RunInput::prompt("t", "r", "go"), "r1")).await.unwrap()).await;
            let first = start(&runs, "ada", at(reply("r", "q1", "yes"), run)).await.unwrap();
            assert!(!first.is_repeat);
            let first = all(first).await;
            let again = start(&runs, "ada", at(reply("r", "q1", "yes"), run)).await.unwrap();
            assert!(again.is_repeat);
            assert_eq!(all(again).await, first, "{name}");
            assert_eq!(given.lock().unwrap().len(), 1, "{name}");
            let query = RunQuery { thread_id: Some(thread.clone().into()), ..RunQuery::default() };
            assert_eq!(log.list(query, 10).await.unwrap().len(), 2, "{name}");
            let other = start(&runs, "ada", at(reply("r", "q1", "no"), run)).await.unwrap_err();
            assert_eq!(other.kind, RefusalKind::Conflict);
            assert!(other.message.contains("\"q1\"") && other.message.contains("answered"), "{other}");
        }
    }
}

#[tokio::test]
async fn unknown_ids_and_other_principals_are_refused_by_name() {
    let (log, given): (Arc<dyn RunLog>, _) = (Arc::new(MemoryLog::default()), Given::default());
    let runs = engine(&log, 1, &given);
    ask(&runs).await;
    for (token, id) in [("ada", "q9"), ("eve", "q1")] {
        let refused = start(&runs, token, reply("r2", id, "yes")).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Conflict);
        assert!(refused.message.contains(&format!("{id:?}")), "{refused}");
    }
    assert!(given.lock().unwrap().is_empty());
    all(start(&runs, "ada", reply("r2", "q1", "yes")).await.unwrap()).await;
}

#[tokio::test]
async fn a_reply_that_did_not_reach_the_agent_may_be_sent_again_once() {
    let (log, given): (Arc<dyn RunLog>, _) = (Arc::new(MemoryLog::default()), Given::default());
    let runs = engine(&log, 3, &given);
    ask(&runs).await;
    let failed = all(start(&runs, "ada", reply("r1", "q1", "unreachable")).await.unwrap()).await;
    assert!(matches!(failed.last().unwrap().event, BlockEvent::RunFailed(_)));
    all(start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap()).await;
    assert_eq!(given.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_replies_at_once_at_several_replicas_one_is_taken() {
    let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
    let given = Given::default();
    let replicas: Vec<Runs> = (0..3).map(|_| engine(&log, 1, &given)).collect();
    ask(&replicas[0]).await;
    let tries = (0..24).map(|n: usize| {
        let runs = replicas[n % 3].clone();
        // Under the id of the run that asked, under ids of their own, with two different answers.
        let run = if n.is_multiple_of(2) { "r1".to_owned() } else { format!("own-{n}") };
        let answer = if n % 4 < 2 { "yes" } else { "no" };
        tokio::spawn(async move { start(&runs, "ada", reply(&run, "q1", answer)).await })
    });
    let tries = futures_util::future::join_all(tries).await;
    let started: Vec<StartedRun> = tries.into_iter().filter_map(|tried| tried.unwrap().ok()).collect();
    assert_eq!(started.iter().filter(|started| !started.is_repeat).count(), 1);
    let first = started[0].run_id.clone();
    assert!(started.iter().all(|started| started.run_id == first), "the others are the same run");
    for started in started {
        all(started).await;
    }
    assert_eq!(given.lock().unwrap().len(), 1, "the agent was given one reply");
}

#[tokio::test]
async fn a_cancel_under_the_id_of_the_client_reaches_the_run_that_goes_on() {
    let runs = Runs::new().agent("asking", |input: RunInput| endless_after_reply(&input));
    let anyone = Caller::default();
    all(runs.start(&anyone, "asking", RunInput::prompt("thread", "r1", "go")).await.unwrap()).await;
    let going = runs.start(&anyone, "asking", reply("r1", "q1", "yes")).await.unwrap();
    assert!(runs.cancel(&anyone, &RunId::from("r1")).await.unwrap());
    assert!(
        matches!(&all(going).await.last().unwrap().event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Cancelled)
    );
    assert!(!runs.cancel(&anyone, &RunId::from("r1")).await.unwrap());
}

#[tokio::test]
async fn a_reply_under_an_id_of_its_own_keeps_that_id() {
    let (log, given): (Arc<dyn RunLog>, _) = (Arc::new(MemoryLog::default()), Given::default());
    let runs = engine(&log, 1, &given);
    ask(&runs).await;
    assert_eq!(start(&runs, "ada", reply("r2", "q1", "yes")).await.unwrap().run_id.as_str(), "r2");
}

#[tokio::test]
async fn an_earlier_interrupt_is_answered_although_a_later_one_is_open() {
    let (log, given): (Arc<dyn RunLog>, _) = (Arc::new(MemoryLog::default()), Given::default());
    let runs = engine(&log, 2, &given);
    ask(&runs).await;
    all(start(&runs, "ada", reply("r2", "q1", "yes")).await.unwrap()).await;
    let late = start(&runs, "ada", reply("r3", "q1", "no")).await.unwrap_err();
    assert!(late.message.contains("\"q1\"") && late.message.contains("answered already"), "{late}");
    all(start(&runs, "ada", reply("r3", "q2", "no")).await.unwrap()).await;
    assert_eq!(*given.lock().unwrap(), [json!("yes"), json!("no")]);
}

#[tokio::test]
async fn an_answered_interrupt_stays_answered_when_leases_and_claims_have_lapsed() {
    let (log, given): (Arc<dyn RunLog>, _) = (Arc::new(MemoryLog::default()), Given::default());
    let now = Arc::new(AtomicI64::new(1_000_000));
    let clock = Arc::clone(&now);
    let runs = Runs::builder().access(Arc::new(ByToken)).shared_log(Arc::clone(&log));
    let runs = runs.clock(Arc::new(move || Timestamp(clock.load(Ordering::SeqCst)))).build();
    let runs = runs.agent("asking", asking(1, &given));
    ask(&runs).await;
    let first = all(start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap()).await;
    now.fetch_add(60_000, Ordering::SeqCst);
    let again = start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap();
    assert!(again.is_repeat, "a claim whose run is open is kept for longer than a lease");
    assert_eq!(all(again).await, first);
    now.fetch_add(2 * 60 * 60 * 1_000, Ordering::SeqCst);
    let refused = start(&runs, "ada", reply("r1", "q1", "no")).await.unwrap_err();
    assert!(refused.message.contains("answered already"), "{refused}");
    assert_eq!(given.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_cancel_does_not_reach_the_reply_of_another_principal() {
    let runs = Runs::builder()
        .access(Arc::new(ByToken))
        .build()
        .agent("asking", |input: RunInput| endless_after_reply(&input));
    for token in ["ada", "eve"] {
        all(start(&runs, token, RunInput::prompt("thread", "r1", "go")).await.unwrap()).await;
    }
    let going = start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap();
    assert!(!runs.cancel(&caller("eve"), &RunId::from("r1")).await.unwrap());
    assert!(runs.cancel(&caller("ada"), &RunId::from("r1")).await.unwrap());
    assert!(
        matches!(&all(going).await.last().unwrap().event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Cancelled)
    );
}

/// An engine with an agent that asks, and others whose runs end, or go on without end.
fn crowded(given: &Given) -> Runs {
    let log: Arc<dyn RunLog> = Arc::new(MemoryLog::default());
    let asking = asking(1, given);
    let runs = engine(&log, 1, given).agent("other", |_: RunInput| stream::iter([SourceEvent::finished()]));
    runs.agent("asking", move |input: RunInput| {
        if input.run_id.as_str() == "endless" && input.resume.is_empty() {
            return stream::pending().boxed();
        }
        asking(input).boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn a_reply_under_the_id_of_an_unrelated_run_is_refused_and_the_question_stays_open() {
    let given = Given::default();
    let runs = crowded(&given);
    ask(&runs).await;
    let elsewhere = RunInput::prompt("elsewhere", "thread-taken", "go");
    all(start(&runs, "ada", elsewhere).await.unwrap()).await;
    let other = RunInput::prompt("thread", "agent-taken", "go");
    all(runs.start(&caller("ada"), "other", other).await.unwrap()).await;
    let _endless = start(&runs, "ada", RunInput::prompt("thread", "endless", "go")).await.unwrap();
    for id in ["thread-taken", "agent-taken", "endless"] {
        for attempt in ["first", "again"] {
            let refused = start(&runs, "ada", reply(id, "q1", "yes")).await;
            let refused = refused.map(|started| started.is_repeat).map_err(|error| error.kind);
            assert_eq!(refused, Err(RefusalKind::Conflict), "{id}, {attempt}");
        }
        let dismissed = runs.dismiss(&caller("ada"), "asking", reply(id, "q1", "no")).await;
        assert_eq!(dismissed.map_err(|error| error.kind).err(), Some(RefusalKind::Conflict), "{id}");
    }
    assert!(given.lock().unwrap().is_empty(), "no agent got a refused reply");
    let started = start(&runs, "ada", reply("free", "q1", "yes")).await.unwrap();
    assert!(!started.is_repeat);
    all(started).await;
    assert_eq!(given.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_second_reply_is_refused_while_the_run_of_the_first_one_goes_on() {
    let runs = Runs::builder()
        .access(Arc::new(ByToken))
        .build()
        .agent("asking", |input: RunInput| endless_after_reply(&input));
    ask(&runs).await;
    let _going = start(&runs, "ada", reply("r2", "q1", "yes")).await.unwrap();
    let refused = start(&runs, "ada", reply("r3", "q1", "no")).await.map(drop).unwrap_err();
    assert!(refused.message.contains("answered already"), "{refused}");
    assert!(start(&runs, "ada", reply("r2", "q1", "yes")).await.unwrap().is_repeat);
}

#[tokio::test]
async fn a_cancel_of_a_run_that_asked_reaches_no_run_but_its_reply() {
    let given = Given::default();
    let runs = crowded(&given);
    ask(&runs).await;
    let _endless = start(&runs, "ada", RunInput::prompt("thread", "endless", "go")).await.unwrap();
    assert!(!runs.cancel(&caller("ada"), &"r1".into()).await.unwrap(), "it has no reply");
    all(start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap()).await;
    assert!(!runs.cancel(&caller("ada"), &"r1".into()).await.unwrap(), "its reply has ended");
    assert_eq!(runs.active_runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_reply_waits_five_seconds_for_the_state_of_the_first_one() {
    let log = Arc::new(Troubled::default());
    let runs = Runs::builder().access(Arc::new(ByToken)).shared_log(Arc::clone(&log) as _).build();
    let runs = runs.agent("asking", |input: RunInput| endless_after_reply(&input));
    ask(&runs).await;
    let first = start(&runs, "ada", reply("r1", "q1", "yes")).await.unwrap();
    log.refuses_states_after_claim.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    let refused = start(&runs, "ada", reply("r1", "q1", "yes")).await.map(drop).unwrap_err();
    assert_eq!((refused.kind, begun.elapsed()), (RefusalKind::Unavailable, Duration::from_secs(5)));
    log.refuses_states.store(false, Ordering::SeqCst);
    let begun = Instant::now();
    let available = async {
        sleep(Duration::from_millis(4_990)).await;
        log.refuses_states.store(false, Ordering::SeqCst);
    };
    let (again, ()) = tokio::join!(start(&runs, "ada", reply("r1", "q1", "yes")), available);
    let again = again.unwrap();
    assert_eq!((again.is_repeat, again.run_id), (true, first.run_id));
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}
