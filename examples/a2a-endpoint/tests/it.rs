//! The example as an A2A client meets it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct_tests::process::{Program, post_whole};
use serde_json::{Value, json};

fn send(program: &Program, text: &str, task: Option<&str>) -> Value {
    let mut message = json!({ "kind": "message", "messageId": text, "role": "user",
        "parts": [{ "kind": "text", "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": message } });
    let response = post_whole(&format!("{}/a2a/weather", program.address), &call.to_string());
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str::<Value>(body).unwrap()["result"].take()
}

#[test]
fn a_question_is_a_task_that_waits_and_the_reply_completes_it() {
    let program = Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-a2a-endpoint"), &["0"]);
    let asked = send(&program, "What is the weather?", None);
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    assert!(asked["status"]["message"].to_string().contains("Which city?"), "{asked}");
    let answered = send(&program, "Oslo", asked["id"].as_str());
    assert_eq!((&answered["id"], &answered["status"]["state"]), (&asked["id"], &json!("completed")));
    assert!(answered["artifacts"].to_string().contains("It rains in Oslo."), "{answered}");
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
