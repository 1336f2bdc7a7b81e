//! The CopilotKit runtime with an agent of the gateway: its client gets what the agent says.

use std::process::Command;

use serde_json::Value;

use super::expected::{differences, expected};
use super::frontend::Client;
use super::stage::{Peer, Stage, script, variable};

#[test]
fn the_runtime_passes_on_what_the_agent_says() {
    let stage = Stage::new("copilotkit", Peer::Python1_3, "log.level = \"error\"", "");
    let mut command = Command::new("node");
    command.arg(script("copilotkit.mjs")).arg("--project").arg(variable("AQUEDUCT_INTEROP_COPILOTKIT"));
    command.args([
        "--url",
        &stage.url("jsonrpc"),
        "--turns",
        "tools,interleaved,fail,ask,prod,files,many 500",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Its client is the one of 0.0.59.
    let modes = ["tools", "interleaved", "fail", "ask", "files", "many 500"];
    let expected: Vec<Value> =
        modes.iter().flat_map(|mode| expected(mode, Client::V0_0_59, "prod")).collect();
    let found = differences(&Value::from(seen), &expected);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
