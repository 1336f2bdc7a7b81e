//! Several gateways on one log, in one process: who drives a run, who may stop it, and who ends it when its gateway is
//! gone. With real processes and a real Redis: `tests/it/interop/runlog/`.

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::testing::InvariantChecker;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{MemoryLog, RunLog, RunMeta};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;

use super::support::{Served, answer, events, input, serve_gateway};

/// Speaks for three seconds.
const SLOW: &str = "[[step]]\nthinking = \"Hm.\"\n[[step]]\npace = \"100ms\"\ntext = \"a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4\"\n";

/// Long ago, and never.
const LAPSED: Timestamp = Timestamp(1);
const MUCH_LATER: Timestamp = Timestamp(1 << 52);

fn configuration(name: &str, more: &str) -> aqueduct_gateway::config::Config {
    let script = crate::scratch::folder().join(format!("replicas-{name}.toml"));
    std::fs::write(&script, SLOW).unwrap();
    let toml = format!(
        "[runs]\nlease = \"900ms\"\n[agents.a]\n{more}\nscript = {{ file = \"{}\" }}\n",
        script.display()
    );
    let mut config = load(Path::new("aqueduct.toml"), &toml, []).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config
}

/// Two gateways on one log.
async fn pair(test: &str, more: &str) -> (Served, Served, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let gateway = || Gateway::with_log(configuration(test, more), Arc::clone(&log) as _).unwrap();
    (serve_gateway(gateway()).await, serve_gateway(gateway()).await, log)
}

fn begin(served: &Served, run: &str) -> tokio::task::JoinHandle<http::Response<Bytes>> {
    let (client, request) = (served.client.clone(), served.post("/agents/a", &input(run, Some("1.0"))));
    tokio::spawn(async move { client.request(request).await.unwrap() })
}

/// Waits until a run is in the log and has begun.
async fn begun(log: &MemoryLog, run: &str) -> RunId {
    let run = RunId::from(run);
    while log.state(&run).await.is_err() {
        tokio::task::yield_now().await;
    }
    log.changed(&run, 2).await.unwrap();
    run
}

async fn stored(log: &MemoryLog, run: &RunId) -> Vec<BlockEvent> {
    let page = log.read(run, 0, usize::MAX).await.unwrap();
    page.events.into_iter().map(|event| event.event).collect()
}

