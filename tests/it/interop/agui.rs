//! The real AG-UI clients decode what the encoder writes, and hold the content of the source; and they agree with the
//! verifier.

use aqueduct_adapter_agui::config::{Dialect, Settings, Subagents};
use aqueduct_adapter_agui::input::read_input;
use aqueduct_adapter_agui::verify::{Level, Severity, verify_sse};
use aqueduct_core::testing::{run_to_end, scenarios};
use aqueduct_core::{BlockEvent, SpanKind, ToolCallId};
use aqueduct_tests::agui::{all_settings, convert, decode_sse, hex, plain, proto_body, sse_body, sse_frames};
use aqueduct_tests::fixture::{Fixture, fixtures};
use aqueduct_tests::oracle::{Oracle, Verdict};
use aqueduct_tests::view::View;
use aqueduct_tests::{a2a, magentic};
use serde_json::{Value, json};

/// A case, and what its reader must end up with.
struct Case {
    name: String,
    body: Value,
    blocks: Vec<BlockEvent>,
    settings: Settings,
}

fn sse_cases(dialect: Dialect) -> Vec<Case> {
    cases(dialect, |events| json!({ "sse": sse_body(events) }))
}

fn cases(dialect: Dialect, body: impl Fn(&[aqueduct_adapter_agui::wire::Event]) -> Value) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, events) in scenarios() {
        let blocks = run_to_end(events);
        for settings in all_settings().into_iter().filter(|settings| settings.dialect == dialect) {
            let name = format!(
                "{name} {:?}/{:?}/{:?}",
                settings.subagents, settings.intermediate, settings.interrupts
            );
            let body = body(&convert(&blocks, &settings));
            cases.push(Case { name, body, blocks: blocks.clone(), settings });
        }
    }
    cases
}

fn judge(oracle: Oracle, file: &str, cases: &[Case]) -> Vec<Verdict> {
    let lines: Vec<Value> = cases
        .iter()
        .map(|case| {
            let mut line = case.body.clone();
            line["name"] = json!(case.name);
            line["input"] = json!({ "threadId": "thread", "runId": "run", "messages": [], "state": {} });
            line
        })
        .collect();
    oracle.judge(file, &lines)
}

/// The client accepts every stream, warns of nothing, and holds the content of the source.
fn accepts_all(oracle: Oracle, file: &str, cases: &[Case]) {
    for (case, verdict) in cases.iter().zip(judge(oracle, file, cases)) {
        let Case { name, blocks, settings, .. } = case;
        assert!(verdict.ok(), "{name}: {}\n{}", verdict.error(), case.body);
        assert!(verdict.warnings().is_empty(), "{name}: {:?}\n{}", verdict.warnings(), case.body);
        let (wanted, got) = (View::of_blocks(blocks, *settings), View::of_messages(verdict.messages()));
        assert_eq!(got, wanted, "{name}\n{}", case.body);
        let failed = matches!(blocks.last(), Some(BlockEvent::RunFailed(_)));
        if failed {
            assert!(verdict.0["runError"]["code"].is_string(), "{name}: a failure must be told with a code");
        }
    }
}

#[test]
fn client_1_0_reads_sse_of_every_scenario_and_setting() {
    let cases = sse_cases(Dialect::V1_0);
    assert!(cases.len() > 500, "only {} cases", cases.len());
    accepts_all(Oracle::Client1_0, "1.0-sse", &cases);
}

#[test]
fn client_1_0_reads_protobuf_of_every_scenario_and_setting() {
    let cases = cases(Dialect::V1_0, |events| json!({ "proto_hex": hex(&proto_body(events)) }));
    accepts_all(Oracle::Client1_0, "1.0-proto", &cases);
}

#[test]
fn client_1_0_reads_the_conservative_dialect_too() {
    accepts_all(Oracle::Client1_0, "1.0-conservative", &sse_cases(Dialect::V0_0_59));
}

