//! Every event of the corpus keeps its JSON; what is not right is refused with words that help.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Event, EventType, RunAgentInput, Strictness};

fn corpus() -> Vec<Value> {
    let text = include_str!("../../../tests/fixtures/agui/corpus_all_events.json");
    serde_json::from_str(text).unwrap()
}

fn read(value: Value) -> Result<Event, String> {
    Event::from_value(value, Strictness::Strict).map_err(|error| error.to_string())
}

fn rewritten(value: Value) -> Value {
    serde_json::to_value(read(value).unwrap()).unwrap()
}

#[test]
fn the_corpus_keeps_its_json() {
    for case in corpus() {
        let json = &case["json"];
        assert_eq!(&rewritten(json.clone()), json);
    }
}

#[test]
fn the_corpus_has_every_type() {
    let seen: Vec<_> =
        corpus().iter().map(|case| read(case["json"].clone()).unwrap().event_type().unwrap()).collect();
    for kind in EventType::ALL {
        assert!(seen.contains(&kind), "{kind:?}");
        assert_eq!(EventType::from_name(kind.as_str()), Some(kind));
    }
}

#[test]
fn unknown_members_survive() {
    let event = json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "x-future": {"a": [1]}});
    assert_eq!(rewritten(event.clone()), event);
    let event = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
        "outcome": {"type": "success", "soon": 1}, "usage": [{"inputTokens": 1, "inputSeconds": 2}]});
    assert_eq!(rewritten(event.clone()), event);
    let event =
        json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1, "by": "me"}]});
    assert_eq!(rewritten(event.clone()), event);
}

#[test]
fn unknown_kinds_survive() {
    let event = json!({"type": "HOLOGRAM", "messageId": "m", "n": null});
    assert!(matches!(read(event.clone()).unwrap(), Event::Unknown { kind, .. } if kind == "HOLOGRAM"));
    assert_eq!(rewritten(event.clone()), event);
    let event = json!({"type": "MESSAGES_SNAPSHOT", "messages": [
        {"role": "oracle", "id": "o", "n": 1},
        {"role": "user", "id": "u", "content": [{"type": "smell", "v": 1}, {"type": "image",
            "source": {"type": "dream", "v": 2}}]},
    ]});
    assert_eq!(rewritten(event.clone()), event);
}

#[test]
fn required_but_nullable_members_keep_their_null() {
    for event in [
        json!({"type": "RAW", "event": null}),
        json!({"type": "CUSTOM", "name": "n", "value": null}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
    ] {
        assert_eq!(rewritten(event.clone()), event);
    }
    assert!(read(json!({"type": "CUSTOM", "name": "n"})).unwrap_err().contains("CUSTOM.value"));
    assert!(read(json!({"type": "RAW"})).unwrap_err().contains("RAW.event"));
    assert!(read(json!({"type": "STATE_SNAPSHOT"})).unwrap_err().contains("STATE_SNAPSHOT.snapshot"));
}

#[test]
fn null_is_not_absent() {
    for (event, place) in [
        (json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "name": null}), "TEXT_MESSAGE_START.name"),
        (json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": null}), "TEXT_MESSAGE_START.role"),
        (json!({"type": "STEP_STARTED", "stepName": "s", "timestamp": null}), "STEP_STARTED.timestamp"),
        (json!({"type": "STEP_STARTED", "stepName": "s", "metadata": null}), "STEP_STARTED.metadata"),
        (json!({"type": "STEP_STARTED", "stepName": "s", "rawEvent": null}), "STEP_STARTED.rawEvent"),
        (
            json!({"type": "STEP_STARTED", "stepName": "s", "subagentRunId": null}),
            "STEP_STARTED.subagentRunId",
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": null}),
            "RUN_FINISHED.result",
        ),
        (
            json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "assistant", "content": null}]}),
            "MESSAGES_SNAPSHOT.messages[0].content",
        ),
    ] {
        let error = read(event.clone()).unwrap_err();
        assert!(error.starts_with(&format!("{place}: ")) && error.contains("found null"), "{error}");
        assert!(Event::from_value(event, Strictness::Forgiving).is_ok(), "{place}");
    }
}

