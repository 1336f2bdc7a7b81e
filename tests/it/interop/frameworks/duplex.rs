//! What a frontend gives an agent reaches it, and comes back: state, context, tools and properties, with real agents behind the
//! gateway and the real AG-UI client before it.

use std::path::PathBuf;
use std::process::Command;

use aqueduct_tests::frameworks::folder;
use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use crate::interop::gateway::stage::{base, gateway};
use crate::interop::variable;

/// What the client holds after its runs with the agent of that script.
fn held(framework: &str, script: &str, more: &[&str]) -> Value {
    let python = variable("AQUEDUCT_INTEROP_FRAMEWORKS").join(framework).join("venv/bin/python");
    let script: PathBuf = folder().join("a2a").join(script);
    let mut agent = Program::start(python, &[script.to_str().unwrap(), "0"]);
    // Its log is read and dropped: a full pipe would stop it.
    drop(agent.heard());
    let toml = format!("log.level = \"error\"\n[agents.duplex]\na2a.url = \"{}\"\n", agent.address);
    let gateway = gateway(&format!("duplex-{framework}"), &toml);
    let mut command = Command::new("node");
    command.arg(folder().join("clients/duplex.mjs")).arg(variable("AQUEDUCT_INTEROP_AGUI_1_0"));
    let output = command.arg(format!("{}/agents/duplex", base(&gateway))).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

const ANSWER: &str = "Paris, in the kitchen, dark.";

#[test]
fn an_agent_of_the_python_sdk() {
    let held = held("agent-framework", "duplex_a2a_sdk.py", &["paint"]);
    assert_eq!(held["answer"], ANSWER);
    assert_eq!(held["state"], json!({ "city": "Paris", "count": 2, "done": true }));
    assert_eq!(held["types"], json!(["STATE_SNAPSHOT", "STATE_DELTA"]));
    assert_eq!(held["call"], json!({ "name": "pick_colour", "arguments": { "of": "door" } }));
    assert_eq!(held["painted"], "Painted blue, by call-1.");
}

#[test]
fn an_agent_of_google_adk() {
    let held = held("google-adk", "duplex_google_adk.py", &[]);
    assert_eq!(held["answer"], ANSWER);
    assert_eq!(held["state"], json!({ "city": "Paris", "count": 2, "done": true }));
    assert_eq!(held["types"], json!(["STATE_DELTA"]));
}
