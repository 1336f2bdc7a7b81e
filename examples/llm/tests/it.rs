//! The example against a fake model: its chunks become the answer, its failure the failure of the run.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use aqueduct::core::CancelToken;
use aqueduct_tests::process::{Program, payloads, post_whole};
use aqueduct_transport_http::{Server, ServerConfig};
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};

/// A model that repeats the prompt, word by word; it refuses `fail`, and breaks off after `cut`.
async fn completions(body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&request["model"], &request["stream"]), (&json!("parrot"), &json!(true)));
    let asked = request["messages"][0]["content"].as_str().unwrap();
    if asked == "fail" {
        return (StatusCode::TOO_MANY_REQUESTS, "slow down").into_response();
    }
    let chunk =
        |word: &str| format!("data: {}\n\n", json!({ "choices": [{ "delta": { "content": word } }] }));
    let mut stream: String = asked.split_inclusive(' ').map(chunk).collect();
    if asked == "cut" {
        return ([("content-type", "text/event-stream")], stream).into_response();
    }
    stream.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    ([("content-type", "text/event-stream")], stream).into_response()
}

async fn run(text: &str) -> Vec<Value> {
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let url = format!("http://{}/v1/chat/completions", server.local_addr().unwrap());
    tokio::spawn(
        server.serve(Router::new().route("/v1/chat/completions", post(completions)), CancelToken::new()),
    );
    let input = json!({ "threadId": "t", "runId": "r", "tools": [], "context": [], "protocolVersion": "1.0",
        "messages": [{ "id": "1", "role": "user", "content": text }] });
    let talk = tokio::task::spawn_blocking(move || {
        let program =
            Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-llm"), &[url.as_str(), "parrot", "0"]);
        post_whole(&format!("{}/agents/llm", program.address), &input.to_string())
    });
    payloads(&talk.await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunks_of_the_model_are_the_answer() {
    let events = run("one two three").await;
    let words = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    let words: Vec<&str> = words.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(words.concat(), "one two three");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_fails_the_run() {
    let events = run("cut").await;
    assert!(events.iter().any(|event| event["delta"] == "cut"), "{events:?}");
    assert_eq!(events.last().unwrap()["type"], "RUN_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_refuses_fails_the_run() {
    let events = run("fail").await;
    let end = events.last().unwrap();
    assert_eq!(end["type"], "RUN_ERROR");
    assert!(end["message"].as_str().unwrap().contains("429"), "{end}");
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
