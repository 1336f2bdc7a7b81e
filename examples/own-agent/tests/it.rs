//! One agent, every surface, one port.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct::a2a::{Address, Binding, RemoteAgent};
use aqueduct_core::{Agent as _, AgentRequest, BlockEvent, ContentBlock, RunInput, SourceEvent, SpanKind};
use aqueduct_tests::process::{Program, payloads, post_whole};
use aqueduct_transport_grpc::{Client, ClientConfig};
use aqueduct_transport_ws::client::{Client as Socket, ConnectOptions};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

const ANSWER: &str = "The answer is 42.";

fn start() -> Program {
    Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-own-agent"), &["0"])
}

fn input(run: &str) -> String {
    let messages = json!([{"id": "1", "role": "user", "content": "Why?"}]);
    json!({"threadId": "t", "runId": run, "messages": messages, "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "protocolVersion": "1.0"})
    .to_string()
}

fn text(events: &[Value]) -> String {
    let words = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    words.map(|event| event["delta"].as_str().unwrap()).collect()
}

#[test]
fn agui_streams_thought_tool_and_answer() {
    let program = start();
    let events = payloads(&post_whole(&format!("{}/agents/oracle", program.address), &input("r")));
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    for kind in ["REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT", "TEXT_MESSAGE_END"] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("RUN_STARTED", "RUN_FINISHED"));
    assert_eq!(text(&events), ANSWER);
}

#[test]
fn a2a_answers_clients_of_0_3_with_a_task() {
    let program = start();
    let message = json!({ "kind": "message", "messageId": "m", "role": "user",
        "parts": [{ "kind": "text", "text": "Why?" }] });
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": message } });
    let response = post_whole(&format!("{}/a2a/oracle", program.address), &call.to_string());
    assert!(response.contains(r#""state":"completed""#), "{response}");
    assert!(response.contains(ANSWER), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a2a_answers_over_three_bindings() {
    let program = start();
    let mount = format!("{}/a2a/oracle", program.address);
    for (binding, url) in
        [(Binding::JsonRpc, &mount), (Binding::HttpJson, &mount), (Binding::Grpc, &program.address)]
    {
        let agent = RemoteAgent::builder(Address::Agent(url.clone())).binding(binding).build().unwrap();
        let events = agent.run(AgentRequest::new(RunInput::prompt("t", "r", "Why?")));
        let events: Vec<SourceEvent> = events.collect().await;
        let answer = events.iter().filter_map(|event| match event {
            SourceEvent::Update(update) => match &update.block {
                ContentBlock::Text(text) => Some(text.text.to_string()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(answer.collect::<String>(), ANSWER, "{binding:?}");
        assert!(matches!(events.last(), Some(SourceEvent::Finished { .. })), "{binding:?}: {events:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_streams_typed_events() {
    let program = start();
    let client = Client::connect(&program.address, ClientConfig::default()).await.unwrap();
    let events = client.run("oracle", &RunInput::prompt("t", "r", "Why?")).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    let delta = |event: &aqueduct_core::service::NumberedEvent| match &event.event {
        BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Text => Some(delta.to_string()),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(delta).collect::<String>(), ANSWER);
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_carries_agui_events() {
    let program = start();
    let url = format!("{}/ws", program.address.replace("http://", "ws://"));
    let client = Socket::connect(&ConnectOptions::new(url)).await.unwrap();
    let mut events = client.start(Some("oracle"), &input("r")).await.unwrap();
    let mut all: Vec<Value> = Vec::new();
    while let Some(event) = events.next().await {
        all.push(serde_json::from_slice(&event.unwrap().data).unwrap());
    }
    assert_eq!(text(&all), ANSWER);
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
