//! The example as its reader meets it: a program that answers a `POST` with AG-UI events.

use std::io::BufRead as _;

use aqueduct_tests::process::{Program, payloads, post, post_whole};

const INPUT: &str = r#"{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"Why?"}],"tools":[],"context":[],"state":{},"forwardedProps":{},"protocolVersion":"1.0"}"#;

fn start() -> Program {
    Program::start(env!("CARGO_BIN_EXE_aqueduct-examples-agui-endpoint"), &["0"])
}

#[test]
fn it_streams_a_thought_a_tool_call_and_text() {
    let mut program = start();
    let events = payloads(&post_whole(&program.address, INPUT));
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"RUN_STARTED"));
    for kind in ["REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT", "TEXT_MESSAGE_END"] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    assert_eq!(kinds.last(), Some(&"RUN_FINISHED"));
    let words = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    let text: String = words.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "You asked: Why? The answer is 42.");
    assert_eq!(program.error_line(), "run r: 0 updates left");
}

#[test]
fn a_reader_that_goes_away_stops_the_agent() {
    let mut program = start();
    post(&program.address, INPUT, |response| {
        response
            .lines()
            .find(|line| line.as_ref().unwrap().contains("TEXT_MESSAGE_CONTENT"))
            .unwrap()
            .unwrap();
    });
    let line = program.error_line();
    let left = line.strip_prefix("run r: ").and_then(|rest| rest.strip_suffix(" updates left")).unwrap();
    assert!(left.parse::<usize>().unwrap() > 0, "{line}");
}

#[test]
fn what_is_no_run_input_is_refused_before_anything_runs() {
    let program = start();
    let response = post_whole(&program.address, r#"{"threadId":7}"#);
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[test]
fn it_has_less_than_sixty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines < 60, "{lines} lines");
}
