//! The example as its reader meets it: a program that answers a `POST` with AG-UI events.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail like tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use aqueduct_tests::process::{Program, payloads, post_whole};

const INPUT: &str = r#"{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"Why?"}],"tools":[],"context":[],"state":{},"forwardedProps":{},"protocolVersion":"1.0"}"#;

fn url(program: &Program) -> String {
    format!("{}/agents/oracle", program.address)
}

/// The answer to a `GET`, to its end.
fn get_whole(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(socket, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response
}

fn start() -> Program {
    Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-agui-endpoint"), &["0"])
}

#[test]
fn it_streams_a_thought_a_tool_call_and_text() {
    let program = start();
    let events = payloads(&post_whole(&url(&program), INPUT));
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"RUN_STARTED"));
    for kind in ["REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT", "TEXT_MESSAGE_END"] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    assert_eq!(kinds.last(), Some(&"RUN_FINISHED"));
    let words = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    let text: String = words.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "You asked: Why? The answer is 42.");
}

#[test]
fn the_same_run_can_be_watched_again() {
    let program = start();
    let events = payloads(&post_whole(&url(&program), INPUT));
    let again = payloads(&get_whole(&format!("{}/runs/r/events?protocolVersion=1.0", program.address)));
    assert_eq!(again, events);
}

#[test]
fn a_caller_that_wants_a_value_gets_the_ended_run() {
    let program = start();
    let host = program.address.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(
        socket,
        "POST /agents/oracle HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{INPUT}",
        INPUT.len()
    )
    .unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(value["text"], "You asked: Why? The answer is 42.");
    assert_eq!((&value["status"], &value["thread"]), (&"success".into(), &"t".into()), "{value}");
}

#[test]
fn what_is_no_run_input_is_refused_before_anything_runs() {
    let program = start();
    let response = post_whole(&url(&program), r#"{"threadId":7}"#);
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[test]
fn it_has_at_most_thirty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 30, "{lines} lines");
}
