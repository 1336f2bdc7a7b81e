//! The bridge between a recorded A2A agent and a reader of AG-UI.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use std::sync::{Arc, Mutex};

use aqueduct::core::CancelToken;
use aqueduct_tests::process::{Program, payloads, post, post_whole};
use aqueduct_transport_http::{Server, ServerConfig};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::{get, post as on_post};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

const CARD: &str = include_str!("../../../tests/fixtures/a2a/v1-agent-card.json");
const ANSWER: &str = include_str!("../../../tests/fixtures/a2a/v1-jsonrpc-default.sse");
const QUESTION: &str = include_str!("../../../tests/fixtures/a2a/v1-jsonrpc-input-required.sse");

/// What the agent was sent: the bodies, in order.
type Heard = Arc<Mutex<Vec<Value>>>;

/// An agent that replays a recording. To `hang` it never sends an end.
async fn agent() -> (String, Heard) {
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let (heard, card) = (Heard::default(), CARD.replace("127.0.0.1:9981", &address));
    let listener = Arc::clone(&heard);
    let answer = async move |body: String| {
        let request: Value = serde_json::from_str(&body).unwrap();
        let words = request["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
        listener.lock().unwrap().push(request);
        let body = match words.as_str() {
            "ask" => Body::from(QUESTION),
            "hang" => {
                // Three events: the task, a thought, a tool that was called.
                let lines = ANSWER.split_inclusive('\n').take(6).map(Ok::<_, std::io::Error>);
                Body::from_stream(stream::iter(lines).chain(stream::pending()))
            }
            _ => Body::from(ANSWER),
        };
        Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
    };
    let routes = Router::new()
        .route("/.well-known/agent-card.json", get(async move || card))
        .route("/", on_post(answer));
    tokio::spawn(server.serve(routes, CancelToken::new()));
    (format!("http://{address}"), heard)
}

fn input(run: &str, words: &str) -> Value {
    let messages = json!([{"id": "1", "role": "user", "content": words}]);
    json!({"threadId": "t", "runId": run, "messages": messages, "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "protocolVersion": "1.0"})
}

async fn bridge() -> (Program, Heard) {
    let (agent, heard) = agent().await;
    (Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-a2a-bridge"), &[&agent, "0"]), heard)
}

async fn run(program: &Program, input: Value) -> Vec<Value> {
    let url = format!("{}/agents/remote", program.address);
    payloads(&tokio::task::spawn_blocking(move || post_whole(&url, &input.to_string())).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reader_sees_thought_tool_and_answer() {
    let (program, _) = bridge().await;
    let events = run(&program, input("r1", "what version")).await;
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let answer: String =
        of("TEXT_MESSAGE_CONTENT").iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(answer, "The version is **1.4.2** — tout va bien ✅.\n");
    assert_eq!(of("TOOL_CALL_START")[0]["toolCallName"], "version_service__version");
    assert_eq!(of("TOOL_CALL_RESULT").len(), 1);
    assert_eq!(of("REASONING_MESSAGE_CONTENT")[0]["delta"], "🤔 Planning…");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_question_goes_to_the_task_that_waits() {
    let (program, heard) = bridge().await;
    let events = run(&program, input("r1", "ask")).await;
    let outcome = &events.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{outcome}");
    let mut next = input("r2", "ask");
    next["resume"] =
        json!([{"interruptId": outcome["interrupts"][0]["id"], "status": "resolved", "payload": "prod"}]);
    run(&program, next).await;
    let heard = heard.lock().unwrap();
    let message = &heard[1]["params"]["message"];
    assert_eq!(message["parts"], json!([{"text": "prod"}]));
    assert_eq!(message["taskId"], "bf9f30f5-74ab-4e70-a88d-1e7e97d5c4a4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_stops_the_task() {
    let (program, heard) = bridge().await;
    let url = format!("{}/agents/remote", program.address);
    let left = tokio::task::spawn_blocking(move || {
        post(&url, &input("r1", "hang").to_string(), |response| {
            let mut line = String::new();
            while !line.contains("TOOL_CALL_START") {
                line.clear();
                assert_ne!(response.read_line(&mut line).unwrap(), 0);
            }
        });
    });
    left.await.unwrap();
    // The test runner ends this test if the agent never receives a cancel.
    while heard.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let heard = heard.lock().unwrap();
    assert_eq!(heard[1]["method"], "CancelTask");
    assert_eq!(heard[1]["params"]["id"], "650dc433-615a-4043-882f-e5db6df98a13");
}

#[test]
fn it_has_at_most_fifteen_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 15, "{lines} lines");
}
