//! The accumulator rule on events of the older packages, and the packages between.

use aqueduct_core::{BlockEvent, Channel, LaneOutcome};
use serde_json::{Value, json};

use crate::support::{Run, customs, fixture, outcome, run_of, runs, text, texts};

fn delta(agent: &str, words: &str) -> Value {
    json!({"event_class": "MagenticAgentDeltaEvent", "agent_id": agent, "text": words, "role": "assistant"})
}

fn message(agent: &str, words: &str) -> Value {
    json!({"event_class": "MagenticAgentMessageEvent", "agent_id": agent,
           "message": {"type": "chat_message", "role": {"type": "role", "value": "assistant"}, "contents": [text(words)]}})
}

fn call(agent: &str) -> Value {
    json!({"event_class": "MagenticAgentDeltaEvent", "agent_id": agent, "text": null, "function_call_id": "c1",
           "function_call_name": "f", "function_call_arguments": "{}"})
}

fn idle() -> Value {
    json!({"event_class": "WorkflowStatusEvent", "state": "IDLE"})
}

fn work(run: &Run) -> Vec<(String, String)> {
    texts(&run.events, Channel::Intermediate)
}

fn said(agent: &str, text: &str) -> (String, String) {
    (agent.to_owned(), text.to_owned())
}

const REPRESENTATION: &str = "<agent_framework._types.ChatMessage object at 0x7ff1dcee8890>";

#[test]
fn deltas_win_over_a_representation_string() {
    let run =
        run_of(&[delta("a", "The answer "), delta("a", "is 42."), message("a", REPRESENTATION), idle()]);
    assert_eq!(work(&run), [said("a", "The answer is 42.")]);
}

#[test]
fn a_turn_of_tools_alone_is_a_completed_action() {
    for end in [REPRESENTATION, ""] {
        let run = run_of(&[call("a"), message("a", end), idle()]);
        assert_eq!(work(&run), [said("a", "Action completed (Tool Call)")]);
        assert!(
            run.events
                .iter()
                .any(|e| matches!(e, BlockEvent::BlockStarted(block) if &*block.tool_name == "f"))
        );
    }
}

#[test]
fn an_outage_is_never_a_completed_action() {
    let outage = "Agent a: Error processing request - model overloaded (529)";
    for before in [vec![], vec![call("a")], vec![delta("a", "Half a sen")]] {
        let streamed = before.iter().any(|event| event["text"].is_string());
        let events: Vec<Value> = before.into_iter().chain([message("a", outage), idle()]).collect();
        let run = run_of(&events);
        let notices = customs(&run, "aqueduct.notice");
        assert_eq!(notices[0], &json!({"text": outage, "level": "error"}));
        assert_eq!(work(&run), if streamed { vec![said("a", "Half a sen")] } else { vec![] });
        let failed = run.events.iter().any(
            |e| matches!(e, BlockEvent::LaneClosed { outcome, .. } if matches!(&**outcome, LaneOutcome::Failed(_))),
        );
        assert!(failed);
    }
}

#[test]
fn what_only_the_completion_says_is_marked_as_its_word() {
    let run = &runs(&fixture("old_mag_empty.events.jsonl"))[0];
    let mark = run.events.iter().find_map(|event| match event {
        BlockEvent::BlockStarted(block) if block.lane.name() == "mute" => block.origin.metadata.clone(),
        _ => None,
    });
    assert_eq!(mark.unwrap()["aqueduct.textFrom"], "completion");
}

#[test]
fn a_completion_that_differs_from_the_stream_is_kept_beside_it() {
    let run = run_of(&[delta("a", "Rust is fast."), message("a", "Something else."), idle()]);
    assert_eq!(work(&run), [said("a", "Rust is fast.")]);
    assert_eq!(customs(&run, "aqueduct.notice")[0]["text"], "Something else.");
    // The last message of a turn with tools is the end of the stream, and no news.
    let run = run_of(&[
        delta("a", "Let me look. "),
        call("a"),
        delta("a", "It rains."),
        message("a", "It rains."),
        idle(),
    ]);
    let notices: Vec<_> =
        customs(&run, "aqueduct.notice").into_iter().filter(|n| n["text"] == "It rains.").collect();
    assert!(notices.is_empty());
}

