//! The engine with agents of the test's own, on a clock of the test's own.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::agent::{AgentRequest, CallContext, Checkpoint, Takeover};
use aqueduct_core::service::{
    BoxFuture, Caller, EventStream, NumberedEvent, RefusalKind, RunService as _, ServiceError, StartedRun,
};
use aqueduct_core::{
    Agent, AgentGrant, BlockEvent, Identity, Interrupt, Principal, RunId, RunInput, RunOutcome, Source,
    SourceEvent, SourceStream, Timestamp, Update, Usage,
};
use aqueduct_runlog::{Control, LogScope, MemoryLog, RunLog as _};
use aqueduct_runs::{
    AccessPolicy, AgentEntry, AgentOptions, OnDisconnect, RunExtension, RunExtensions, RunHandle, RunOrigin,
    RunStart, Runs, Settings,
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

/// An agent that is a function of its request.
struct Asked<F>(F);

impl<F: Fn(AgentRequest) -> SourceStream + Send + Sync + 'static> Agent for Asked<F> {
    fn run(&self, request: AgentRequest) -> SourceStream {
        (self.0)(request)
    }
}

fn input(run: &str) -> RunInput {
    RunInput::prompt("thread", run.to_owned(), "hello")
}

async fn start(runs: &Runs, agent: &str, run: &str) -> StartedRun {
    runs.start(&Caller::default(), agent, input(run)).await.unwrap()
}

async fn all(events: EventStream) -> Vec<NumberedEvent> {
    events.collect().await
}

fn failure(events: &[NumberedEvent]) -> Option<String> {
    match &events.last()?.event {
        BlockEvent::RunFailed(end) => Some(end.failure.code.to_string()),
        _ => None,
    }
}

fn outcome(events: &[NumberedEvent]) -> Option<RunOutcome> {
    match &events.last()?.event {
        BlockEvent::RunFinished(end) => Some(end.outcome),
        _ => None,
    }
}

