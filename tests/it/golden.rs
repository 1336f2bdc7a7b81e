//! Every fixture x every output, as golden files, each of them legal for the strictest reader.

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::testing::InvariantChecker;
use aqueduct_core::{BlockEvent, RunInfo, SpanKind, ToolCallId};
use aqueduct_tests::agui::{convert, json_lines};
use aqueduct_tests::fixture::fixtures;
use aqueduct_tests::{a2a, golden, magentic};

/// Renders the runs of a fixture as AG-UI in both dialects. They are one thread: ids are unique over all of them, and a
/// later run may answer the calls of an earlier one.
fn check_agui(folder: &str, name: &str, runs: &[Vec<BlockEvent>]) {
    check_invariants(name, runs);
    for (dialect, ending) in [(Dialect::V1_0, "agui"), (Dialect::V0_0_59, "agui-0.0.59")] {
        let settings = Settings::new(dialect);
        let events: Vec<Event> = runs.iter().flat_map(|blocks| convert(blocks, &settings)).collect();
        let found = verify(&events, dialect, Level::Strict);
        assert!(found.is_empty(), "{name} {dialect:?}: {found:#?}");
        golden::check(&format!("{folder}/{name}.{ending}.jsonl"), &json_lines(&events));
    }
}

fn check_invariants(name: &str, runs: &[Vec<BlockEvent>]) {
    let mut calls: Vec<ToolCallId> = Vec::new();
    for blocks in runs {
        let mut checker = InvariantChecker::new().with_known_calls(calls.clone());
        for event in blocks {
            checker.check(event).unwrap_or_else(|violation| panic!("{name}: {violation}"));
            if let BlockEvent::BlockStarted(head) = event
                && head.kind == SpanKind::ToolUse
            {
                calls.push(head.tool_call_id());
            }
        }
        checker.finish().unwrap_or_else(|violation| panic!("{name}: {violation}"));
    }
}

#[test]
fn workflows_as_agui() {
    for ending in ["events.jsonl", "events-run.jsonl", "agent.jsonl"] {
        for fixture in fixtures("magentic", ending) {
            let runs = magentic::runs(std::str::from_utf8(&fixture.bytes).unwrap());
            let name = format!("{}.{}", fixture.name, ending.trim_end_matches(".jsonl"));
            check_agui("magentic", &name, &runs);
        }
    }
}

#[test]
fn workflows_as_a2a() {
    for ending in ["events.jsonl", "events-run.jsonl", "agent.jsonl"] {
        for fixture in fixtures("magentic", ending).into_iter().filter(|fixture| fixture.name != "expected") {
            let runs = magentic::runs(std::str::from_utf8(&fixture.bytes).unwrap());
            let lines: String =
                runs.iter().map(|blocks| a2a::json_lines(&a2a::convert(blocks, run_of(blocks)))).collect();
            let name = format!("{}.{}", fixture.name, ending.trim_end_matches(".jsonl"));
            golden::check(&format!("magentic/{name}.a2a.jsonl"), &lines);
        }
    }
}

#[test]
fn a2a_streams_as_agui() {
    for fixture in fixtures("a2a", "sse") {
        let blocks = a2a::decode_sse(&fixture.bytes, a2a::dialect_of(&fixture.name), &[]);
        check_agui("a2a", &fixture.name, &[blocks]);
    }
}

fn run_of(blocks: &[BlockEvent]) -> &RunInfo {
    match blocks.first() {
        Some(BlockEvent::RunStarted(run)) => run,
        other => panic!("a run begins with its start, not {other:?}"),
    }
}
