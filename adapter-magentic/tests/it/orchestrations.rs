//! The terminal contract, orchestration by orchestration: the answer, the work on the way, the outcome.
//!
//! One table for the streamed events, the events of a run without streaming, and the merged response.

use aqueduct_core::Channel;
use serde_json::Value;

use crate::support::{Run, customs, fixture, fixture_names, merged, outcome, runs, texts};

struct Row {
    case: String,
    /// Which run of the conversation.
    run: usize,
    answer: History,
    intermediate: History,
    outcome: String,
}

/// Agents and what they said, in order.
type History = Vec<(String, String)>;

/// The table is a file, because the tests of the outputs read it too.
fn table() -> Vec<Row> {
    let said = |value: &Value| -> History { serde_json::from_value(value.clone()).unwrap() };
    fixture("expected.jsonl")
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|row| Row {
            case: row["case"].as_str().unwrap().to_owned(),
            run: usize::try_from(row["run"].as_u64().unwrap()).unwrap(),
            answer: said(&row["answer"]),
            intermediate: said(&row["intermediate"]),
            outcome: row["outcome"].as_str().unwrap().to_owned(),
        })
        .collect()
}

/// Runs without streaming that tell less than the table: the framework gives no events of a run that fails, and of
/// an agent that waits it gives only the request.
const TELL_LESS: [(&str, usize); 3] = [("error_agent", 0), ("mag_error", 0), ("tool_approval", 0)];

#[track_caller]
fn check(file: &str, run: &Run, row: &Row) {
    let said = |channel| texts(&run.events, channel);
    assert_eq!(outcome(run), row.outcome, "{file}");
    assert_eq!(said(Channel::Answer), row.answer, "{file}: the answer");
    assert_eq!(said(Channel::Intermediate), row.intermediate, "{file}: the work");
}

#[test]
fn streamed_events_say_what_the_table_says() {
    for row in &table() {
        let file = format!("{}.events.jsonl", row.case);
        let runs = runs(&fixture(&file));
        assert_eq!(runs.len(), table().iter().filter(|other| other.case == row.case).count(), "{file}");
        check(&file, &runs[row.run], row);
    }
}

#[test]
fn every_recorded_case_is_in_the_table() {
    for name in fixture_names() {
        let case = name.split('.').next().unwrap();
        assert!(table().iter().any(|row| row.case == case), "{name}");
    }
}

#[test]
fn a_run_without_streaming_ends_in_the_same_answer() {
    let names = fixture_names();
    for row in &table() {
        let file = format!("{}.events-run.jsonl", row.case);
        if !names.contains(&file) {
            continue;
        }
        let run = &runs(&fixture(&file))[row.run];
        if TELL_LESS.contains(&(row.case.as_str(), row.run)) {
            assert_eq!(outcome(run).split(':').next(), row.outcome.split(':').next(), "{file}");
        } else {
            check(&file, run, row);
        }
    }
}

#[test]
fn the_merged_response_says_what_the_table_says() {
    for row in &table() {
        let file = format!("{}.events.jsonl", row.case);
        let run = &runs(&fixture(&file))[row.run];
        let merged = merged(run);
        for (channel, expected) in
            [(Channel::Answer, &row.answer), (Channel::Intermediate, &row.intermediate)]
        {
            let messages = merged.response.messages.iter().filter(|message| message.channel == channel);
            let mut said: Vec<(String, String)> = messages
                .map(|message| (message.source.name().to_owned(), message.text()))
                .filter(|(_, text)| !text.is_empty())
                .collect();
            let mut expected = expected.clone();
            // Agents are grouped in a response; in a stream they take turns.
            said.sort();
            expected.sort();
            assert_eq!(said, expected, "{file} on {channel:?}");
        }
        let ended = merged
            .outcome
            .map_or_else(|failure| format!("Failed: {}", failure.message), |o| format!("{o:?}"));
        assert_eq!(ended, row.outcome, "{file}");
        assert_eq!(merged.interrupts.len(), usize::from(row.outcome == "Interrupted"), "{file}");
    }
}

#[test]
fn a_success_without_output_says_so_and_no_other_does() {
    for row in &table() {
        let run = &runs(&fixture(&format!("{}.events.jsonl", row.case)))[row.run];
        let notices = customs(run, "aqueduct.notice");
        let said = notices.iter().any(|notice| notice["text"] == "the workflow finished without an output");
        assert_eq!(said, row.case == "nested_as_agent", "{}", row.case);
    }
}

#[test]
fn plans_ledgers_turns_and_hand_offs_are_told() {
    let run = &runs(&fixture("mag_default.events.jsonl"))[0];
    let plan = customs(run, "aqueduct.plan");
    assert_eq!(plan.len(), 1);
    assert_eq!(plan[0]["steps"][0]["agent"], "researcher");
    assert_eq!(plan[0]["steps"][1]["title"], "writer writes");
    assert_eq!(customs(run, "magentic.ledger").len(), 3);
    assert_eq!(customs(run, "magentic.turn_requested").len(), 2);
    assert_eq!(customs(run, "magentic.turn_received").len(), 2);
    let handoff = &runs(&fixture("handoff_default.events.jsonl"))[0];
    assert_eq!(
        customs(handoff, "magentic.handoff"),
        [&serde_json::json!({"source": "triage", "target": "refunds"})]
    );
    let old = &runs(&fixture("old_mag_stall.events.jsonl"))[0];
    assert_eq!(customs(old, "aqueduct.plan").len(), 2, "a new plan is told once");
    assert_eq!(customs(old, "magentic.instruction").len(), 2);
}
