//! Each rule with a stream that breaks it and one that does not, for both dialects; and the recorded streams.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Level, Rule, Severity, TextVerifier, Verifier, verify_json_lines, verify_sse};
use crate::config::Dialect;

const DIALECTS: [Dialect; 2] = [Dialect::V1_0, Dialect::V0_0_59];

/// What a dialect thinks of a stream: nothing, or a rule broken in this way.
type Verdict = Option<Severity>;
const OK: Verdict = None;
const REJECTED: Verdict = Some(Severity::Rejected);
const UNNOTICED: Verdict = Some(Severity::Unnoticed);

fn lines(events: &[Value]) -> String {
    events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// A run around some events.
fn run(inner: Vec<Value>) -> Vec<Value> {
    let mut events = vec![started()];
    events.extend(inner);
    events.push(finished());
    events
}

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
}

fn finished() -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
}

fn event(kind: &str, id: &str) -> Value {
    let mut event = json!({"type": kind, "messageId": id});
    if kind == "TEXT_MESSAGE_CONTENT" {
        event["delta"] = json!("d");
    }
    event
}

/// A text message, whole.
fn text(id: &str) -> Vec<Value> {
    ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"].map(|kind| event(kind, id)).to_vec()
}

fn result(id: &str, call: &str) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": "x"})
}

struct Case {
    rule: String,
    what: String,
    /// For 1.0 and 0.0.59.
    verdicts: [Verdict; 2],
    events: Vec<Value>,
}

/// The cases that real clients are asked as well: each a stream, the rule it is about, and the verdicts.
fn cases() -> Vec<Case> {
    let text = include_str!("../../../tests/fixtures/agui/verifier_cases.jsonl");
    let read = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str().unwrap().to_owned();
        let verdict = |name: &str| match &*text(name) {
            "ok" => OK,
            "rejected" => REJECTED,
            "unnoticed" => UNNOTICED,
            other => panic!("{other}"),
        };
        Case {
            rule: text("rule"),
            what: text("what"),
            verdicts: [verdict("1.0.0"), verdict("0.0.59")],
            events: case["events"].as_array().unwrap().clone(),
        }
    };
    text.lines().map(read).collect()
}

#[test]
fn every_case_has_its_verdict() {
    for case in cases() {
        for (dialect, verdict) in DIALECTS.into_iter().zip(case.verdicts) {
            let found = verify_json_lines(&lines(&case.events), dialect, Level::Strict);
            let worst = found.iter().map(|violation| violation.severity).max();
            let name = format!("{}: {} ({dialect:?}): {found:?}", case.rule, case.what);
            assert_eq!(worst, verdict, "{name}");
            let named = found.iter().any(|violation| violation.rule.id() == case.rule);
            assert!(verdict.is_none() || named, "{name}");
            let client = verify_json_lines(&lines(&case.events), dialect, Level::Client);
            assert_eq!(client.is_empty(), verdict != REJECTED, "{name}");
        }
    }
}

#[test]
fn every_rule_has_a_case() {
    let framing = [Rule::NotJson, Rule::InvalidUtf8, Rule::CrlfFraming, Rule::FrameTooLarge]
        .map(|rule| rule.id().to_owned());
    let broken = |case: &Case| case.verdicts.iter().any(Option::is_some);
    let covered: Vec<_> =
        cases().iter().filter(|case| broken(case)).map(|case| case.rule.clone()).chain(framing).collect();
    for rule in Rule::ALL {
        assert!(covered.iter().any(|covered| covered == rule.id()), "{rule:?}");
        assert!(!rule.id().is_empty() && !rule.fix().is_empty());
    }
}

#[test]
fn a_violation_says_where_what_and_what_to_do() {
    let events = run(vec![event("TEXT_MESSAGE_CONTENT", "m")]);
    let found = verify_json_lines(&lines(&events), Dialect::V1_0, Level::Client);
    assert_eq!(
        found[0].to_string(),
        "event 1 (TEXT_MESSAGE_CONTENT): text message 'm' is not open [text-not-open, rejected]; \
         send TEXT_MESSAGE_START with that id first"
    );
}

#[test]
fn several_nulls_of_one_event_are_all_found() {
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "rawEvent": null, "name": null,
        "timestamp": 1.5});
    let rest = text("m").split_off(1);
    let events = run([vec![start], rest].concat());
    let found = verify_json_lines(&lines(&events), Dialect::V1_0, Level::Strict);
    let rules: Vec<_> = found.iter().map(|violation| (violation.rule, violation.severity)).collect();
    let expected = [
        (Rule::Schema, Severity::Rejected),
        (Rule::NullOptional, Severity::Unnoticed),
        (Rule::NullOptional, Severity::Rejected),
    ];
    assert_eq!(rules, expected);
}

