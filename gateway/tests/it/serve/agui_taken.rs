//! A replica takes over a run of an AG-UI agent that another gateway serves: watchers see what they would have seen
//! without the takeover.

use std::sync::Arc;

use aqueduct_core::service::{Caller, RunService as _};
use aqueduct_core::{BlockEvent, RunInput};
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{DiskLog, LogLimits, RunLog as _};
use futures_util::StreamExt as _;

use super::agui_cuts::SCRIPT;
use super::support::serve;

/// A replica with its own runtime, which dies with all that it does.
struct Dying(tokio::runtime::Runtime);

impl Dying {
    async fn start(gateway: Arc<Gateway>, run: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let input = RunInput::prompt("t", run.to_owned(), "hello");
        let begun = runtime.spawn(async move {
            let started = gateway.runs().start(&Caller::default(), "far", input).await.unwrap();
            tokio::spawn(started.events.for_each(|_| std::future::ready(())));
        });
        begun.await.unwrap();
        Self(runtime)
    }
}

/// A gateway whose agent is an AG-UI agent at `address`, on a log that replicas share.
fn replica(address: &str, log: &Arc<DiskLog>) -> Arc<Gateway> {
    let toml = format!(
        "[runs]\nlog = \"disk\"\nfolder = \"unused\"\nlease = \"20ms\"\n[agents.far]\nagui = {{ url = \"http://{address}/agents/near\" }}\n"
    );
    Gateway::with_log(load(std::path::Path::new("aqueduct.toml"), &toml, []).unwrap(), Arc::clone(log) as _)
        .unwrap()
}

/// The gateway that serves the agent, and the log of the replicas that call it.
async fn upstream(pace: &str) -> (String, Arc<DiskLog>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("near.toml");
    std::fs::write(&file, SCRIPT.replace("[[step]]\n", &format!("[[step]]\npace = \"{pace}\"\n"))).unwrap();
    let served = serve(&format!("[agents.near.script]\nfile = \"{}\"\n", file.display()), &[]).await;
    let address = served.address.to_string();
    // It serves as long as the test lasts.
    std::mem::forget(served);
    let log = DiskLog::open(&folder.path().join("log"), LogLimits::default()).unwrap();
    (address, Arc::new(log), folder)
}

/// Waits until the log knows that the run is announced, or that its agent has it.
async fn checkpoint(log: &DiskLog, run: &str, is_known: bool) {
    loop {
        let state = log.state(&run.to_owned().into()).await.unwrap();
        if state.checkpoint.is_some_and(|at| !is_known || at["agui"]["known"] == true) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

async fn seen(gateway: &Gateway, run: &str) -> Vec<BlockEvent> {
    let events = gateway.runs().watch(&Caller::default(), &run.to_owned().into(), 0).await.unwrap();
    events.map(|event| event.event).collect().await
}

/// The content of a run, without the ids that follow from its own.
fn content(events: &[BlockEvent]) -> Vec<String> {
    let shape = |event: &BlockEvent| match event {
        BlockEvent::BlockStarted(block) => format!("start {:?} {}", block.kind, block.tool_name),
        BlockEvent::BlockDelta { delta, .. } => format!("delta {delta}"),
        BlockEvent::ToolResult(result) => format!("result {:?}", result.output),
        event => format!("{:?}", event.kind()),
    };
    events.iter().map(shape).collect()
}

#[tokio::test]
async fn another_replica_goes_on_after_every_event_of_the_log() {
    let (address, log, _folder) = upstream("15ms").await;
    let survivor = replica(&address, &log);
    let begun = survivor.runs().start(&Caller::default(), "far", RunInput::prompt("t", "whole", "hello"));
    let whole: Vec<BlockEvent> = begun.await.unwrap().events.map(|event| event.event).collect().await;
    let whole = content(&whole);
    for at in (1..whole.len() as u64).step_by(2) {
        let run = format!("r{at}");
        let owner = Dying::start(replica(&address, &log), &run).await;
        checkpoint(&log, &run, true).await;
        log.changed(&run.as_str().into(), at - 1).await.unwrap();
        owner.0.shutdown_background();
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        survivor.runs().sweep_once().await.unwrap();
        assert_eq!(content(&seen(&survivor, &run).await), whole, "killed after event {at}");
    }
    assert!(survivor.runs().metrics().taken_over() > 0);
}

#[tokio::test]
async fn a_run_that_its_agent_does_not_know_ends_as_lost() {
    let (address, log, _folder) = upstream("1ms").await;
    let survivor = replica(&address, &log);
    // It accepts connections and answers nothing: the run is announced, and the agent never has it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let owner = Dying::start(replica(&silent.local_addr().unwrap().to_string(), &log), "r").await;
    checkpoint(&log, "r", false).await;
    owner.0.shutdown_background();
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    survivor.runs().sweep_once().await.unwrap();
    let events = seen(&survivor, "r").await;
    let Some(BlockEvent::RunFailed(end)) = events.last() else { panic!("{events:?}") };
    assert_eq!(end.failure.code, "gateway_lost", "{end:?}");
    assert!(end.failure.message.contains("does not know the run"), "{end:?}");
}
