//! The canonical events of everything that is recorded.

use aqueduct_core::BlockEvent;
use aqueduct_core::testing::{run_to_end, scenarios};
use aqueduct_tests::fixture::fixtures;
use aqueduct_tests::{a2a, agui, magentic};

pub(super) type Trace = (String, Vec<BlockEvent>);

/// Small streams, one for each rule of the stream machine.
pub(super) fn of_scenarios() -> Vec<Trace> {
    scenarios().into_iter().map(|(name, events)| (name.to_owned(), run_to_end(events))).collect()
}

/// All recorded streams, of three protocols, and the scenarios.
pub(super) fn all() -> Vec<Trace> {
    let mut traces = of_scenarios();
    for fixture in fixtures("a2a", "sse") {
        traces.push((
            fixture.name.clone(),
            a2a::decode_sse(&fixture.bytes, a2a::dialect_of(&fixture.name), &[]),
        ));
    }
    for fixture in fixtures("agui", "sse") {
        traces.push((fixture.name.clone(), agui::decode_sse(&fixture.bytes, None, &[])));
    }
    for ending in ["events.jsonl", "events-run.jsonl", "agent.jsonl"] {
        for fixture in fixtures("magentic", ending) {
            let runs = magentic::runs(std::str::from_utf8(&fixture.bytes).unwrap());
            let named = |(n, events)| (format!("{}.{ending} run {n}", fixture.name), events);
            traces.extend(runs.into_iter().enumerate().map(named));
        }
    }
    assert!(traces.len() > 200, "only {} traces", traces.len());
    traces
}