fn sse(events: &[Value], newline: &str) -> String {
    let frame = |event: &Value| format!("data: {event}{newline}{newline}");
    events.iter().map(frame).collect::<Vec<_>>().concat()
}

fn rules_of_sse(text: &str) -> Vec<Rule> {
    let whole = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
    let mut cut = TextVerifier::new(Verifier::new(Dialect::V1_0, Level::Strict));
    text.as_bytes().iter().for_each(|byte| cut.handle_bytes(&[*byte]));
    assert_eq!(cut.handle_end(), whole, "the cuts must not matter");
    whole.into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn framing_is_what_clients_take() {
    let events = run(text("m"));
    assert_eq!(rules_of_sse(&sse(&events, "\n")), []);
    assert_eq!(rules_of_sse(&sse(&events, "\r\n")), [Rule::CrlfFraming]);
    let commented = sse(&events, "\n").replace("data: {", ": keep-alive\n\nid: 7\nevent: x\ndata:{");
    assert_eq!(rules_of_sse(&commented), []);
    assert_eq!(rules_of_sse(&format!("{}data: [DONE]\n\n", sse(&events, "\n"))), [Rule::NotJson]);
    assert_eq!(rules_of_sse(sse(&events, "\n").trim_end()), []);
    let lined = sse(&events, "\n").replace(",\"messageId\"", ",\ndata: \"messageId\"");
    assert_eq!(rules_of_sse(&lined), []);
}

/// Clients read U+FFFD where bytes are not UTF-8: the event is verified as they read it, and its loss is reported.
#[test]
fn bytes_that_are_not_utf_8_are_reported() {
    let mut bytes = sse(&run(text("m")), "\n").into_bytes();
    let at = bytes.windows(8).position(|window| window == b"\"delta\":").unwrap() + 9;
    bytes.insert(at, 0xff);
    let found = verify_sse(&bytes, Dialect::V1_0, Level::Strict);
    let rules: Vec<_> = found.iter().map(|violation| (violation.index, violation.rule)).collect();
    assert_eq!(rules, [(2, Rule::InvalidUtf8)]);
    assert_eq!(verify_sse(&bytes, Dialect::V1_0, Level::Client), []);
}

#[test]
fn a_frame_over_the_limit_is_reported_and_passed_over() {
    let large = json!({"type": "CUSTOM", "name": "n", "value": "x".repeat(crate::encode::MAX_FRAME)});
    let text = sse(&run(vec![large]), "\n");
    let found = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
    let rules: Vec<_> = found.iter().map(|violation| (violation.index, violation.rule)).collect();
    assert_eq!(rules, [(1, Rule::FrameTooLarge)]);
}

#[test]
fn history_is_known() {
    let history: Vec<crate::wire::Message> = serde_json::from_value(json!([
        {"id": "m", "role": "assistant", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
    ]))
    .unwrap();
    let verify = |events: &[Value]| {
        let verifier = Verifier::new(Dialect::V1_0, Level::Strict).with_history(&history);
        let mut verifier = TextVerifier::new(verifier);
        for event in events {
            verifier.handle_payload(&event.to_string());
        }
        verifier.handle_end().into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(verify(&run(vec![result("x", "c")])), []);
    assert_eq!(verify(&run(text("m"))), [Rule::IdReused]);
}

#[test]
fn the_good_stream_is_good() {
    let text = include_str!("../../../tests/fixtures/agui/good.jsonl");
    for dialect in DIALECTS {
        assert_eq!(verify_json_lines(text, dialect, Level::Strict), []);
    }
}

/// Both clients reject exactly these two of the recorded streams: each sends a status after `RUN_ERROR`.
#[test]
fn recorded_streams_are_legal_but_two() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/agui");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        seen += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let illegal = ["agui_wf_error_agent", "agui_wf_mag_error"].contains(&&*name);
        for dialect in DIALECTS {
            let found = verify_sse(&std::fs::read(&path).unwrap(), dialect, Level::Client);
            assert_eq!(!found.is_empty(), illegal, "{name}: {found:?}");
            assert!(found.iter().all(|violation| violation.rule == Rule::AfterError), "{name}: {found:?}");
        }
    }
    assert!(seen >= 29);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "(data: ?[{}\\[\\]\"a-z:,0-9]{0,30}\r?\n){0,9}") {
        for input in [bytes.as_slice(), text.as_bytes()] {
            let _found = verify_sse(input, Dialect::V1_0, Level::Strict);
        }
    }
}
