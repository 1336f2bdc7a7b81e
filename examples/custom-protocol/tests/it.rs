//! The example as a client of its protocol meets it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct_tests::process::{Program, payloads, post_whole};
use serde_json::json;

fn post(body: &str) -> String {
    let program = Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-custom-protocol"), &["0"]);
    post_whole(&format!("{}/agents/echo", program.address), body)
}

#[test]
fn events_are_written_by_its_converters() {
    let events = payloads(&post(r#"{"id":"1","prompt":"hello"}"#));
    let wanted = [json!({ "think": "Hm." }), json!({ "say": "You said: hello" }), json!({ "end": "well" })];
    assert_eq!(events, wanted);
}

#[test]
fn other_inputs_are_refused_in_its_words() {
    let response = post(r#"{"prompt":"hello"}"#);
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    assert!(response.contains("with an id of your own"), "{response}");
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
