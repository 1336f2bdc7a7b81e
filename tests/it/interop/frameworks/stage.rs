//! The programs of a test, and the turns that a client reports.

use aqueduct_tests::frameworks::{Scenario, Server, Turn, folder};
use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use crate::interop::gateway::expected::outcome;
use crate::interop::variable;

/// A PNG of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Starts the server; returns it with the source for the configuration of a gateway.
pub(super) fn start(server: &Server) -> (Program, String) {
    let venvs = variable("AQUEDUCT_INTEROP_FRAMEWORKS");
    let python = venvs.join(server.member("framework")).join("venv/bin/python");
    let script = folder().join(server.member("script"));
    let args = [script.to_str().unwrap(), "0", server.member("variant")];
    let mut program = Program::start(python, &args);
    // Its log is read and dropped: a full pipe would stop it.
    drop(program.heard());
    let source = server.member("source").replace("{}", &program.address);
    (program, source)
}

/// A scenario as a case for the client.
pub(super) fn case(scenario: &Scenario, url: &str, thread: &str) -> Value {
    let said = |(text, has_image): (&str, bool)| {
        if has_image { json!({ "text": text, "image": PNG }) } else { json!(text) }
    };
    let turns: Vec<Value> = scenario.said().map(said).collect();
    let mut case = json!({ "name": scenario.name, "url": url, "thread": thread, "turns": turns });
    if let Some(at) = scenario.stop() {
        case["stop"] = json!({ "at": at, "by": "cancel" });
    }
    case
}

/// Returns the turns that the client reports.
pub(super) fn turns(seen: &Value) -> Vec<Turn> {
    seen.as_array().unwrap().iter().map(turn).collect()
}

fn turn(seen: &Value) -> Turn {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let questions = seen["questions"].as_array().unwrap().iter().map(|question| text(question, "message"));
    let mut turn = Turn { outcome: outcome(seen), questions: questions.collect(), ..Turn::default() };
    turn.cause = text(&seen["ends"][0], "message") + &text(seen, "error");
    let messages = seen["messages"].as_array().unwrap();
    for message in messages.iter().filter(|message| message["role"] != "user") {
        for call in message["calls"].as_array().into_iter().flatten() {
            turn.calls.push((text(call, "name"), text(call, "arguments")));
        }
        match message["role"].as_str().unwrap() {
            "tool" => turn.results.push((text(message, "of"), text(message, "content"))),
            role => turn.texts.push((role == "assistant", text(message, "content"))),
        }
    }
    turn
}