#[test]
fn errors_name_event_member_and_expectation() {
    for (event, message) in [
        (
            json!({"type": "TEXT_MESSAGE_START"}),
            "TEXT_MESSAGE_START.messageId: expected a string, found nothing",
        ),
        (
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": 1, "delta": "d"}),
            "TEXT_MESSAGE_CONTENT.messageId: expected a string, found 1",
        ),
        (
            json!({"type": "REASONING_MESSAGE_START", "messageId": "m"}),
            "REASONING_MESSAGE_START.role: expected \"reasoning\", found nothing",
        ),
        (
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "tool"}),
            "TEXT_MESSAGE_START.role: expected \"developer\", \"system\", \"assistant\" or \"user\", found \"tool\"",
        ),
        (
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": {}}),
            "TOOL_CALL_RESULT.content: expected a string or an array of content parts, found an object",
        ),
        (
            json!({"type": "RUN_ERROR", "message": "m", "usage": [{"inputTokens": "1"}]}),
            "RUN_ERROR.usage[0].inputTokens: expected a count of at most 53 bits, found \"1\"",
        ),
        (json!({"message": "m"}), "event.type: expected the name of an event, found nothing"),
        (json!({"type": ""}), "event.type: expected the name of an event, found \"\""),
        (json!([1]), "event: expected an object, found an array"),
        (
            json!({"type": "TEXT_MESSAGE_START", "message_id": "m"}),
            "TEXT_MESSAGE_START.messageId: expected a string, found nothing",
        ),
    ] {
        assert_eq!(read(event).unwrap_err(), message);
    }
}

#[test]
fn a_timestamp_is_an_integer() {
    let stamped = |stamp: Value| json!({"type": "STEP_STARTED", "stepName": "s", "timestamp": stamp});
    let timestamp = |event: Event| event.base().unwrap().timestamp.unwrap();
    assert_eq!(timestamp(read(stamped(json!(1_700_000_000_000.0))).unwrap()), 1_700_000_000_000);
    for bad in [json!(1.5), json!("2026-01-01T00:00:00Z"), json!(9_007_199_254_740_992_i64), json!(1e300)] {
        assert!(read(stamped(bad.clone())).is_err(), "{bad}");
    }
    let forgiven = Event::from_value(stamped(json!(-1.5)), Strictness::Forgiving).unwrap();
    assert_eq!(timestamp(forgiven), -2);
}

#[test]
fn recorded_inputs_keep_their_json() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/agui");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".req.json") {
            let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let input: RunAgentInput = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(input).unwrap(), value, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 20);
}

#[test]
fn a_delta_stays_small() {
    // Events are moved through vectors: a size that doubles unnoticed would cost every delta.
    assert!(size_of::<Event>() <= 176, "{}", size_of::<Event>());
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "user",
            "assistant",
            "text",
            "image",
            "url",
            "success",
            "interrupt",
            "add"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let names = prop::sample::select(vec![
            "id",
            "role",
            "type",
            "content",
            "messages",
            "outcome",
            "interrupts",
            "usage",
            "source",
            "value",
            "op",
            "path",
            "toolCalls",
            "function",
            "name",
            "arguments",
            "reason",
            "metadata",
            "input",
            "threadId",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    /// Any JSON under any type: read or refused, never a panic; and what is read is written as it was.
    #[test]
    fn what_is_read_is_written_again(kind in prop::sample::select(EventType::ALL.to_vec()), case in 0_usize..35,
        name in prop::sample::select(vec!["messageId", "content", "messages", "outcome", "usage", "metadata", "delta",
            "patch", "input", "rawEvent", "timestamp", "result", "role", "subagentRunId", "extra"]),
        json in arb_json()) {
        let mut value = corpus().swap_remove(case)["json"].clone();
        value[name] = json.clone();
        if let Ok(event) = Event::from_value(value.clone(), Strictness::Strict) {
            let written = serde_json::to_value(&event).unwrap();
            // A timestamp may be spelled `1.0`; everything else is kept to the letter.
            if name != "timestamp" && name != "usage" && name != "input" {
                prop_assert_eq!(&written, &value);
            }
            prop_assert_eq!(Event::from_value(written, Strictness::Strict).unwrap(), event);
        }
        let _read = Event::from_value(json!({"type": kind.as_str(), "messageId": json}), Strictness::Forgiving);
    }
}
