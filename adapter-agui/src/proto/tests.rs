//! Byte for byte as `@ag-ui/proto` 1.0.0; nothing that comes in can panic.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{decode_event, encode_event};
use crate::wire::{Event, Strictness};

fn corpus() -> Vec<(Value, Vec<u8>)> {
    let text = include_str!("../../../tests/fixtures/agui/corpus_all_events.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    cases.into_iter().map(|case| (case["json"].clone(), bytes_of(case["hex"].as_str().unwrap()))).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn event(json: &Value) -> Event {
    Event::from_value(json.clone(), Strictness::Strict).unwrap()
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(encode_event(event, &mut out));
    out
}

#[test]
fn the_corpus_is_byte_identical() {
    for (json, bytes) in corpus() {
        assert_eq!(encoded(&event(&json)), bytes, "{json}");
    }
}

#[test]
fn the_corpus_comes_back() {
    for (json, bytes) in corpus() {
        let event = decode_event(Bytes::from(bytes)).unwrap();
        assert_eq!(serde_json::to_value(event).unwrap(), json);
    }
}

/// Empty texts, lists and objects, negative and long fields, retired shapes.
#[test]
fn the_edges_are_byte_identical() {
    let text = include_str!("../../../tests/fixtures/agui/corpus_proto_edges.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    for case in cases {
        let bytes = bytes_of(case["hex"].as_str().unwrap());
        assert_eq!(encoded(&event(&case["json"])), bytes, "{}", case["json"]);
        decode_event(bytes.into()).unwrap();
    }
}

#[test]
fn objects_have_the_order_of_javascript() {
    let keys = |json: Value| {
        let event = decode_event(encoded(&event(&json)).into()).unwrap();
        let Event::Custom(custom) = event else { panic!("{event:?}") };
        custom.value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let value = json!({"b": 1, "10": 2, "a": 3, "2": 4, "01": 5, "4294967295": 6});
    let order = keys(json!({"type": "CUSTOM", "name": "n", "value": value}));
    assert_eq!(order, ["2", "10", "b", "a", "01", "4294967295"]);
}

#[test]
fn an_unknown_event_has_no_bytes() {
    let unknown = event(&json!({"type": "HOLOGRAM"}));
    assert!(!encode_event(&unknown, &mut Vec::new()));
}

/// An operation is a number, and there is none for an unknown one: number 0 is `add`.
#[test]
fn a_patch_with_an_unknown_operation_has_no_bytes() {
    let state =
        |op: &str| event(&json!({"type": "STATE_DELTA", "delta": [{"op": op, "path": "/a", "value": 1}]}));
    let card = |op: &str| {
        let patch = json!([{"op": op, "path": "/a", "value": 1}]);
        event(&json!({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": patch}))
    };
    for make in [&state as &dyn Fn(&str) -> Event, &card] {
        assert!(encode_event(&make("add"), &mut Vec::new()));
        assert!(encode_event(&make("test"), &mut Vec::new()));
        assert!(!encode_event(&make("merge"), &mut Vec::new()));
    }
}

#[test]
fn envelopes_that_contradict_themselves_are_refused() {
    for (bytes, why) in [
        ("", "no event"),
        ("0a00", "no base"),
        ("0a040a020801", "type is not that"),
        ("0a020a00120412020801", "more than one event|number 0|not well formed|no base"),
        ("fa0700", "unknown number 127"),
        ("0a05", "longer than its message"),
        ("0a03", "longer than its message"),
        ("ff", "cut off"),
    ] {
        let error = decode_event(bytes_of(bytes).into()).unwrap_err().to_string();
        assert!(why.split('|').any(|why| error.contains(why)), "{bytes}: {error}");
    }
}

#[test]
fn deep_nesting_is_refused_not_overflowed() {
    // A list in a list in a list …, far deeper than the limit.
    let mut value = Vec::new();
    for _ in 0..2_000 {
        let mut outer = Vec::new();
        super::write_nested(6, &mut outer, |out| {
            super::write_nested(1, out, |out| out.extend_from_slice(&value));
        });
        value = outer;
    }
    let mut frame = Vec::new();
    super::write_nested(10, &mut frame, |out| {
        super::write_nested(1, out, |out| out.extend_from_slice(&[8, 9]));
        super::write_nested(2, out, |out| out.extend_from_slice(&value));
    });
    assert!(decode_event(frame.into()).unwrap_err().to_string().contains("too deeply"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _read = decode_event(bytes.into());
    }

    #[test]
    fn damaged_events_never_panic(case in 0_usize..35, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = corpus().swap_remove(case).1;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _read = decode_event(bytes.into());
    }

    #[test]
    fn texts_come_back(id in ".{0,200}", delta in ".{0,200}", name in proptest::option::of(".{0,5}")) {
        let event = event(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}));
        prop_assert_eq!(decode_event(encoded(&event).into()).unwrap(), event);
        let mut start = crate::wire::TextMessageStart { message_id: id.into(), ..Default::default() };
        start.name = name.map(Into::into);
        let start = Event::from(start);
        prop_assert_eq!(decode_event(encoded(&start).into()).unwrap(), start);
    }
}
