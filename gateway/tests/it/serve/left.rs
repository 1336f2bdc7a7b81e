//! Runs that are left: what becomes of them, on a clock that the test turns.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{Caller, EventStream, RunService as _};
use aqueduct_core::{BlockEvent, RunId, RunInput, RunOutcome};
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use futures_util::StreamExt as _;
use tokio::time::Instant;

/// An agent that speaks, works for ten minutes and speaks again.
fn service(settings: &str) -> Arc<Gateway> {
    let path = crate::scratch::folder().join("left.toml");
    let script = "[[step]]\ntext = \"begun\"\n[[step]]\nwait = \"600s\"\n[[step]]\ntext = \" and done\"\n";
    std::fs::write(&path, script).unwrap();
    let toml = format!("[agents.a]\n{settings}script.file = \"{}\"\n", path.display());
    let config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
    Gateway::new(config).unwrap()
}

async fn start(service: &Arc<Gateway>) -> EventStream {
    let input = RunInput::prompt("t", "r", "hello");
    service.runs().start(&Caller::default(), "a", input).await.unwrap().events
}

async fn watch(service: &Arc<Gateway>, after: u64) -> EventStream {
    service.runs().watch(&Caller::default(), &RunId::from("r"), after).await.unwrap()
}

async fn outcome(events: EventStream) -> (Option<RunOutcome>, u64) {
    let all: Vec<_> = events.collect().await;
    let terminal: Vec<_> = all.iter().filter(|event| event.event.is_terminal()).collect();
    assert_eq!(terminal.len(), 1, "one end");
    match &terminal[0].event {
        BlockEvent::RunFinished(end) => (Some(end.outcome), terminal[0].number),
        _ => (None, terminal[0].number),
    }
}

/// When the run ended, on the turned clock.
async fn ended(service: &Arc<Gateway>) -> Duration {
    let begun = Instant::now();
    while service.runs().active_runs() > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_goes_on_for_its_grace() {
    let service = service("grace = \"60s\"\n");
    let mut events = start(&service).await;
    events.next().await.unwrap();
    drop(events);
    let after = ended(&service).await;
    assert!((60..63).contains(&after.as_secs()), "{after:?}");
    assert_eq!(outcome(watch(&service, 0).await).await.0, Some(RunOutcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_before_it_begins_is_no_exception() {
    let service = service("grace = \"60s\"\n");
    drop(start(&service).await);
    let after = ended(&service).await;
    assert!((60..63).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_in_time_keeps_it() {
    let service = service("grace = \"60s\"\n");
    drop(start(&service).await);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(59)).await;
        let mut again = watch(&service, 0).await;
        again.next().await.unwrap();
    }
    let last = watch(&service, 0).await;
    assert_eq!(outcome(last).await.0, Some(RunOutcome::Success));
}

#[tokio::test(start_paused = true)]
async fn one_watcher_is_enough() {
    let service = service("on_disconnect = \"cancel\"\n");
    let first = start(&service).await;
    let second = watch(&service, 0).await;
    drop(first);
    assert_eq!(outcome(second).await.0, Some(RunOutcome::Success));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_at_once_where_the_agent_says_so() {
    let service = service("on_disconnect = \"cancel\"\n");
    drop(start(&service).await);
    let after = ended(&service).await;
    assert!(after < Duration::from_secs(2), "{after:?}");
    assert_eq!(outcome(watch(&service, 0).await).await.0, Some(RunOutcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_the_same_however_often_it_is_sent() {
    let service = service("");
    let mut events = start(&service).await;
    events.next().await.unwrap();
    let cancel = || {
        let service = service.clone();
        async move { service.runs().cancel(&Caller::default(), &RunId::from("r")).await.unwrap() }
    };
    let begun = Instant::now();
    let during: Vec<bool> = futures_util::future::join_all((0..100).map(|_| cancel())).await;
    assert!(during.into_iter().all(|was_running| was_running));
    let (outcome, end) = outcome(events).await;
    assert_eq!(outcome, Some(RunOutcome::Cancelled));
    assert!(begun.elapsed() <= Duration::from_secs(1), "the frontend sees it within a second");
    ended(&service).await;
    for _ in 0..100 {
        assert!(!cancel().await, "it is over");
    }
    assert_eq!(watch(&service, end).await.count().await, 0, "nothing follows the end");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_ends_and_says_so() {
    let service = service("timeouts.run = \"5m\"\n");
    let events: Vec<_> = start(&service).await.collect().await;
    let Some(BlockEvent::RunFailed(end)) = events.last().map(|last| &last.event) else {
        panic!("{events:?}")
    };
    assert_eq!(end.failure.code, "run_timeout");
    assert!(end.failure.message.contains("timeouts.run"), "{}", end.failure.message);
}

/// A reference to the service holds no run: the test above would hang if one were left.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_run_that_ended() {
    let service = service("");
    let events = start(&service).await;
    outcome(events).await;
    ended(&service).await;
    assert_eq!(Arc::strong_count(&service), 1);
}

/// A run without a watcher has as long as a watched one when the gateway stops.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_may_end_within_the_drain() {
    for (works, ends) in [("10s", true), ("1h", false)] {
        let path = crate::scratch::folder().join(format!("left-{works}.toml"));
        std::fs::write(&path, format!("[[step]]\ntext = \"begun\"\n[[step]]\nwait = \"{works}\"\n")).unwrap();
        let toml = format!("[agents.a]\ngrace = \"2h\"\nscript.file = \"{}\"\n", path.display());
        let mut config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let service = Gateway::new(config).unwrap();
        let listening = Listening::bind(Arc::clone(&service)).await.unwrap();
        let mut events = start(&service).await;
        events.next().await.unwrap();
        drop(events);
        listening.shutdown().cancel();
        let begun = Instant::now();
        listening.serve().await;
        let after = begun.elapsed().as_secs();
        let events: Vec<_> = watch(&service, 0).await.collect().await;
        match &events.last().unwrap().event {
            BlockEvent::RunFinished(end) if ends => assert_eq!(end.outcome, RunOutcome::Success),
            BlockEvent::RunFailed(end) if !ends => assert_eq!(&*end.failure.code, "gateway_lost"),
            other => panic!("{works}: {other:?}"),
        }
        assert!(if ends { (10..12).contains(&after) } else { (18..21).contains(&after) }, "{works}: {after}");
    }
}