#[test]
fn client_0_0_59_reads_sse_of_every_scenario_and_setting() {
    accepts_all(Oracle::Client0_0_59, "0.0.59-sse", &sse_cases(Dialect::V0_0_59));
}

#[test]
fn python_reads_every_event_of_both_dialects() {
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        let cases = sse_cases(dialect);
        for (case, verdict) in cases.iter().zip(judge(Oracle::Python, "python", &cases)) {
            assert!(verdict.ok(), "{}: {}\n{}", case.name, verdict.error(), case.body);
        }
    }
}

/// Streams of other protocols, shown to both clients in their dialect.
fn pass_both_clients(file: &str, recorded: &[(String, Vec<BlockEvent>)]) {
    for (oracle, dialect) in [(Oracle::Client1_0, Dialect::V1_0), (Oracle::Client0_0_59, Dialect::V0_0_59)] {
        let inline = plain(dialect).with_subagents(Subagents::Inline);
        for (view, settings) in [("default", Settings::new(dialect)), ("inline", inline)] {
            let cases: Vec<Case> = recorded
                .iter()
                .map(|(name, blocks)| {
                    let body = json!({ "sse": sse_body(&convert(blocks, &settings)) });
                    Case { name: name.clone(), body, blocks: blocks.clone(), settings }
                })
                .collect();
            accepts_all(oracle, &format!("{file}-{dialect:?}-{view}"), &cases);
        }
    }
}

#[test]
fn workflows_of_the_agent_framework_pass_both_clients_with_all_their_content() {
    let mut recorded = Vec::new();
    for ending in ["events.jsonl", "events-run.jsonl", "agent.jsonl"] {
        for fixture in fixtures("magentic", ending) {
            let runs = magentic::runs(std::str::from_utf8(&fixture.bytes).unwrap());
            let named = |(n, blocks)| (format!("{} {ending} run {n}", fixture.name), blocks);
            recorded.extend(runs.into_iter().enumerate().map(named));
        }
    }
    assert!(recorded.len() > 80);
    pass_both_clients("magentic", &recorded);
}

#[test]
fn recorded_a2a_streams_pass_both_clients_with_all_their_content() {
    let recorded: Vec<_> = fixtures("a2a", "sse")
        .into_iter()
        .map(|fixture| {
            (fixture.name.clone(), a2a::decode_sse(&fixture.bytes, a2a::dialect_of(&fixture.name), &[]))
        })
        .collect();
    assert!(recorded.len() > 40);
    pass_both_clients("a2a", &recorded);
}

#[test]
fn a_view_that_differs_is_noticed() {
    let blocks = run_to_end(scenarios().into_iter().find(|(name, _)| *name == "tool").unwrap().1);
    let settings = Settings::new(Dialect::V1_0);
    let mut events = convert(&blocks, &settings);
    let at = events.iter().position(|event| event.kind() == "TEXT_MESSAGE_CONTENT").unwrap();
    events.remove(at);
    let line = json!({ "name": "lost delta", "sse": sse_body(&events) });
    let verdict = Oracle::Client1_0.judge("lost-delta", &[line]).remove(0);
    assert!(verdict.ok(), "the client itself does not notice lost content");
    assert_ne!(View::of_messages(verdict.messages()), View::of_blocks(&blocks, settings));
}

