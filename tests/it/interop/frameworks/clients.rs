//! The A2A clients of frameworks against agents of the gateway: they read the answer's words and nothing else.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::interop::gateway::stage::{base, gateway};

const TEAM: &str = "You asked: go. The team says: safe, fast, and with tools that agree.";
const QUESTION: &str = "Which one do you want?";

/// Lets the client of a framework read `demo-team` and `demo-question`.
fn seen(framework: &str) -> Value {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("scripts");
    let agent = |name: &str| {
        let file = scripts.join(format!("demo-{name}.toml"));
        format!("[agents.{name}.script]\nfile = {:?}\n", file.to_str().unwrap())
    };
    let toml = format!("log.level = \"error\"\n{}{}", agent("team"), agent("question"));
    let gateway = gateway(&format!("client-{framework}"), &toml);
    let python =
        format!("{}/{framework}/venv/bin/python", std::env::var("AQUEDUCT_INTEROP_FRAMEWORKS").unwrap());
    let script = format!(
        "{}/frameworks/clients/client_{}.py",
        std::env::var("AQUEDUCT_INTEROP_DIR").unwrap(),
        framework.replace('-', "_")
    );
    let url = |name: &str| format!("{}/a2a/{name}", base(&gateway));
    let output = Command::new(python).arg(script).args([url("team"), url("question")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn has_question(seen: &Value) {
    assert!(seen["round_trip"]["question"].to_string().contains(QUESTION), "{seen}");
}

#[test]
fn agent_framework() {
    let seen = seen("agent-framework");
    assert_eq!((&seen["stream"], &seen["blocking"]), (&json!(TEAM), &json!(TEAM)));
    has_question(&seen);
    assert!(seen["round_trip"]["answer"].as_str().unwrap().ends_with("Done: late."), "{seen}");
}

#[test]
fn google_adk() {
    let seen = seen("google-adk");
    for how in ["stream_legacy", "blocking_legacy", "stream_new", "blocking_new"] {
        assert_eq!(seen[how], TEAM, "{how}");
    }
    assert!(seen["round_trip"]["answer"].as_str().unwrap().ends_with("Done: late."), "{seen}");
}

#[test]
fn strands() {
    let seen = seen("strands");
    assert_eq!((&seen["stream"], &seen["blocking"]), (&json!(TEAM), &json!(TEAM)));
    has_question(&seen);
}
