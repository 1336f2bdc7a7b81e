//! The terminal contract, orchestration by orchestration: the answer, the work on the way, the outcome.
//!
//! One table for the streamed events, the events of a run without streaming, and the merged response.

use aqueduct_core::Channel;

use crate::support::{Run, customs, fixture, fixture_names, merged, outcome, runs, texts};

const SAFE: &str = "Rust is memory-safe.";
const DRAFT: &str = "Draft: Rust is safe and fast.";
const APPROVED: &str = "Approved: ship it.";
const ROUNDS: &str = "The group chat has reached the maximum number of rounds.";

type Said = &'static [(&'static str, &'static str)];

struct Row {
    case: &'static str,
    /// Which run of the conversation.
    run: usize,
    answer: Said,
    intermediate: Said,
    outcome: &'static str,
}

const fn row(case: &'static str, run: usize, answer: Said, intermediate: Said, outcome: &'static str) -> Row {
    Row { case, run, answer, intermediate, outcome }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Sequential, agent last: the last agent, streamed; the others are hidden.
    row("seq_default", 0, &[("reviewer", APPROVED)], &[], "Success"),
    // Sequential, the others as intermediate.
    row("seq_intermediate", 0, &[("reviewer", APPROVED)], &[("researcher", SAFE), ("writer", DRAFT)], "Success"),
    // Sequential, everybody is an output.
    row("seq_output_all", 0, &[("researcher", SAFE), ("writer", DRAFT), ("reviewer", APPROVED)], &[], "Success"),
    // Sequential, custom terminator: what it yields.
    row("seq_terminator", 0, &[("summarizer", "Summary of 3 messages: Draft: Rust is safe and fast.")], &[], "Success"),
    row("seq_terminator_int", 0, &[("summarizer", "Summary of 3 messages: Draft: Rust is safe and fast.")], &[("researcher", SAFE), ("writer", DRAFT)], "Success"),
    // Sequential, the last agent under review: its answer only once it is approved.
    row("seq_request_info", 0, &[], &[("writer", "Draft 1.")], "Interrupted"),
    row("seq_request_info", 1, &[], &[("writer", "Draft 2, shorter.")], "Interrupted"),
    row("seq_request_info", 2, &[("writer", "Draft 2, shorter.")], &[], "Success"),
    // Sequential, a client that sets no ids.
    row("noids_seq", 0, &[("reviewer", APPROVED)], &[("researcher", SAFE)], "Success"),
    // Sequential, the Responses client: no message ids, everything twice with merge_mode "replace".
    row("openai_responses", 0, &[("writer", DRAFT)], &[("gpt", "Let me look."), ("gpt", "It rains in Paris.")], "Success"),
    // Concurrent: one message per participant.
    row("conc_default", 0, &[("researcher", SAFE), ("writer", DRAFT), ("reviewer", APPROVED)], &[], "Success"),
    // Concurrent, streamed as intermediate: the aggregate is the answer.
    row("conc_intermediate", 0, &[("researcher", SAFE), ("writer", DRAFT), ("reviewer", APPROVED)], &[("researcher", SAFE), ("writer", DRAFT), ("reviewer", APPROVED)], "Success"),
    // Concurrent, custom aggregator: what it yields.
    row("conc_custom_str", 0, &[("custom_agg", "Rust is memory-safe. | Draft: Rust is safe and fast.")], &[], "Success"),
    row("conc_custom_resp", 0, &[("merger", "Merged: Rust is memory-safe. | Draft: Rust is safe and fast.")], &[("researcher", SAFE), ("writer", DRAFT)], "Success"),
    // GroupChat: the completion message of the orchestrator.
    row("gc_default", 0, &[("group_chat_orchestrator", ROUNDS)], &[], "Success"),
    row("gc_intermediate", 0, &[("group_chat_orchestrator", ROUNDS)], &[("researcher", SAFE), ("writer", DRAFT)], "Success"),
    row("gc_tool_int", 0, &[("group_chat_orchestrator", ROUNDS)], &[("weather", "Let me look. "), ("weather", "It rains in Paris."), ("writer", DRAFT)], "Success"),
    // Magentic: the manager's final answer.
    row("mag_default", 0, &[("magentic_orchestrator", "FINAL ANSWER: Rust is safe and fast.")], &[], "Success"),
    row("mag_intermediate", 0, &[("magentic_orchestrator", "FINAL ANSWER: Rust is safe and fast.")], &[("researcher", SAFE), ("writer", DRAFT)], "Success"),
    row("mag_tool_int", 0, &[("magentic_orchestrator", "FINAL: done.")], &[("weather", "Let me look. "), ("weather", "It rains in Paris.")], "Success"),
    row("mag_toolonly_int", 0, &[("magentic_orchestrator", "FINAL: done.")], &[], "Success"),
    // Magentic: the limit of rounds is an ordinary output.
    row("mag_max_rounds", 0, &[("magentic_orchestrator", "Workflow terminated due to reaching maximum round count.")], &[("researcher", SAFE)], "Success"),
    // Handoff: each agent as it speaks.
    row("handoff_default", 0, &[("triage", "Let me connect you. "), ("refunds", "Refund issued.")], &[], "Success"),
    row("handoff_intermediate", 0, &[("refunds", "Refund issued.")], &[("triage", "Let me connect you. ")], "Success"),
    // Nested; no output at all.
    row("nested_as_agent", 0, &[], &[("researcher", SAFE), ("writer", DRAFT), ("reviewer", APPROVED)], "Success"),
    // Tools.
    row("tool_seq", 0, &[("reviewer", APPROVED)], &[("weather", "Let me look. "), ("weather", "It rains in Paris.")], "Success"),
    row("tool_parallel", 0, &[("twotools", "Rome and Bern are wet.")], &[], "Success"),
    row("tool_error", 0, &[("badtool", "The tool failed, sorry.")], &[], "Success"),
    row("tool_only_turn", 0, &[], &[], "Success"),
    // A call that waits for approval.
    row("tool_approval", 0, &[("janitor", "I need to delete it.")], &[], "Interrupted"),
    row("tool_approval", 1, &[("janitor", "Done, file deleted.")], &[], "Success"),
    // Errors.
    row("error_agent", 0, &[], &[("researcher", SAFE), ("crasher", "Half a sen")], "Failed: executor crasher failed: RuntimeError: model overloaded (529)"),
    row("mag_error", 0, &[], &[("crasher", "Half a sen")], "Failed: executor crasher failed: RuntimeError: model overloaded (529)"),
    // The older packages.
    row("old_seq", 0, &[("writer", "Draft.")], &[("researcher", "Rust is safe."), ("writer", "Draft.")], "Success"),
    row("old_mag_text", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("researcher", SAFE), ("writer", "Draft: safe and fast.")], "Success"),
    row("old_mag_tool", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("weather", "Let me look. It rains in Paris.")], "Success"),
    row("old_mag_toolonly", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("toolonly", "Action completed (Tool Call)")], "Success"),
    row("old_mag_reason", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("thinker", "Hmm, let me think.42.")], "Success"),
    row("old_mag_empty", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("mute", "Agent mute: No output produced")], "Success"),
    row("old_mag_error_first", 0, &[("magentic_orchestrator", "FINAL ANSWER: all done.")], &[("writer", "ok")], "Success"),
    row("old_mag_rounds", 0, &[("researcher", "one.")], &[("researcher", "one.")], "Success"),
    row("old_mag_stall", 0, &[("magentic_orchestrator", "FINAL after replan.")], &[("researcher", "Tried A."), ("researcher", "Tried again.")], "Success"),
];

