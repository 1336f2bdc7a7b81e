//! Recorded streams of the common frameworks (`tests/fixtures/a2a/<server>`) in every output: canonical events, gRPC, AG-UI in
//! both dialects and A2A fold to the content that `tests/interop/frameworks/scenarios.json` states, scenario by scenario.

use aqueduct_adapter_a2a::wire;
use aqueduct_adapter_agui::config::{Dialect, Errors, Settings, Subagents};
use aqueduct_adapter_agui::verify::{Level, Rule, verify};
use aqueduct_core::{BlockEvent, RunInfo, SpanKind, ToolCallId};
use aqueduct_tests::fixture::{Fixture, fixtures};
use aqueduct_tests::frameworks::{Scenario, Server, Turn};
use aqueduct_tests::{a2a, agui};

use crate::through_grpc::through_grpc;

/// A recorded scenario: the runs of its turns.
struct Recording {
    server: Server,
    scenario: Scenario,
    runs: Vec<Vec<BlockEvent>>,
}

/// The recordings of all servers. A scenario that the server plays must have been recorded, but for a stopped run, which
/// looks as its beginning does.
fn recordings() -> Vec<Recording> {
    let mut recordings = Vec::new();
    for server in Server::all() {
        let recorded = fixtures(&format!("a2a/{}", server.name), "sse");
        for scenario in Scenario::all_of(&server).into_iter().filter(|scenario| scenario.stop().is_none()) {
            let mut runs: Vec<Vec<BlockEvent>> = Vec::new();
            for number in 1..=scenario.said().count() {
                let run = decode(&server, &recorded, &name_of(&scenario, number), &calls_of(&runs));
                runs.push(run);
            }
            recordings.push(Recording { server: server.clone(), scenario, runs });
        }
    }
    recordings
}

/// The calls of earlier turns, which a later one may answer.
fn calls_of(runs: &[Vec<BlockEvent>]) -> Vec<ToolCallId> {
    let calls = runs.iter().flatten().filter_map(|event| match event {
        BlockEvent::BlockStarted(head) if head.kind == SpanKind::ToolUse => Some(head.tool_call_id()),
        _ => None,
    });
    calls.collect()
}

fn name_of(scenario: &Scenario, turn: usize) -> String {
    if turn == 1 { scenario.name.clone() } else { format!("{}-{turn}", scenario.name) }
}

fn decode(server: &Server, recorded: &[Fixture], name: &str, known: &[ToolCallId]) -> Vec<BlockEvent> {
    let fixture = recorded.iter().find(|fixture| fixture.name == name);
    let fixture = fixture.unwrap_or_else(|| panic!("{} has no recording of {name}", server.name));
    let is_old = server.member("a2a") == "0.3";
    let dialect = if is_old { wire::Dialect::V03JsonRpc } else { wire::Dialect::V1 };
    a2a::decode_sse(&fixture.bytes, dialect, known)
}

/// Compares every recording, each run as `output` shows it, and fails with all that is wrong.
fn check(by_text: bool, output: impl Fn(&[BlockEvent], &[ToolCallId]) -> Vec<BlockEvent>) {
    let mut wrong = Vec::new();
    for Recording { server, scenario, runs } in recordings() {
        let known = |number: usize| calls_of(&runs[..number]);
        let shown = runs.iter().enumerate().map(|(number, run)| output(run, &known(number)));
        let turns: Vec<Turn> = shown.map(|run| Turn::of_blocks(&run)).collect();
        let found = scenario.differences(&turns, by_text);
        wrong.extend(found.iter().map(|found| format!("{} {}: {found}", server.name, scenario.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn canonical_events_keep_the_content() {
    check(false, |run, _| run.to_vec());
}

#[test]
fn agui_keeps_the_content() {
    check(false, |run, known| through_agui(run, known, Dialect::V1_0));
}

#[test]
fn agui_0_0_59_keeps_the_content() {
    check(true, |run, known| through_agui(run, known, Dialect::V0_0_59));
}

#[test]
fn grpc_keeps_the_content() {
    check(false, |run, _| through_grpc(run));
}

#[test]
fn a2a_keeps_the_content() {
    check(false, |run, known| a2a::decode_lines(&a2a::json_lines(&a2a::convert(run, run_of(run))), known));
}

#[test]
fn agui_is_legal_for_the_strictest_reader() {
    for Recording { server, scenario, runs } in recordings() {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            for (number, run) in runs.iter().enumerate() {
                let mut found = verify(&agui::convert(run, &Settings::new(dialect)), dialect, Level::Strict);
                // A later run may answer the calls of an earlier one.
                found.retain(|found| number == 0 || found.rule != Rule::ResultWithoutCall);
                assert!(found.is_empty(), "{} {} {dialect:?}: {found:#?}", server.name, scenario.name);
            }
        }
    }
}

fn through_agui(run: &[BlockEvent], known: &[ToolCallId], dialect: Dialect) -> Vec<BlockEvent> {
    // Text that is written only for readers is not content: names of sub-agents, and failures as text.
    let settings = Settings::new(dialect).with_subagents(Subagents::Attributed).with_errors(Errors::Error);
    let events = agui::convert(run, &settings);
    agui::decode_sse(agui::sse_body(&events).as_bytes(), None, known)
}

fn run_of(run: &[BlockEvent]) -> &RunInfo {
    match run.first() {
        Some(BlockEvent::RunStarted(info)) => info,
        other => panic!("a run begins with its start, not {other:?}"),
    }
}
