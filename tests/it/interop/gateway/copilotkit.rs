//! The CopilotKit runtime with an agent of the gateway: its client receives the content of the agent, and cancels the
//! run.

use std::process::Command;

use serde_json::Value;

use super::expected::{differences, expected};
use super::frontend::Client;
use super::stage::{Peer, Stage, script, variable};
use super::stopping::agent_stops;

/// Its client is the one of 0.0.59.
const CLIENT: Client = Client::V0_0_59;

/// What CopilotKit's client held after each turn.
fn turns(stage: &Stage, turns: &str, more: &[&str]) -> Vec<Value> {
    let mut command = Command::new("node");
    command.arg(script("copilotkit.mjs")).arg("--project").arg(variable("AQUEDUCT_INTEROP_COPILOTKIT"));
    command.args(["--url", &stage.url("jsonrpc"), "--turns", turns]).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_runtime_passes_on_what_the_agent_says() {
    let stage = Stage::new("copilotkit", Peer::Python1_3, "log.level = \"error\"", "");
    let seen = turns(&stage, "tools,interleaved,fail,ask,prod,files,many 500", &[]);
    let modes = ["tools", "interleaved", "fail", "ask", "files", "many 500"];
    let expected: Vec<Value> = modes.iter().flat_map(|mode| expected(mode, CLIENT, "prod")).collect();
    let found = differences(&Value::from(seen), &expected);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn stopping_at_its_client_stops_the_agent() {
    let settings = "on_disconnect = \"cancel\"";
    let mut stage = Stage::new("copilotkit-stop", Peer::Python1_3, "log.level = \"error\"", settings);
    let agents = stage.agents.heard();
    let seen = turns(&stage, "wait", &["--stop-at", "so far"]);
    assert_eq!(seen[0]["messages"], expected("wait", CLIENT, "")[0]["messages"]);
    agent_stops(&agents);
}