/// Runs without streaming that tell less than the table: the framework gives no events of a run that fails, and of
/// an agent that waits it gives only the request.
const TELL_LESS: [(&str, usize); 3] = [("error_agent", 0), ("mag_error", 0), ("tool_approval", 0)];

#[track_caller]
fn check(file: &str, run: &Run, row: &Row) {
    let said = |channel| texts(&run.events, channel);
    assert_eq!(outcome(run), row.outcome, "{file}");
    assert_eq!(said(Channel::Answer), owned(row.answer), "{file}: the answer");
    assert_eq!(said(Channel::Intermediate), owned(row.intermediate), "{file}: the work");
}

fn owned(said: Said) -> Vec<(String, String)> {
    said.iter().map(|(agent, text)| ((*agent).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn streamed_events_say_what_the_table_says() {
    for row in TABLE {
        let file = format!("{}.events.jsonl", row.case);
        let runs = runs(&fixture(&file));
        assert_eq!(runs.len(), TABLE.iter().filter(|other| other.case == row.case).count(), "{file}");
        check(&file, &runs[row.run], row);
    }
}

#[test]
fn every_recorded_case_is_in_the_table() {
    for name in fixture_names() {
        let case = name.split('.').next().unwrap();
        assert!(TABLE.iter().any(|row| row.case == case), "{name}");
    }
}

#[test]
fn a_run_without_streaming_ends_in_the_same_answer() {
    let names = fixture_names();
    for row in TABLE {
        let file = format!("{}.events-run.jsonl", row.case);
        if !names.contains(&file) {
            continue;
        }
        let run = &runs(&fixture(&file))[row.run];
        if TELL_LESS.contains(&(row.case, row.run)) {
            assert_eq!(outcome(run).split(':').next(), row.outcome.split(':').next(), "{file}");
        } else {
            check(&file, run, row);
        }
    }
}

#[test]
fn the_merged_response_says_what_the_table_says() {
    for row in TABLE {
        let file = format!("{}.events.jsonl", row.case);
        let run = &runs(&fixture(&file))[row.run];
        let merged = merged(run);
        for (channel, expected) in [(Channel::Answer, row.answer), (Channel::Intermediate, row.intermediate)]
        {
            let messages = merged.response.messages.iter().filter(|message| message.channel == channel);
            let mut said: Vec<(String, String)> = messages
                .map(|message| (message.source.name().to_owned(), message.text()))
                .filter(|(_, text)| !text.is_empty())
                .collect();
            let mut expected = owned(expected);
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
    for row in TABLE {
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
