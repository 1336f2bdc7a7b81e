//! The two ways of writing agree, frames are what clients take, and the buffer is left alone on error.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::wire::{Event, Strictness};

fn event(json: Value) -> Event {
    Event::from_value(json, Strictness::Strict).unwrap()
}

fn written(event: &Event) -> String {
    let mut out = Vec::new();
    super::json(event, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_corpus_is_written_as_it_was_read() {
    let text = include_str!("../../../tests/fixtures/agui/corpus_all_events.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    for case in cases {
        let read: Value = serde_json::from_str(&written(&event(case["json"].clone()))).unwrap();
        assert_eq!(read, case["json"]);
    }
}

#[test]
fn frames_end_with_two_line_feeds() {
    let mut out = b"before".to_vec();
    let step = event(json!({"type": "STEP_STARTED", "stepName": "a\nb"}));
    super::sse(&step, None, &mut out).unwrap();
    super::sse(&step, Some("r.1.0"), &mut out).unwrap();
    let frame = r#"data: {"type":"STEP_STARTED","stepName":"a\nb"}"#;
    assert_eq!(String::from_utf8(out).unwrap(), format!("before{frame}\n\nid: r.1.0\n{frame}\n\n"));
}

#[test]
fn an_id_with_a_line_break_is_refused() {
    let mut out = Vec::new();
    let step = event(json!({"type": "STEP_STARTED", "stepName": "a"}));
    assert!(super::sse(&step, Some("a\ndata: x"), &mut out).is_err());
    assert!(out.is_empty());
}

#[test]
fn a_frame_too_large_is_refused_and_leaves_nothing() {
    let delta = "x".repeat(super::MAX_FRAME);
    let event = event(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta}));
    let mut out = b"before".to_vec();
    assert!(super::sse(&event, Some("1"), &mut out).is_err());
    assert!(super::proto_frame(&event, &mut out).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn a_protobuf_frame_has_its_length_in_front() {
    let mut out = b"x".to_vec();
    super::proto_frame(&event(json!({"type": "TEXT_MESSAGE_END", "messageId": "m"})), &mut out).unwrap();
    assert_eq!(out, [b'x', 0, 0, 0, 9, 0x1a, 7, 0x0a, 2, 8, 2, 0x12, 1, b'm']);
}

#[test]
fn an_event_without_protobuf_form_is_refused() {
    let mut out = Vec::new();
    let error = super::proto_frame(&event(json!({"type": "HOLOGRAM"})), &mut out).unwrap_err();
    assert!(error.to_string().contains("HOLOGRAM") && out.is_empty());
}

proptest! {
    #[test]
    fn the_template_says_what_serde_says(
        kind in 0_usize..7, id in ".{0,9}", delta in ".{0,99}", lane in proptest::option::of(".{0,9}"),
        timestamp in proptest::option::of(-5_i64..5), rare in any::<bool>(),
    ) {
        let (kind, name) = [("TEXT_MESSAGE_CONTENT", "messageId"), ("REASONING_MESSAGE_CONTENT", "messageId"),
            ("TOOL_CALL_ARGS", "toolCallId"), ("TEXT_MESSAGE_END", "messageId"), ("REASONING_START", "messageId"),
            ("REASONING_MESSAGE_END", "messageId"), ("REASONING_END", "messageId")][kind];
        let mut value = json!({"type": kind, name: id});
        if !kind.ends_with("START") && !kind.ends_with("END") {
            value["delta"] = delta.into();
        }
        for (name, member) in [("subagentRunId", lane.map(Value::from)), ("timestamp", timestamp.map(Value::from)),
            ("metadata", rare.then(|| json!({"a": 1})))] {
            if let Some(member) = member {
                value[name] = member;
            }
        }
        let read: Value = serde_json::from_str(&written(&event(value.clone()))).unwrap();
        prop_assert_eq!(read, value);
    }

    #[test]
    fn the_start_of_reasoning_is_written_as_serde_writes_it(
        id in ".{0,9}", lane in proptest::option::of(".{0,9}"), timestamp in proptest::option::of(any::<i32>()),
        metadata in proptest::option::of(".{0,9}"), raw in any::<bool>(), extra in any::<bool>(),
    ) {
        let mut value = json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"});
        for (name, member) in [("subagentRunId", lane.map(Value::from)), ("timestamp", timestamp.map(Value::from)),
            ("metadata", metadata.map(|value| json!({"a": value}))), ("rawEvent", raw.then(|| json!([1]))),
            ("later", extra.then(|| json!("x")))] {
            if let Some(member) = member {
                value[name] = member;
            }
        }
        let event = event(value);
        prop_assert_eq!(written(&event), serde_json::to_string(&event).unwrap());
    }
}