/// Streams that are broken in every way a single mistake can break them.
fn mistakes() -> Vec<(String, String)> {
    let mut mistakes = Vec::new();
    for (name, events) in scenarios() {
        let blocks = run_to_end(events);
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let good: Vec<Value> = convert(&blocks, &plain(dialect))
                .iter()
                .map(|event| serde_json::to_value(event).unwrap())
                .collect();
            let mut mistake = |what: String, events: &[Value]| {
                mistakes.push((format!("{name} {dialect:?} {what}"), sse_frames(events)));
            };
            for at in 0..good.len() {
                let mut dropped = good.clone();
                dropped.remove(at);
                mistake(format!("without event {at}"), &dropped);
                let mut doubled = good.clone();
                doubled.insert(at, good[at].clone());
                mistake(format!("event {at} twice"), &doubled);
                if at + 1 < good.len() {
                    let mut swapped = good.clone();
                    swapped.swap(at, at + 1);
                    mistake(format!("events {at} and {} swapped", at + 1), &swapped);
                }
                // Wrong members are tried on the first event of each type: the others say nothing new.
                let first = good.iter().position(|event| event["type"] == good[at]["type"]) == Some(at);
                for key in good[at].as_object().unwrap().keys().filter(|_| first) {
                    for value in [json!(null), json!("other"), json!(7)] {
                        let mut wrong = good.clone();
                        wrong[at][key] = value.clone();
                        mistake(format!("event {at} with {key}={value}"), &wrong);
                    }
                    let mut without = good.clone();
                    without[at].as_object_mut().unwrap().remove(key);
                    mistake(format!("event {at} without {key}"), &without);
                }
            }
        }
    }
    mistakes
}

fn agrees(oracle: Oracle, dialect: Dialect, file: &str) {
    let mistakes = mistakes();
    assert!(mistakes.len() > 4_000, "only {} mistakes", mistakes.len());
    let lines: Vec<Value> = mistakes.iter().map(|(name, sse)| json!({ "name": name, "sse": sse })).collect();
    let verdicts = oracle.judge(file, &lines);
    let mut differences = Vec::new();
    let mut rejected = 0;
    for ((name, sse), verdict) in mistakes.iter().zip(verdicts) {
        let found = verify_sse(sse.as_bytes(), dialect, Level::Strict);
        let ours = !found.iter().any(|violation| violation.severity == Severity::Rejected);
        rejected += usize::from(!verdict.ok());
        if ours != verdict.ok() {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            differences.push(format!("{name}: client {:?}, verifier {found:?}", verdict.error()));
        }
    }
    assert!(rejected > 1_000, "the client rejected only {rejected}");
    let sample = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {} differ:\n{sample}", differences.len(), mistakes.len());
}

#[test]
fn the_verifier_agrees_with_client_1_0_on_every_single_mistake() {
    agrees(Oracle::Client1_0, Dialect::V1_0, "mistakes-1.0");
}

#[test]
fn the_verifier_agrees_with_client_0_0_59_on_every_single_mistake() {
    agrees(Oracle::Client0_0_59, Dialect::V0_0_59, "mistakes-0.0.59");
}

#[test]
fn the_verifier_agrees_with_both_clients_on_the_matrix() {
    let rows: Vec<Value> = ["interop/agui/matrix.jsonl", "fixtures/agui/verifier_cases.jsonl"]
        .into_iter()
        .map(|file| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
        .flat_map(|file| {
            std::fs::read_to_string(file).unwrap().lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        })
        .map(|line| serde_json::from_str(&line).unwrap())
        .filter(|row: &Value| row.get("proto_hex").is_none())
        .collect();
    assert!(rows.len() > 150);
    for (oracle, dialect) in [(Oracle::Client1_0, Dialect::V1_0), (Oracle::Client0_0_59, Dialect::V0_0_59)] {
        for (row, verdict) in rows.iter().zip(oracle.judge("matrix", &rows)) {
            let raw = || row["sse"].as_str().unwrap().to_owned();
            let sse = row["events"].as_array().map_or_else(raw, |events| sse_frames(events));
            let found = verify_sse(sse.as_bytes(), dialect, Level::Strict);
            let ours = !found.iter().any(|violation| violation.severity == Severity::Rejected);
            assert_eq!(
                ours,
                verdict.ok(),
                "{oracle:?} {}: client {:?}, verifier {found:?}",
                row["name"],
                verdict.error()
            );
        }
    }
}

/// What a reader sees without ids, which are ours: each kind in its order. Between kinds the order may differ, because
/// a source that starts a message long before its first word puts it before what came between.
fn shown(messages: &[Value]) -> Vec<String> {
    let mut shown = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        // Messages of the user are input: a snapshot may repeat them, and the frontend has them anyway.
        if (!content.is_empty() || role == "tool") && role != "user" {
            shown.push(format!("{role}: {content}"));
        }
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            shown.push(format!("call: {} {}", function["name"], function["arguments"]));
        }
    }
    shown.sort_by_key(|line| line.split_once(':').map(|(kind, _)| kind.to_owned()));
    shown
}