#[tokio::test]
async fn a_run_is_watched_and_cancelled_at_another_gateway() {
    let (owner, other, log) = pair("cancelled", "").await;
    let client = begin(&owner, "r");
    begun(&log, "r").await;
    let watching = {
        let (client, url) = (other.client.clone(), other.url("/runs/r/events?after=0&protocolVersion=1.0"));
        tokio::spawn(
            async move { client.request(Request::get(url).body(Bytes::new()).unwrap()).await.unwrap() },
        )
    };
    let cancel = || other.post("/runs/r/cancel", &serde_json::json!({}));
    assert_eq!(other.send(cancel()).await.body(), &br#"{"cancelled":true}"#[..]);
    let (seen, watched) = (client.await.unwrap(), watching.await.unwrap());
    let end = events(&seen).pop().unwrap();
    assert_eq!(
        (&end["type"], &end["outcome"]["type"]),
        (&"RUN_FINISHED".into(), &"cancelled".into()),
        "{end}"
    );
    assert_eq!(events(&watched), events(&seen));
    assert_eq!(other.send(cancel()).await.body(), &br#"{"cancelled":false}"#[..], "it is over");
}

#[tokio::test]
async fn a_run_that_was_left_is_ended_by_whoever_finds_it() {
    let (_, other, log) = pair("left", "").await;
    let whole = aqueduct_core::testing::scenarios();
    for (index, (name, source)) in whole.into_iter().enumerate() {
        let run_id = RunId::from(format!("left-{index}"));
        let meta = RunMeta {
            run_id: run_id.clone(),
            thread_id: "t".into(),
            agent: "a".to_owned(),
            owner: String::new(),
            opened_at: Timestamp(1),
        };
        let lease = log.open(meta, LAPSED).await.unwrap();
        let mut events = aqueduct_core::testing::run_to_end(source);
        events.truncate(events.len() / 2);
        log.append(&lease, events.clone(), Timestamp(2)).await.unwrap();
        other.gateway.runs().sweep_once().await.unwrap();
        let whole = stored(&log, &run_id).await;
        assert_eq!(whole[..events.len()], events, "{name}: what was there stays");
        InvariantChecker::check_all(&whole).unwrap_or_else(|violation| panic!("{name}: {violation:?}"));
        let Some(BlockEvent::RunFailed(end)) = whole.last() else { panic!("{name}: {:?}", whole.last()) };
        assert_eq!(end.failure.code, "gateway_lost");
    }
    assert_eq!(log.lapsed(MUCH_LATER, 1).await, Ok(Vec::new()), "nothing is left open");
}

#[tokio::test]
async fn who_lost_the_lease_writes_no_more() {
    let (owner, other, log) = pair("fenced", "").await;
    let client = begin(&owner, "r");
    let run = begun(&log, "r").await;
    // As if the owner had been asleep for long.
    let lease = log.take_over(&run, MUCH_LATER, LAPSED).await.unwrap();
    let head = log.state(&run).await.unwrap().head;
    owner.idle().await;
    let state = log.state(&run).await.unwrap();
    assert_eq!((state.head, state.epoch, state.closed_at), (head, lease.epoch, None), "nothing was added");
    other.gateway.runs().sweep_once().await.unwrap();
    // The client watched at the old owner, and sees the end that the other gateway made.
    let end = events(&client.await.unwrap()).pop().unwrap();
    assert_eq!((&end["type"], &end["code"]), (&"RUN_ERROR".into(), &"gateway_lost".into()), "{end}");
}

#[tokio::test]
async fn a_run_that_is_watched_at_another_gateway_is_not_lonely() {
    let (owner, other, log) = pair("far", "grace = \"300ms\"").await;
    let client = begin(&owner, "r");
    begun(&log, "r").await;
    let url = other.url("/runs/r/events?after=0&protocolVersion=1.0");
    let mut watching = other.client.open_stream(Request::get(url).body(Bytes::new()).unwrap()).await.unwrap();
    watching.next().await.unwrap().unwrap();
    client.abort();
    while let Some(event) = watching.next().await {
        event.unwrap();
    }
    let run = RunId::from("r");
    let whole = stored(&log, &run).await;
    let Some(BlockEvent::RunFinished(end)) = whole.last() else { panic!("{:?}", whole.last()) };
    assert_eq!(end.outcome, aqueduct_core::RunOutcome::Success, "nobody stopped it");
    let shown = other.get("/runs/r/events?after=0&protocolVersion=1.0").await;
    assert!(answer(&events(&shown)).ends_with("3 4"));
}

#[tokio::test]
async fn a_run_that_nobody_watches_anywhere_is_stopped() {
    let (owner, _other, log) = pair("lonely", "grace = \"300ms\"").await;
    let client = begin(&owner, "r");
    let run = begun(&log, "r").await;
    client.abort();
    owner.idle().await;
    let whole = stored(&log, &run).await;
    let Some(BlockEvent::RunFinished(end)) = whole.last() else { panic!("{:?}", whole.last()) };
    assert_eq!(end.outcome, aqueduct_core::RunOutcome::Cancelled);
}

#[test]
fn a_log_without_its_place_is_an_error_of_the_configuration() {
    for (engine, key) in [("disk", "runs.folder"), ("redis", "runs.redis")] {
        let text = format!("[runs]\nlog = \"{engine}\"\n");
        let errors = load(Path::new("aqueduct.toml"), &text, []).unwrap_err();
        assert!(errors.iter().any(|error| error.to_string().contains(key)), "{errors:?}");
    }
}

#[tokio::test]
async fn runs_on_disk_are_there_after_a_restart() {
    let folder = crate::scratch::folder().join("runs");
    let config = || {
        let mut config = configuration("disk", "");
        config.runs.log = aqueduct_gateway::config::RunLogEngine::Disk(folder.clone());
        config
    };
    let gateway = Gateway::new(config()).unwrap();
    let served = serve_gateway(Arc::clone(&gateway)).await;
    let first = served.run("a", "r").await;
    drop(served);
    // The folder is free once the last holder of the gateway is gone.
    let gone = Arc::downgrade(&gateway);
    drop(gateway);
    while gone.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    let served = serve_gateway(Gateway::new(config()).unwrap()).await;
    let again = served.get("/runs/r/events?after=0&protocolVersion=1.0").await;
    assert_eq!(events(&again), first);
    drop(served);
    std::fs::remove_dir_all(folder).ok();
}

#[tokio::test]
async fn a_gateway_whose_log_is_away_is_not_ready_and_says_why() {
    // A port without a listener.
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let environment = [("R".to_owned(), format!("redis://{nobody}"))];
    let toml = "[runs]\nlog = \"redis\"\nredis = \"env:R\"\n[agents.a.agui]\nurl = \"http://a\"\n";
    let mut config = load(Path::new("aqueduct.toml"), toml, environment).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let served = serve_gateway(Gateway::new(config).unwrap()).await;
    let ready = served.get("/readyz").await;
    let text = String::from_utf8_lossy(ready.body()).into_owned();
    assert_eq!(ready.status(), 503, "{text}");
    assert!(text.contains("run log"), "{text}");
    assert_eq!(served.get("/healthz").await.status(), 200, "the process is well");
}