fn text(events: &[NumberedEvent]) -> String {
    let delta = |event: &NumberedEvent| match &event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

#[tokio::test]
async fn a_run_of_a_function_is_logged_from_its_first_event_to_its_last() {
    let runs = Runs::new().agent("echo", |input: RunInput| stream::iter([Update::text(input.text())]));
    let events = all(start(&runs, "echo", "r").await.events).await;
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!((text(&events), outcome(&events)), ("hello".to_owned(), Some(RunOutcome::Success)));
    let again = all(runs.watch(&Caller::default(), &"r".into(), 2).await.unwrap()).await;
    assert_eq!(again, events[2..]);
    let taken = runs.start(&Caller::default(), "echo", input("r")).await.unwrap_err();
    assert!(taken.message.contains("choose another run id"), "{taken}");
}

#[tokio::test]
async fn a_turn_is_one_value() {
    let runs = Runs::new().agent("oracle", |_: RunInput| {
        let helper = Source::root().child("helper");
        stream::iter([
            Update::thinking("Let me look.").in_message("m1"),
            Update::tool_use("c1", "search", json!({ "q": "x" })).in_message("m1"),
            Update::text("helping").from_source(&helper).intermediate(),
            Update::tool_result("c1", "42"),
            Update::text("The answer ").in_message("m2"),
            Update::text("is 42.").in_message("m2"),
        ])
    });
    let completion = runs.complete(&Caller::default(), "oracle", input("r")).await.unwrap();
    assert!(completion.is_success() && completion.failure().is_none());
    assert_eq!(completion.text(), "The answer is 42.");
    let contents = |message: &aqueduct_core::Message| message.contents.len();
    let shape: Vec<_> =
        completion.response.messages.iter().map(|m| (m.source.name().to_owned(), contents(m))).collect();
    let root = completion.response.messages.iter().filter(|m| m.source == Source::root()).count();
    assert_eq!(shape.iter().take(root).filter(|(name, _)| name.is_empty()).count(), root, "{shape:?}");
    assert!(completion.response.messages.iter().any(|message| message.source.name() == "helper"));
}

#[tokio::test]
async fn a_value_says_how_its_run_ended() {
    let runs = Runs::new()
        .agent("broken", |_: RunInput| {
            stream::iter([Ok(Update::text("half")), Err(std::io::Error::other("out of words"))])
        })
        .agent("asking", |_: RunInput| {
            let interrupt = Interrupt::new("i1", "input_required");
            let waits = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
            stream::iter([SourceEvent::interrupt(interrupt), waits])
        });
    let broken = runs.complete(&Caller::default(), "broken", input("a")).await.unwrap();
    assert_eq!((broken.text().as_str(), broken.is_success()), ("half", false));
    assert_eq!(&*broken.failure().unwrap().message, "out of words");
    let asking = runs.complete(&Caller::default(), "asking", input("b")).await.unwrap();
    assert!(!asking.is_success() && asking.failure().is_none());
    assert_eq!(asking.interrupts.len(), 1);
}

#[tokio::test]
async fn an_agent_that_panics_fails_its_run_alone() {
    let runs = Runs::new()
        .agent("at-start", |input: RunInput| -> stream::Empty<Update> { panic!("no {}", input.run_id) })
        .agent("later", |_: RunInput| {
            stream::iter(0..3).map(|n| if n < 2 { Update::text(n.to_string()) } else { panic!("at {n}") })
        });
    for (agent, said) in [("at-start", ""), ("later", "01")] {
        let events = all(start(&runs, agent, agent).await.events).await;
        assert_eq!(failure(&events).as_deref(), Some("agent_panicked"), "{agent}");
        assert_eq!(text(&events), said);
    }
    assert_eq!(runs.active_runs(), 0);
}

#[tokio::test]
async fn a_stream_that_ends_without_saying_so_was_cut() {
    let cut = |_: AgentRequest| -> SourceStream { Box::pin(stream::iter([Update::text("half").into()])) };
    let runs = Runs::new().agent("cut", Asked(cut));
    let events = all(start(&runs, "cut", "r").await.events).await;
    assert_eq!(failure(&events).as_deref(), Some(aqueduct_core::RunFailure::UPSTREAM_ENDED));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_only_ends_its_stream_after_a_cancel_is_cancelled() {
    let leaves = |request: AgentRequest| -> SourceStream {
        let begun = stream::iter([SourceEvent::from(Update::text("half"))]);
        let rest = stream::once(async move { request.cancel.cancelled().await });
        Box::pin(begun.chain(rest.filter_map(|()| std::future::ready(None))))
    };
    let runs = Runs::new().agent("leaves", Asked(leaves));
    let mut started = start(&runs, "leaves", "r").await;
    started.events.next().await.unwrap();
    assert!(runs.cancel(&Caller::default(), &started.run_id).await.unwrap());
    let events = all(started.events).await;
    assert_eq!((outcome(&events), failure(&events)), (Some(RunOutcome::Cancelled), None));
}

/// Waits for its cancellation, then takes its time to tell its remote side.
fn slow_to_leave(told: &Arc<AtomicBool>, takes: Duration) -> impl Agent {
    let told = Arc::clone(told);
    Asked(move |request: AgentRequest| -> SourceStream {
        let told = Arc::clone(&told);
        let leave = async move {
            request.cancel.cancelled().await;
            tokio::time::sleep(takes).await;
            told.store(true, Ordering::SeqCst);
            SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }
        };
        Box::pin(stream::once(leave))
    })
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_told_although_its_run_has_ended() {
    for (takes, is_told) in [(5, true), (60, false)] {
        let told = Arc::new(AtomicBool::new(false));
        let runs = Runs::new().agent("slow", slow_to_leave(&told, Duration::from_secs(takes)));
        let started = start(&runs, "slow", "r").await;
        let begun = tokio::time::Instant::now();
        assert!(runs.cancel(&Caller::default(), &started.run_id).await.unwrap());
        let events = all(started.events).await;
        assert_eq!(outcome(&events), Some(RunOutcome::Cancelled));
        assert!(begun.elapsed() <= Duration::from_secs(1), "the frontend does not wait for the agent");
        assert!(!told.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(told.load(Ordering::SeqCst), is_told, "within the time that an agent has to leave");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_watchers_ends_as_its_options_say() {
    for (on_disconnect, after) in [(OnDisconnect::Cancel, 0), (OnDisconnect::Continue, 60)] {
        let told = Arc::new(AtomicBool::new(false));
        let options = AgentOptions::default().with_on_disconnect(on_disconnect);
        let runs = Runs::new().agent_with("slow", slow_to_leave(&told, Duration::ZERO), options);
        let begun = tokio::time::Instant::now();
        drop(start(&runs, "slow", "r").await);
        while runs.active_runs() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(begun.elapsed().as_secs(), after);
        assert!(told.load(Ordering::SeqCst));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_fails() {
    let options = AgentOptions::default().with_run_timeout(Duration::from_secs(7));
    let runs = Runs::new().agent_with("mute", |_: RunInput| stream::pending::<Update>(), options);
    let begun = tokio::time::Instant::now();
    let events = all(start(&runs, "mute", "r").await.events).await;
    assert_eq!((failure(&events).as_deref(), begun.elapsed().as_secs()), (Some("run_timeout"), 7));
}

#[tokio::test]
async fn an_agent_that_is_always_ready_starves_nobody() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let flood = move |request: AgentRequest| -> SourceStream {
        let sent = Arc::clone(&counted);
        let words = stream::repeat_with(move || {
            sent.fetch_add(1, Ordering::SeqCst);
            SourceEvent::from(Update::text("x"))
        });
        let is_wanted = move |_: &SourceEvent| std::future::ready(!request.cancel.is_cancelled());
        let cancelled = SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None };
        Box::pin(words.take_while(is_wanted).chain(stream::iter([cancelled])))
    };
    let runs = Runs::new().agent("flood", Asked(flood));
    let mut started = start(&runs, "flood", "r").await;
    started.events.next().await.unwrap();
    assert!(sent.load(Ordering::SeqCst) < 1_000, "one thread serves the run and its watcher");
    assert!(runs.cancel(&Caller::default(), &started.run_id).await.unwrap());
    let events = all(started.events).await;
    assert_eq!(outcome(&events), Some(RunOutcome::Cancelled));
}

/// Finds its work again by a checkpoint.
struct Resumable;

impl Agent for Resumable {
    fn run(&self, request: AgentRequest) -> SourceStream {
        assert!(request.keeps_checkpoints);
        let begun = [
            SourceEvent::Checkpoint(Checkpoint(json!({ "task": 7 }))),
            Update::text("first ").in_message("m").into(),
        ];
        Box::pin(stream::iter(begun).chain(stream::pending()))
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.0 == json!({ "task": 7 })
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        assert_eq!(request.principal, Principal::anonymous());
        let whole = vec![Update::text("first second").in_message("m").snapshot().last().into()];
        let (rest, _) = takeover.history.deduplicate(whole, |_| false);
        Box::pin(stream::iter(rest).chain(stream::iter([SourceEvent::finished()])))
    }
}

#[tokio::test]
async fn a_run_goes_on_at_another_replica_from_its_checkpoint() {
    let log = Arc::new(MemoryLog::default());
    let replica = || {
        let settings = Settings::default().with_lease(Duration::from_millis(1));
        Runs::builder().agent("a", Resumable).shared_log(Arc::clone(&log) as _).settings(settings).build()
    };
    let (one, other) = (replica(), replica());
    let mut started = start(&one, "a", "r").await;
    let mut seen = Vec::new();
    while text(&seen) != "first " {
        seen.push(started.events.next().await.unwrap());
    }
    let state = log.state(&"r".into()).await.unwrap();
    assert_eq!(state.checkpoint.as_deref(), Some(&json!({ "task": 7 })), "kept before what follows it");
    tokio::time::sleep(Duration::from_millis(5)).await;
    other.sweep_once().await.unwrap();
    seen.extend(all(started.events).await);
    assert_eq!((text(&seen).as_str(), outcome(&seen)), ("first second", Some(RunOutcome::Success)));
    let numbers: Vec<u64> = seen.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>(), "a checkpoint has no number");
    assert!(!seen.iter().any(|event| matches!(event.event, BlockEvent::Custom(_))));
    assert_eq!(other.metrics().taken_over(), 1);
}

/// Says whether the log knew of its request when it was sent.
struct Announcing(Arc<MemoryLog>);

impl Agent for Announcing {
    fn run(&self, _: AgentRequest) -> SourceStream {
        let log = Arc::clone(&self.0);
        let sent = async move {
            let state = log.state(&"r".into()).await.unwrap();
            Update::text(state.checkpoint.map_or("unknown", |_| "announced")).into()
        };
        let announced = SourceEvent::Checkpoint(Checkpoint(json!({ "sent": 1 })));
        Box::pin(
            stream::iter([announced])
                .chain(stream::once(sent))
                .chain(stream::iter([SourceEvent::finished()])),
        )
    }
}

#[tokio::test]
async fn an_agent_goes_on_after_a_checkpoint_once_the_log_has_it() {
    let log = Arc::new(MemoryLog::default());
    let runs =
        Runs::builder().agent("a", Announcing(Arc::clone(&log))).shared_log(Arc::clone(&log) as _).build();
    let events = all(start(&runs, "a", "r").await.events).await;
    assert_eq!((text(&events).as_str(), outcome(&events)), ("announced", Some(RunOutcome::Success)));
}

/// As `docs/scale-out.md` says: runs of agents that can be found again go on there, others end, and nothing is doubled.
#[tokio::test]
async fn a_replica_whose_clock_jumps_ahead_takes_over_runs_of_the_living() {
    let log = Arc::new(MemoryLog::default());
    let replica = |ahead: Arc<AtomicI64>| {
        let endless = |_: RunInput| stream::iter([Update::text("only ")]).chain(stream::pending());
        let clock = Arc::new(move || Timestamp(1_000_000 + ahead.load(Ordering::SeqCst)));
        let runs = Runs::builder().agent("a", Resumable).agent("b", endless);
        runs.shared_log(Arc::clone(&log) as _).clock(clock).build()
    };
    let ahead = Arc::new(AtomicI64::new(0));
    let (one, other) = (replica(Arc::default()), replica(Arc::clone(&ahead)));
    let mut runs = Vec::new();
    for (agent, run, beginning) in [("a", "r", "first "), ("b", "s", "only ")] {
        let mut started = start(&one, agent, run).await;
        let mut seen = Vec::new();
        while text(&seen) != beginning {
            seen.push(started.events.next().await.unwrap());
        }
        runs.push((started.events, seen));
    }
    other.sweep_once().await.unwrap();
    assert_eq!(log.state(&"r".into()).await.unwrap().epoch, 1, "clocks agree: nothing has lapsed");
    ahead.store(3_600_000, Ordering::SeqCst);
    other.sweep_once().await.unwrap();
    let mut ends = Vec::new();
    for (events, mut seen) in runs {
        seen.extend(all(events).await);
        let numbers: Vec<u64> = seen.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
        ends.push((text(&seen), outcome(&seen), failure(&seen)));
    }
    assert_eq!(ends[0], ("first second".to_owned(), Some(RunOutcome::Success), None));
    assert_eq!(ends[1], ("only ".to_owned(), None, Some("gateway_lost".to_owned())));
}

/// The same agent at two replicas of one log; `told` counts the requests that were cancelled.
fn replicas_of(log: &Arc<MemoryLog>, scope: LogScope) -> (Runs, Runs, Arc<AtomicUsize>) {
    let told = Arc::new(AtomicUsize::new(0));
    let replica = || {
        let settings = Settings::default().with_scope(scope);
        let agent = Watchful(Arc::clone(&told));
        Runs::builder().agent("a", agent).shared_log(Arc::clone(log) as _).settings(settings).build()
    };
    (replica(), replica(), told)
}

/// [`Resumable`], which counts who told it to stop.
struct Watchful(Arc<AtomicUsize>);

impl Agent for Watchful {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let (cancel, told) = (request.cancel.clone(), Arc::clone(&self.0));
        tokio::spawn(async move {
            cancel.cancelled().await;
            told.fetch_add(1, Ordering::SeqCst);
        });
        Resumable.run(request)
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        Resumable.can_resume(checkpoint)
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        Resumable.resume(request, takeover)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_handed_over_goes_on_at_another_replica_at_once() {
    let log = Arc::new(MemoryLog::default());
    let (one, other, told) = replicas_of(&log, LogScope::Replicas);
    let mut started = start(&one, "a", "r").await;
    let mut seen = Vec::new();
    while text(&seen) != "first " {
        seen.push(started.events.next().await.unwrap());
    }
    one.hand_over();
    one.left().await;
    assert_eq!(all(started.events).await, [], "a resumable end is no terminal event");
    assert!(log.state(&"r".into()).await.unwrap().is_released());
    other.sweep_once().await.unwrap();
    let last = seen.last().unwrap().number;
    seen.extend(all(other.watch(&Caller::default(), &"r".into(), last).await.unwrap()).await);
    assert_eq!((text(&seen).as_str(), outcome(&seen)), ("first second", Some(RunOutcome::Success)));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(told.load(Ordering::SeqCst), 0, "the agent was told to stop");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_go_on_elsewhere_gets_time_and_then_ends_honestly() {
    let log = Arc::new(MemoryLog::default());
    let (one, _, told) = replicas_of(&log, LogScope::Process);
    let started = start(&one, "a", "r").await;
    one.hand_over();
    assert!(tokio::time::timeout(Duration::from_secs(5), one.left()).await.is_err(), "it goes on");
    one.last_call();
    let events = all(started.events).await;
    assert_eq!((text(&events).as_str(), failure(&events).as_deref()), ("first ", Some("gateway_lost")));
    one.left().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(told.load(Ordering::SeqCst), 1, "nobody reads what the agent says any more");
}

#[tokio::test]
async fn runs_keep_the_agent_that_they_started_with() {
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gone = Mutex::new(Some(gone));
    let runs = Runs::new().agent("a", move |_: RunInput| {
        let gone = gone.lock().unwrap().take().unwrap();
        stream::once(async move {
            gone.await.unwrap();
            Update::text("old")
        })
    });
    let started = start(&runs, "a", "1").await;
    let new = |_: RunInput| stream::iter([Update::text("new")]);
    let entry = AgentEntry::new("b", Arc::new(new), AgentOptions::default());
    runs.replace(Settings::default(), [Arc::new(entry)]);
    assert_eq!(runs.agent_names(), ["b"]);
    assert!(runs.start(&Caller::default(), "a", input("2")).await.is_err());
    go.send(()).unwrap();
    assert_eq!(text(&all(started.events).await), "old");
    let again = runs.watch(&Caller::default(), &"1".into(), 0).await.expect("its runs can be watched");
    assert_eq!(text(&all(again).await), "old");
    assert_eq!(text(&all(start(&runs, "b", "3").await.events).await), "new");
}

/// Callers are their tokens.
#[derive(Debug)]
struct ByToken;

impl AccessPolicy for ByToken {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let refused = || ServiceError::new(RefusalKind::Unauthenticated, "send a token");
        let principal = caller.token.clone().and_then(|token| Principal::new("acme", token));
        let mut identity = Identity::new(principal.ok_or_else(refused)?);
        identity.is_admin = identity.principal.subject() == "root";
        Ok(Arc::new(identity))
    }
}

#[tokio::test]
async fn what_belongs_to_another_principal_does_not_exist() {
    let echo = |input: RunInput| stream::iter([Update::text(input.text())]);
    let runs = Runs::builder().agent("echo", echo).access(Arc::new(ByToken)).build();
    let caller = |token: &str| Caller { token: Some(token.to_owned()), ..Caller::default() };
    let (ada, bob) = (caller("ada"), caller("bob"));
    let run = runs.start(&ada, "echo", input("r")).await.unwrap().run_id;
    assert!(runs.watch(&ada, &run, 0).await.is_ok());
    let kind = |error: ServiceError| error.kind;
    assert_eq!(runs.watch(&bob, &run, 0).await.map(drop).map_err(kind), Err(RefusalKind::NotFound));
    assert_eq!(runs.cancel(&bob, &run).await.map_err(kind), Err(RefusalKind::NotFound));
    assert_eq!(
        runs.watch(&Caller::default(), &run, 0).await.map(drop).map_err(kind),
        Err(RefusalKind::Unauthenticated)
    );
    assert_eq!(
        runs.thread_runs(&bob, &"thread".into()).await.map(drop).map_err(kind),
        Err(RefusalKind::NotFound)
    );
    assert_eq!(runs.list_runs(&ada, 9).await.unwrap().len(), 1);
    assert_eq!(runs.list_runs(&bob, 9).await.unwrap().len(), 0);
    assert_eq!(runs.list_agents(&Caller::default()).await.map_err(kind), Err(RefusalKind::Unauthenticated));
    // A run id is the caller's own: that another principal uses it cannot be told.
    let same = runs.start(&bob, "echo", input("r")).await.unwrap();
    assert_eq!(same.run_id, run);
    let taken = runs.start(&bob, "echo", input("r")).await.map(drop).unwrap_err();
    assert_eq!(taken.kind, RefusalKind::Conflict);
    assert!(!taken.message.contains("bob"), "the id of the caller, not the key in the log: {taken}");
    assert_eq!(runs.thread_runs(&bob, &"thread".into()).await.unwrap().len(), 1);
    // An admin sees the runs of all, by their keys.
    let root = caller("root");
    let seen = runs.list_runs(&root, 9).await.unwrap();
    assert_eq!(seen.len(), 2);
    let identity = runs.identify(&root).unwrap();
    for run in &seen {
        let id = Runs::id_for(&identity, &run.meta);
        assert!(runs.watch(&root, &id, 0).await.is_ok(), "{id}");
        assert_eq!(runs.watch(&bob, &id, 0).await.map(drop).map_err(kind), Err(RefusalKind::NotFound));
    }
}

/// The token is the principal. Each may run the agents of the list; `guest` is asked for a proof.
#[derive(Debug)]
struct Granted(Arc<Mutex<Vec<&'static str>>>);

impl AccessPolicy for Granted {
    fn identify(&self, caller: &Caller) -> Result<Arc<Identity>, ServiceError> {
        let token = caller.token.clone().unwrap_or_default();
        let mut identity = Identity::new(Principal::new("", token).unwrap());
        let granted = self.0.lock().unwrap().iter().map(|&name| name.to_owned()).collect();
        identity.agents = AgentGrant::Only(granted);
        identity.former = vec!["gateway/0".to_owned()];
        Ok(Arc::new(identity))
    }

    fn challenge(&self, identity: &Identity) -> Option<ServiceError> {
        let is_guest = identity.principal.subject() == "guest";
        is_guest.then(|| ServiceError::new(RefusalKind::Unauthenticated, "send a token"))
    }
}

#[tokio::test]
async fn a_run_is_seen_by_its_principal_while_it_may_run_the_agent() {
    let log = Arc::new(MemoryLog::default());
    let granted = Arc::new(Mutex::new(vec!["echo", "absent"]));
    let engine = |agent: &str| {
        let echo = |input: RunInput| stream::iter([Update::text(input.text())]);
        let runs = Runs::builder().agent(agent, echo).access(Arc::new(Granted(Arc::clone(&granted))));
        runs.shared_log(Arc::clone(&log) as _).build()
    };
    let (runs, without_agent) = (engine("echo"), engine("another"));
    let caller = |token: &str| Caller { token: Some(token.to_owned()), ..Caller::default() };
    let (ada, eve) = (caller("ada"), caller("eve"));
    let kind = |error: ServiceError| error.kind;
    let run = runs.start(&ada, "echo", input("r")).await.unwrap().run_id;
    let key = runs.find_run(&ada, &run).await.unwrap().meta.run_id;
    let find = async |runs: &Runs, caller: &Caller, id: &RunId| {
        runs.find_run(caller, id).await.map(|state| state.meta.run_id).map_err(kind)
    };
    assert_eq!(find(&runs, &ada, &key).await, Ok(key.clone()), "a principal of version 0.1 may use the key");
    assert_eq!(find(&runs, &eve, &key).await, Err(RefusalKind::NotFound), "the key of another principal");
    assert_eq!(find(&without_agent, &ada, &run).await, Err(RefusalKind::NotFound), "an unknown agent");
    assert_eq!(runs.authenticate(&ada, "absent").map(drop).map_err(kind), Err(RefusalKind::NotFound));
    assert_eq!(runs.list_agents(&caller("guest")).await.map(|agents| agents.len()).map_err(kind), Ok(1));
    granted.lock().unwrap().clear();
    assert_eq!(find(&runs, &ada, &run).await, Err(RefusalKind::NotFound), "the grant was withdrawn");
    assert_eq!(runs.authenticate(&ada, "echo").map(drop).map_err(kind), Err(RefusalKind::NotFound));
    assert_eq!(runs.list_agents(&ada).await.map(|agents| agents.len()).map_err(kind), Ok(0));
    let guest = runs.list_agents(&caller("guest")).await.map(|agents| agents.len()).map_err(kind);
    assert_eq!(guest, Err(RefusalKind::Unauthenticated));
}

#[tokio::test]
async fn a_replica_at_its_limit_leaves_a_lapsed_run_to_others() {
    let log = Arc::new(MemoryLog::default());
    let replica = |limit: usize| {
        let settings = Settings::default().with_lease(Duration::from_millis(1)).with_limit(limit);
        Runs::builder().agent("a", Resumable).shared_log(Arc::clone(&log) as _).settings(settings).build()
    };
    let (one, full, other) = (replica(9), replica(1), replica(9));
    let mut started = start(&one, "a", "r").await;
    let mut seen = Vec::new();
    while text(&seen) != "first " {
        seen.push(started.events.next().await.unwrap());
    }
    let _busy = start(&full, "a", "s").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    full.sweep_once().await.unwrap();
    assert_eq!((full.metrics().taken_over(), full.active_runs()), (0, 1));
    tokio::time::sleep(Duration::from_millis(5)).await;
    other.sweep_once().await.unwrap();
    let rest = all(other.watch(&Caller::default(), &"r".into(), 0).await.unwrap()).await;
    assert_eq!((text(&rest).as_str(), outcome(&rest)), ("first second", Some(RunOutcome::Success)));
}

/// Shows a sub-agent in the run while the agent calls it.
#[derive(Debug)]
struct Lanes;

#[derive(Debug)]
struct LaneOfRun(Arc<RunHandle>);

impl RunExtensions for Lanes {
    fn attach(&self, run: &Arc<RunHandle>, _: &RunOrigin<'_>) -> Option<Arc<dyn RunExtension>> {
        Some(Arc::new(LaneOfRun(Arc::clone(run))))
    }
}

#[derive(Debug)]
struct CallsSubAgent(Arc<RunHandle>);

impl CallContext for CallsSubAgent {
    fn run_token(&self) -> Option<&str> {
        Some("token")
    }

    fn learn_conversation(&self, id: &str) {
        let (run, id) = (Arc::clone(&self.0), id.to_owned());
        tokio::spawn(async move {
            let helper = Source::root().child("helper");
            let update = Update::text(id).from_source(&helper).intermediate();
            run.lanes().unwrap().send(update.into(), Duration::from_secs(1)).await.unwrap();
            run.cancel_token().cancel();
        });
    }
}

impl RunExtension for LaneOfRun {
    fn begin(self: Arc<Self>, start: RunStart<'_>) -> BoxFuture<'_, Arc<dyn CallContext>> {
        assert_eq!(start.headers, [("traceparent".to_owned(), "t".to_owned())]);
        Box::pin(async move { Arc::new(CallsSubAgent(Arc::clone(&self.0))) as Arc<dyn CallContext> })
    }
}

#[tokio::test]
async fn what_a_sub_agent_sends_is_shown_before_what_follows_from_it() {
    let agent = Asked(|request: AgentRequest| -> SourceStream {
        assert_eq!(request.context.run_token(), Some("token"));
        let answer = async move {
            request.context.learn_conversation("from the sub-agent");
            request.cancel.cancelled().await;
            SourceEvent::finished()
        };
        Box::pin(stream::once(answer))
    });
    let runs = Runs::builder().agent("supervisor", agent).extensions(Arc::new(Lanes)).build();
    let headers = vec![("traceparent".to_owned(), "t".to_owned()), ("secret".to_owned(), "s".to_owned())];
    let caller = Caller { headers, ..Caller::default() };
    let started = runs.start(&caller, "supervisor", input("r")).await.unwrap();
    let events = all(started.events).await;
    assert_eq!(text(&events), "from the sub-agent");
}

#[tokio::test]
async fn a_draining_engine_takes_no_runs() {
    let runs = Runs::new().agent("mute", |_: RunInput| stream::pending::<Update>());
    let started = start(&runs, "mute", "r").await;
    runs.drain();
    assert!(runs.start(&Caller::default(), "mute", input("s")).await.is_err());
    runs.stop_all();
    assert_eq!(outcome(&all(started.events).await), Some(RunOutcome::Cancelled));
}

#[tokio::test]
async fn another_replica_cancels_by_the_log() {
    let log = Arc::new(MemoryLog::default());
    let replica = || {
        let mute = |_: RunInput| stream::pending::<Update>();
        Runs::builder().agent("mute", mute).shared_log(Arc::clone(&log) as _).build()
    };
    let (one, other) = (replica(), replica());
    let started = start(&one, "mute", "r").await;
    assert!(other.cancel(&Caller::default(), &started.run_id).await.unwrap());
    assert_eq!(outcome(&all(started.events).await), Some(RunOutcome::Cancelled));
    assert!(!other.cancel(&Caller::default(), &"r".into()).await.unwrap());
    let late = log.control(&"r".into(), Control::Cancel).await;
    assert!(late.is_err());
}

/// Never lets a run begin.
#[derive(Debug)]
struct Endless;

impl RunExtensions for Endless {
    fn attach(&self, _run: &Arc<RunHandle>, _: &RunOrigin<'_>) -> Option<Arc<dyn RunExtension>> {
        Some(Arc::new(Self))
    }
}

impl RunExtension for Endless {
    fn begin(self: Arc<Self>, _start: RunStart<'_>) -> BoxFuture<'_, Arc<dyn CallContext>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_no_run_behind() {
    let mute = |_: RunInput| stream::pending::<Update>();
    let runs = Runs::builder().agent("mute", mute).extensions(Arc::new(Endless)).build();
    let started = runs.start(&Caller::default(), "mute", input("r"));
    assert!(tokio::time::timeout(Duration::from_millis(5), started).await.is_err());
    assert_eq!(runs.active_runs(), 0);
}

#[tokio::test]
async fn what_an_agent_sends_in_one_turn_has_one_response_id() {
    let spent = |update: Update, tokens: u64| {
        let mut update = update.snapshot();
        update.details_mut().usage = Some(Usage { output: Some(tokens), ..Usage::default() });
        update
    };
    let helper = Source::root().child("helper");
    let turns: [(&str, Vec<Update>, &str, Option<u64>); 2] = [
        (
            "none",
            vec![Update::text("a").in_message("1"), Update::thinking("b").in_message("2")],
            "none",
            None,
        ),
        (
            "several",
            vec![
                spent(Update::text("a").in_message("1").in_response("r1"), 10),
                Update::text("b").in_message("2"),
                spent(Update::text("c").in_message("3").in_response("r2"), 20),
                Update::text("d").in_message("4").in_response("own").from_source(&helper),
            ],
            "r1",
            Some(30),
        ),
    ];
    for (run, updates, id, tokens) in turns {
        let runs = Runs::new().agent("a", move |_: RunInput| stream::iter(updates.clone()));
        let events = all(start(&runs, "a", run).await.events).await;
        let ids: Vec<(bool, String)> = events
            .iter()
            .filter_map(|event| match &event.event {
                BlockEvent::BlockStarted(block) => {
                    Some((block.lane.is_root(), block.origin.response_id.as_ref()?.to_string()))
                }
                _ => None,
            })
            .collect();
        assert!(
            ids.len() > 1 && ids.iter().all(|(is_root, own)| own == if *is_root { id } else { "own" }),
            "{ids:?}"
        );
        let BlockEvent::RunFinished(end) = &events.last().unwrap().event else { panic!("{events:?}") };
        assert_eq!(end.usage.first().and_then(|usage| usage.output), tokens, "no report is lost");
    }
}