/// The calls of the run that a recorded run resumes.
fn calls_before(recorded: &[Fixture], name: &str) -> Vec<ToolCallId> {
    let first = name.strip_suffix(".resume").and_then(|first| recorded.iter().find(|f| f.name == first));
    let blocks = first.map(|fixture| decode_sse(&fixture.bytes, None, &[])).unwrap_or_default();
    let call = |event: &BlockEvent| match event {
        BlockEvent::BlockStarted(head) if head.kind == SpanKind::ToolUse => Some(head.tool_call_id()),
        _ => None,
    };
    blocks.iter().filter_map(call).collect()
}

#[test]
fn recorded_streams_carried_through_show_the_same_and_illegal_ones_come_out_repaired() {
    let recorded = fixtures("agui", "sse");
    assert!(recorded.len() > 20);
    let mut lines = Vec::new();
    let mut legal = Vec::new();
    for fixture in &recorded {
        let body = String::from_utf8(fixture.bytes.clone()).unwrap();
        let request = fixture.sibling("req.json");
        let input = request.as_ref().map(|text| read_input(text.as_bytes()).unwrap());
        let given: Value = request.map_or(json!({}), |text| serde_json::from_str(&text).unwrap());
        let found = verify_sse(&fixture.bytes, Dialect::V1_0, Level::Strict);
        legal.push(!found.iter().any(|violation| violation.severity == Severity::Rejected));
        lines.push(json!({ "name": fixture.name, "input": given, "sse": body }));
        let blocks = decode_sse(&fixture.bytes, input.as_ref(), &calls_before(&recorded, &fixture.name));
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let settings =
                plain(dialect).with_interrupts(aqueduct_adapter_agui::config::Interrupts::Interrupt);
            let settings =
                if dialect == Dialect::V1_0 { settings } else { settings.with_subagents(Subagents::Inline) };
            let events = convert(&blocks, &settings);
            let strict = aqueduct_adapter_agui::verify::verify(&events, dialect, Level::Strict);
            let broken: Vec<_> = strict.iter().filter(|v| v.severity == Severity::Rejected).collect();
            assert!(broken.is_empty(), "{} {dialect:?}: {broken:?}", fixture.name);
            lines.push(json!({ "name": fixture.name, "input": given, "sse": sse_body(&events) }));
        }
    }
    for oracle in [Oracle::Client1_0, Oracle::Client0_0_59] {
        let verdicts = oracle.judge("recorded", &lines);
        for ((fixture, legal), verdicts) in recorded.iter().zip(&legal).zip(verdicts.chunks(3)) {
            let [original, modern, conservative] = verdicts else { panic!("three verdicts each") };
            assert_eq!(original.ok(), *legal, "{oracle:?} {}: {}", fixture.name, original.error());
            let readable =
                if oracle == Oracle::Client1_0 { [modern, conservative] } else { [conservative; 2] };
            for ours in readable {
                assert!(ours.ok(), "{oracle:?} {}: {}", fixture.name, ours.error());
                if original.ok() {
                    assert_eq!(
                        shown(ours.messages()),
                        shown(original.messages()),
                        "{oracle:?} {}",
                        fixture.name
                    );
                }
            }
        }
    }
    assert!(legal.iter().any(|legal| !legal), "at least one recorded stream is illegal");
}
