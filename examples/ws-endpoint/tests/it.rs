//! The example as its reader meets it: runs, resume and cancel over one socket.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct_tests::process::Program;
use aqueduct_transport_ws::client::{Client, ConnectOptions, RunEvents};
use serde_json::{Value, json};

async fn connect() -> (Program, Client) {
    let program = Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-ws-endpoint"), &["0"]);
    let client =
        Client::connect(&ConnectOptions::new(format!("{}/ws", program.address.replace("http", "ws")))).await;
    (program, client.unwrap())
}

/// An input of a client that declares this version, or none.
fn input(run: &str, version: Option<&str>) -> String {
    let messages = json!([{"id": "1", "role": "user", "content": "one two three"}]);
    let mut input = json!({"threadId": "t", "runId": run, "messages": messages, "tools": [], "context": [],
        "state": {}, "forwardedProps": {}});
    if let Some(version) = version {
        input["protocolVersion"] = version.into();
    }
    input.to_string()
}

/// The numbers and payloads that are left.
async fn rest(mut events: RunEvents) -> Vec<(u64, Value)> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        all.push((event.number, serde_json::from_slice(&event.data).unwrap()));
    }
    all
}

fn text(events: &[(u64, Value)]) -> String {
    events
        .iter()
        .filter_map(|(_, event)| {
            (event["type"] == "TEXT_MESSAGE_CONTENT").then(|| event["delta"].as_str())?
        })
        .collect()
}

#[tokio::test]
async fn a_run_can_be_watched_again_from_any_number() {
    let (_program, client) = connect().await;
    let all = rest(client.start(Some("echo"), &input("r1", None)).await.unwrap()).await;
    assert_eq!(text(&all), "one two three");
    assert_eq!(all.last().unwrap().1["type"], "RUN_FINISHED");
    let after = all[all.len() / 2].0;
    let again = rest(client.watch("r1", after).await.unwrap()).await;
    let wanted: Vec<_> = all.into_iter().filter(|(number, _)| *number > after).collect();
    assert_eq!(again, wanted);
}

#[tokio::test]
async fn a_run_can_be_stopped() {
    let (_program, client) = connect().await;
    let events = client.start(Some("slow"), &input("r2", Some("1.0"))).await.unwrap();
    assert!(client.cancel("r2").await.unwrap());
    let all = rest(events).await;
    assert_eq!(all.last().unwrap().1["type"], "RUN_FINISHED");
    assert!(!client.cancel("r2").await.unwrap());
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
