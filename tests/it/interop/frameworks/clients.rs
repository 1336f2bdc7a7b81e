//! The clients of frameworks against agents of the gateway: they read the answer's words and nothing else.

use std::path::Path;
use std::process::Command;

use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use crate::interop::gateway::stage::{base, gateway};
use crate::interop::variable;

const TEAM: &str = "You asked: go. The team says: safe, fast, and with tools that agree.";
const QUESTION: &str = "Which one do you want?";
const OFFER: &str = "I can book the early train or the late one.";

/// The configuration of an agent with the script `demo-NAME`.
fn agent(name: &str, script: &str, more: &str) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("scripts");
    let file = scripts.join(format!("demo-{script}.toml"));
    format!("[agents.{name}]\n{more}\nscript.file = {:?}\n", file.to_str().unwrap())
}

/// A gateway with `demo-team` and `demo-question`, each also as programs want it.
fn agents(name: &str) -> Program {
    let toml = [
        "log.level = \"error\"\n".to_owned(),
        agent("team", "team", ""),
        agent("question", "question", ""),
        agent("quiet-team", "team", "subagents = \"hidden\""),
        agent("asking", "question", "interrupts = \"interrupt\""),
    ];
    gateway(&format!("client-{name}"), &toml.concat())
}

/// The last line that a client prints.
fn printed(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn script(name: &str) -> std::path::PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("frameworks/clients").join(name)
}

/// Lets the A2A client of a framework read `demo-team` and `demo-question`.
fn seen(framework: &str) -> Value {
    let gateway = agents(framework);
    let python = variable("AQUEDUCT_INTEROP_FRAMEWORKS").join(framework).join("venv/bin/python");
    let script = script(&format!("client_{}.py", framework.replace('-', "_")));
    let url = |name: &str| format!("{}/a2a/{name}", base(&gateway));
    printed(Command::new(python).arg(script).args([url("team"), url("question")]))
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

/// The AG-UI client of the same framework.
#[test]
fn agent_framework_agui() {
    let gateway = agents("agent-framework-agui");
    let python = variable("AQUEDUCT_INTEROP_FRAMEWORKS").join("agent-framework/venv/bin/python");
    let url = |name: &str| format!("{}/agents/{name}", base(&gateway));
    let urls = [url("quiet-team"), url("question"), url("asking")];
    let seen = printed(Command::new(python).arg(script("client_agent_framework_agui.py")).args(urls));
    assert_eq!(seen["stream"], json!({ "pieces": TEAM, "final": TEAM }));
    assert_eq!(seen["blocking"], TEAM);
    assert_eq!(
        seen["in_words"],
        json!({ "question": format!("{OFFER}\n{QUESTION}"), "answer": "Done: late." })
    );
    assert_eq!(seen["resumed"], json!({ "question": QUESTION, "answer": "Done: late." }));
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

/// Clients that join every text and data part, over every binding.
#[track_caller]
fn joins_words_alone(name: &str, command: &mut Command) {
    // One agent each: gRPC of 0.3 has no word for which agent is meant.
    let gateways = ["team", "question"].map(|script| {
        let toml = format!("log.level = \"error\"\n{}", agent(script, script, ""));
        (gateway(&format!("{name}-{script}"), &toml), script)
    });
    let urls = gateways.each_ref().map(|(gateway, script)| format!("{}/a2a/{script}", base(gateway)));
    let seen = printed(command.args(urls));
    let expected = json!({
        "answer": TEAM, "question": format!("{OFFER}{QUESTION}"), "asks": "TASK_STATE_INPUT_REQUIRED",
        "reply": format!("{OFFER}Done: late."),
    });
    let seen = seen.as_object().unwrap();
    assert_eq!(seen.len(), 6, "three bindings, stream and blocking");
    for (how, seen) in seen {
        assert_eq!(*seen, expected, "{how}");
    }
}

#[test]
fn python_sdk_1_3_joins_words_alone() {
    let python = variable("AQUEDUCT_INTEROP_A2A_PY_1_3");
    joins_words_alone("joiner-1-3", Command::new(python).arg(script("joiner_1_3.py")));
}

#[test]
fn python_sdk_0_3_joins_words_alone() {
    let python = variable("AQUEDUCT_INTEROP_A2A_PY_0_3");
    joins_words_alone("joiner-0-3", Command::new(python).arg(script("joiner_0_3.py")));
}

#[test]
fn js_sdk_joins_words_alone() {
    let project = variable("AQUEDUCT_INTEROP_A2A_JS");
    joins_words_alone("joiner-js", Command::new("node").arg(script("joiner.mjs")).arg(project));
}
