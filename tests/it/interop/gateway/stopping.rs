//! A cancel at the frontend stops the agent within a second, as the agent itself reports; the run ends as cancelled,
//! not as finished.

use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use super::expected::{differences, expected};
use super::frontend::{Client, Frontend, case};
use super::stage::{BINDINGS, Peer, Stage};

/// The agent has stopped by then.
const SOON: Duration = Duration::from_secs(1);
/// What has not come by then does not come.
const NEVER: Duration = Duration::from_secs(60);
/// An overloaded machine may miss a second now and then; an agent that receives no cancel misses all of them.
const ATTEMPTS: usize = 3;
/// Lines of the standard error of a program, with their times.
pub(super) type Heard = Receiver<(SystemTime, String)>;

struct Scene {
    stage: Stage,
    frontend: Frontend,
    client: Client,
    agents: Heard,
    gateway: Heard,
}

impl Scene {
    fn new(client: Client, peer: Peer) -> Self {
        let log = "log = { level = \"info\", format = \"json\" }";
        let name = format!("stopping-{client:?}-{peer:?}");
        let mut stage = Stage::new(&name, peer, log, "on_disconnect = \"cancel\"");
        let (agents, gateway) = (Program::heard(&mut stage.agents), Program::heard(&mut stage.gateway));
        Self { stage, frontend: Frontend::start(client), client, agents, gateway }
    }

    /// Cancels a run that waits without end. Returns how long it took the agent to notice.
    fn stop(&mut self, agent: &str, by: &str, attempt: usize) -> Duration {
        let name = format!("{agent}-{by}-{attempt}");
        let mut stopped = case(&name, &self.stage.url(agent), &["wait"]);
        stopped["stop"] = json!({ "at": "so far", "by": by });
        let turns = self.frontend.play(&stopped);
        let turn = &turns[0];
        if by == "abort" {
            // A client that disconnected receives nothing more; it reports its own disconnect.
            assert_eq!(turn["messages"], expected("wait", self.client, "")[0]["messages"], "{name}");
            let heard = turn["ends"].as_array().unwrap();
            assert!(heard.iter().all(|end| end["code"] == "abort"), "{name}: {heard:?}");
        } else {
            let found = differences(&turns, &expected("wait", self.client, ""));
            assert!(found.is_empty(), "{name}: {}", found.join("\n"));
        }
        let run = turn["runId"].as_str().unwrap();
        self.gateway_says_cancelled(run);
        let at = UNIX_EPOCH + Duration::from_millis(turn["stoppedAt"].as_u64().unwrap());
        let took = agent_stops(&self.agents).duration_since(at).unwrap_or_default();
        let ended = json!({ "name": "ended", "url": self.stage.url(agent), "ended": run });
        let logged = &self.frontend.play(&ended)[0];
        assert_eq!(
            (&logged["type"], &logged["outcome"]["type"]),
            (&json!("RUN_FINISHED"), &json!("cancelled"))
        );
        took
    }

    /// Returns the line of the gateway's log with the end of a run.
    fn gateway_says_cancelled(&self, run: &str) {
        loop {
            let (_, line) = self.gateway.recv_timeout(NEVER).expect("the gateway does not tell the end");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "run ended" && line["run"] == run {
                assert_eq!(line["outcome"], "cancelled", "{line}");
                return;
            }
        }
    }
}

/// The times at which an agent reported the cancel and the end of its work, in either order.
pub(super) fn agent_stops(agents: &Heard) -> SystemTime {
    let mut told = vec!["cancelled", "stopped"];
    loop {
        let (at, line) = agents.recv_timeout(NEVER).expect("the agent is not told");
        told.retain(|word| *word != line);
        if told.is_empty() {
            return at;
        }
    }
}

fn stops(client: Client, peer: Peer) {
    let mut scene = Scene::new(client, peer);
    for binding in BINDINGS {
        for by in ["abort", "cancel"] {
            let mut took: Vec<Duration> = Vec::new();
            while took.len() < ATTEMPTS && took.last().is_none_or(|last| *last >= SOON) {
                took.push(scene.stop(binding, by, took.len()));
            }
            assert!(took.iter().any(|took| *took < SOON), "{binding} {by}: {took:?}");
        }
    }
}

#[test]
fn client_1_0_stops_python_1_3() {
    stops(Client::V1_0, Peer::Python1_3);
}

#[test]
fn client_1_0_stops_python_0_3() {
    stops(Client::V1_0, Peer::Python0_3);
}

#[test]
fn client_0_0_59_stops_python_1_3() {
    stops(Client::V0_0_59, Peer::Python1_3);
}

#[test]
fn client_0_0_59_stops_python_0_3() {
    stops(Client::V0_0_59, Peer::Python0_3);
}
