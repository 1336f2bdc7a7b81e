//! Chunks spelled out, lane by lane, and what cannot be.

use serde_json::{Value, json};

use super::*;
use crate::wire::Strictness;

/// Feeds events and tells what came out, one short line per event.
fn expand(dialect: Dialect, events: &[Value]) -> Result<Vec<String>, Error> {
    let mut expander = ChunkExpander::new(dialect);
    let mut out = Vec::new();
    for event in events {
        let event = Event::from_value(event.clone(), Strictness::Strict).unwrap();
        expander.handle_event(event, &mut out)?;
    }
    Ok(out.iter().map(line).collect())
}

fn line(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap();
    let member = |name: &str| value.get(name).and_then(Value::as_str).map(|text| format!(" {text}"));
    let members = ["messageId", "toolCallId", "stepName", "delta", "subagentRunId"];
    format!("{}{}", event.kind(), members.into_iter().filter_map(member).collect::<String>())
}

fn text(id: &str, delta: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": id, "delta": delta})
}

#[test]
fn another_id_ends_the_stream_and_the_first_may_come_back() {
    let lines = expand(
        Dialect::V1_0,
        &[
            text("a", "1"),
            json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "2"}),
            text("b", "3"),
            text("a", "4"),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
        ],
    )
    .unwrap();
    assert_eq!(
        lines,
        [
            "TEXT_MESSAGE_START a",
            "TEXT_MESSAGE_CONTENT a 1",
            "TEXT_MESSAGE_CONTENT a 2",
            "TEXT_MESSAGE_END a",
            "TEXT_MESSAGE_START b",
            "TEXT_MESSAGE_CONTENT b 3",
            "TEXT_MESSAGE_END b",
            "TEXT_MESSAGE_START a",
            "TEXT_MESSAGE_CONTENT a 4",
            "TEXT_MESSAGE_END a",
            "RUN_FINISHED",
        ]
    );
}

#[test]
fn side_notes_end_nothing_and_other_lanes_neither() {
    let lines = expand(
        Dialect::V1_0,
        &[
            text("a", "1"),
            json!({"type": "RAW", "event": 1}),
            json!({"type": "STEP_STARTED", "stepName": "s", "subagentRunId": "x"}),
            json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "b", "delta": "2", "subagentRunId": "x"}),
            text("a", "3"),
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "x"}),
            json!({"type": "STEP_STARTED", "stepName": "t"}),
        ],
    )
    .unwrap();
    assert_eq!(
        lines,
        [
            "TEXT_MESSAGE_START a",
            "TEXT_MESSAGE_CONTENT a 1",
            "RAW",
            "STEP_STARTED s x",
            "TEXT_MESSAGE_START b x",
            "TEXT_MESSAGE_CONTENT b 2 x",
            "TEXT_MESSAGE_CONTENT a 3",
            "TEXT_MESSAGE_END b x",
            "SUBAGENT_FINISHED x",
            "TEXT_MESSAGE_END a",
            "STEP_STARTED t",
        ]
    );
}

#[test]
fn tools_and_reasoning_are_spelled_out_as_well() {
    let lines = expand(
        Dialect::V1_0,
        &[
            json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "r", "delta": "hm"}),
            json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "t", "delta": "{"}),
            json!({"type": "TOOL_CALL_CHUNK", "delta": "}"}),
            json!({"type": "MESSAGES_SNAPSHOT", "messages": []}),
        ],
    )
    .unwrap();
    assert_eq!(
        lines,
        [
            "REASONING_MESSAGE_START r",
            "REASONING_MESSAGE_CONTENT r hm",
            "REASONING_MESSAGE_END r",
            "TOOL_CALL_START c",
            "TOOL_CALL_ARGS c {",
            "TOOL_CALL_ARGS c }",
            "TOOL_CALL_END c",
            "MESSAGES_SNAPSHOT",
        ]
    );
}

#[test]
fn a_first_chunk_must_say_what_it_begins() {
    let first = |event: Value| expand(Dialect::V1_0, &[event]).unwrap_err().to_string();
    assert!(first(json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "d"})).contains("messageId"));
    assert!(first(json!({"type": "TOOL_CALL_CHUNK", "toolCallName": "t"})).contains("toolCallId"));
    assert!(first(json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c"})).contains("toolCallName"));
}

#[test]
fn contradictions_count_from_1_0_on() {
    let events = [
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "a", "delta": "1"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "a", "role": "user", "delta": "2"}),
    ];
    assert!(matches!(expand(Dialect::V1_0, &events), Err(Error::ChunkConflict { member: "role", .. })));
    assert!(expand(Dialect::V0_0_59, &events).is_ok());
}

#[test]
fn an_untagged_chunk_needs_exactly_one_lane() {
    let tagged = |id: &str, lane: &str| json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": id, "delta": "1", "subagentRunId": lane});
    let loose = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "2"});
    let one = expand(Dialect::V1_0, &[tagged("a", "x"), loose.clone()]).unwrap();
    assert_eq!(one.last().unwrap(), "TEXT_MESSAGE_CONTENT a 2 x");
    let two = expand(Dialect::V1_0, &[tagged("a", "x"), tagged("b", "y"), loose]);
    assert!(matches!(two, Err(Error::AmbiguousChunk { lanes: 2, .. })));
    let wrong = expand(Dialect::V1_0, &[tagged("a", "x"), tagged("a", "y")]);
    assert!(matches!(wrong, Err(Error::ChunkConflict { member: "subagentRunId", .. })));
}