#[test]
fn turns_of_one_agent_are_apart_and_agents_do_not_mix() {
    let run = run_of(&[
        delta("a", "one"),
        delta("b", "eins"),
        message("a", "one"),
        delta("a", "two"),
        message("b", "eins"),
        message("a", "two"),
        idle(),
    ]);
    assert_eq!(work(&run), [said("a", "one"), said("b", "eins"), said("a", "two")]);
}

#[test]
fn the_final_result_is_the_answer_where_no_output_came_before_it() {
    let last = json!({"event_class": "MagenticFinalResultEvent", "message": {"type": "chat_message", "role": "assistant", "author_name": "magentic_manager", "contents": [text("done")]}});
    let output = json!({"event_class": "WorkflowOutputEvent", "source_executor_id": "magentic_orchestrator", "data": last["message"]});
    for events in [vec![last.clone(), idle()], vec![output, last.clone(), idle()]] {
        let run = run_of(&events);
        assert_eq!(texts(&run.events, Channel::Answer), [said("magentic_orchestrator", "done")]);
        assert_eq!(outcome(&run), "Success");
    }
}

#[test]
fn updates_that_say_in_their_properties_what_they_are_are_taken_at_their_word() {
    let update = |executor: &str, words: &str, properties: Value| {
        json!({"event_class": "AgentRunUpdateEvent", "executor_id": executor, "data_class": "AgentRunResponseUpdate",
               "data": {"type": "agent_run_response_update", "role": {"type": "role", "value": "assistant"}, "contents": [text(words)], "additional_properties": properties}})
    };
    let orchestrator = |kind: &str, words: &str| {
        update(
            "magentic_orchestrator",
            words,
            json!({"magentic_event_type": "orchestrator_message", "orchestrator_message_kind": kind, "orchestrator_id": "magentic_orchestrator"}),
        )
    };
    let agent = |words: &str| {
        update("agent_writer", words, json!({"magentic_event_type": "agent_delta", "agent_id": "writer"}))
    };
    let run = run_of(&[
        orchestrator("user_task", "Write."),
        orchestrator("task_ledger", "Here is the plan to follow as best as possible:\n- write"),
        orchestrator("instruction", "writer, write."),
        json!({"event_class": "ExecutorInvokedEvent", "executor_id": "agent_writer"}),
        agent("Draft "),
        agent("one."),
        json!({"event_class": "ExecutorCompletedEvent", "executor_id": "agent_writer"}),
        orchestrator("notice", "Almost done."),
        json!({"event_class": "WorkflowOutputEvent", "source_executor_id": "magentic_orchestrator", "data": [
            {"type": "chat_message", "role": "assistant", "author_name": "writer", "contents": [text("Final.")]}]}),
        idle(),
    ]);
    assert_eq!(work(&run), [said("writer", "Draft one.")]);
    assert_eq!(texts(&run.events, Channel::Answer), [said("writer", "Final.")]);
    assert_eq!(customs(&run, "magentic.task"), [&json!({"text": "Write."})]);
    assert_eq!(customs(&run, "aqueduct.plan")[0]["steps"][0]["title"], "write");
    assert_eq!(customs(&run, "magentic.instruction"), [&json!({"text": "writer, write."})]);
    assert_eq!(customs(&run, "aqueduct.notice"), [&json!({"text": "Almost done.", "level": "info"})]);
}

#[test]
fn an_older_aggregate_gathers_answers_without_the_prompt() {
    let word = |role: &str, agent: Value, words: &str| json!({"type": "chat_message", "role": {"type": "role", "value": role}, "author_name": agent, "contents": [text(words)]});
    let run = run_of(&[
        json!({"event_class": "WorkflowOutputEvent", "source_executor_id": "aggregator", "data": [
            word("user", Value::Null, "prompt"), word("assistant", json!("a"), "one"), word("assistant", json!("b"), "eins")]}),
        idle(),
    ]);
    assert_eq!(texts(&run.events, Channel::Answer), [said("a", "one"), said("b", "eins")]);
}
