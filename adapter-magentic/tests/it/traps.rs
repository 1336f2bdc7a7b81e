//! Traps of the wire and defects of other bridges, each shown not to happen here.

use aqueduct_core::{BlockEvent, Channel, Message, SourceEvent, SpanKind};
use serde_json::{Value, json};

use crate::support::{
    Run, completed, customs, fixture, invoked, merged, outcome, run_of, runs, status, text, texts, update,
};

fn said(agent: &str, text: &str) -> (String, String) {
    (agent.to_owned(), text.to_owned())
}

fn answer(run: &Run) -> Vec<(String, String)> {
    texts(&run.events, Channel::Answer)
}

fn lanes(run: &Run) -> Vec<&str> {
    let names = run.events.iter().filter_map(|event| match event {
        BlockEvent::LaneOpened(lane) => Some(lane.name()),
        _ => None,
    });
    names.collect()
}

fn thoughts(run: &Run) -> String {
    let deltas = run.events.iter().filter_map(|event| match event {
        BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Thinking => Some(&**delta),
        _ => None,
    });
    deltas.collect()
}

// Ids.

#[test]
fn agents_are_told_apart_where_no_update_has_an_id() {
    let run = run_of(&[
        update("output", "a", &json!({"contents": [text("one ")]})),
        update("output", "b", &json!({"contents": [text("eins ")]})),
        update("output", "a", &json!({"contents": [text("two")]})),
        update("output", "b", &json!({"contents": [text("zwei")]})),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "one two"), said("b", "eins zwei")]);
}

#[test]
fn one_id_for_two_agents_mixes_nobody() {
    let run = run_of(&[
        update("output", "a", &json!({"contents": [text("one")], "message_id": "m1", "response_id": "r"})),
        update("output", "b", &json!({"contents": [text("eins")], "message_id": "m1", "response_id": "r"})),
        update("output", "a", &json!({"contents": [text(" two")], "message_id": "m1", "response_id": "r"})),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "one two"), said("b", "eins")]);
}

#[test]
fn an_id_that_an_agent_uses_again_is_a_new_message() {
    let turn = |words: &str| {
        [
            invoked("a"),
            update(
                "output",
                "a",
                &json!({"contents": [text(words)], "message_id": "m1", "finish_reason": "stop"}),
            ),
            completed("a"),
        ]
    };
    let events: Vec<Value> =
        [turn("one"), turn("two")].concat().into_iter().chain([status("IDLE")]).collect();
    assert_eq!(answer(&run_of(&events)), [said("a", "one"), said("a", "two")]);
}

#[test]
fn thoughts_under_an_id_that_is_used_again_are_kept_to_the_last_word() {
    let thought = |words: &str| {
        update(
            "output",
            "a",
            &json!({"contents": [{"type": "text_reasoning", "text": words}], "message_id": "m1"}),
        )
    };
    let answer = |words: &str| {
        update(
            "output",
            "a",
            &json!({"contents": [text(words)], "message_id": "m1", "finish_reason": "stop"}),
        )
    };
    let run = run_of(&[
        invoked("a"),
        thought("the "),
        thought("first"),
        answer("one"),
        completed("a"),
        invoked("a"),
        thought("the "),
        thought("the "),
        thought("second"),
        answer("two"),
        completed("a"),
        status("IDLE"),
    ]);
    assert_eq!(thoughts(&run), "the firstthe the second");
    let blocks = run
        .events
        .iter()
        .filter(|e| matches!(e, BlockEvent::BlockStarted(b) if b.kind == SpanKind::Thinking));
    assert_eq!(blocks.count(), 2);
}

#[test]
fn whole_messages_under_an_id_that_is_used_again_are_told_whole() {
    let whole = |thought: &str, words: &str| {
        json!({"type": "output", "executor_id": "a", "data": {"type": "agent_response", "messages": [
            {"type": "message", "role": "assistant", "author_name": "a", "message_id": "m1",
             "contents": [{"type": "text_reasoning", "text": thought}, text(words)]}]}})
    };
    let run = run_of(&[
        invoked("a"),
        whole("hm", "one"),
        completed("a"),
        invoked("a"),
        whole("aha", "two"),
        completed("a"),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "one"), said("a", "two")]);
    assert_eq!(thoughts(&run), "hmaha");
}

#[test]
fn two_turns_without_ids_are_two_messages_even_if_they_say_the_same() {
    let turn = || [invoked("a"), update("output", "a", &json!({"contents": [text("Yes.")]})), completed("a")];
    let events: Vec<Value> = [turn(), turn()].concat().into_iter().chain([status("IDLE")]).collect();
    let run = run_of(&events);
    let blocks = run.events.iter().filter(|event| matches!(event, BlockEvent::BlockStarted(_))).count();
    assert_eq!(blocks, 2);
    let whole = json!({"type": "output", "executor_id": "a", "data": {"type": "agent_response", "messages": [
        {"type": "message", "role": "assistant", "author_name": "a", "contents": [text("Yes.")]}]}});
    let turn = || [invoked("a"), whole.clone(), completed("a")];
    let events: Vec<Value> = [turn(), turn()].concat().into_iter().chain([status("IDLE")]).collect();
    assert_eq!(answer(&run_of(&events)), [said("a", "Yes."), said("a", "Yes.")]);
}

#[test]
fn tool_results_that_have_no_ids_find_their_calls() {
    let run = &runs(&fixture("tool_parallel.events.jsonl"))[0];
    let results: Vec<(String, String)> = run
        .events
        .iter()
        .filter_map(|event| match event {
            BlockEvent::ToolResult(result) => {
                Some((result.call_id.to_string(), result.output.to_text().to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        results,
        [said("call_p1", "Rome: 12 C, light rain"), said("call_p2", "Bern: 12 C, light rain")]
    );
}

// merge_mode.

#[test]
fn replace_of_the_same_text_adds_nothing_whatever_the_number_of_deltas() {
    let replace = |kind: &str, words: &str| json!({"type": kind, "text": words, "merge_mode": "replace"});
    for deltas in [&["Yes."][..], &["Y", "es."], &[]] {
        let mut events = vec![invoked("a")];
        for delta in deltas {
            events.push(update("output", "a", &json!({"contents": [text(delta)]})));
        }
        for _ in 0..3 {
            events.push(update("output", "a", &json!({"contents": [replace("text", "Yes.")]})));
        }
        events.extend([completed("a"), status("IDLE")]);
        assert_eq!(answer(&run_of(&events)), [said("a", "Yes.")], "{deltas:?}");
    }
}

#[test]
fn replace_of_another_text_takes_its_place() {
    let run = run_of(&[
        update("output", "a", &json!({"contents": [text("Rust is slow.")], "message_id": "m"})),
        update(
            "output",
            "a",
            &json!({"contents": [{"type": "text", "text": "Rust is fast.", "merge_mode": "replace"}], "message_id": "m"}),
        ),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "Rust is fast.")]);
    assert!(
        run.events.iter().any(|e| matches!(e, BlockEvent::BlockStarted(block) if block.replaces.is_some()))
    );
}

#[test]
fn replace_on_the_update_counts_like_replace_on_its_contents() {
    let run = run_of(&[
        update("output", "a", &json!({"contents": [text("Draft")], "message_id": "m"})),
        update(
            "output",
            "a",
            &json!({"contents": [text("Final")], "message_id": "m", "merge_mode": "replace"}),
        ),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "Final")]);
}

#[test]
fn two_texts_in_one_response_that_are_both_repeated_are_two_texts() {
    let replace = |words: &str| json!({"type": "text", "text": words, "merge_mode": "replace"});
    let run = run_of(&[
        update("output", "a", &json!({"contents": [text("One.")]})),
        update("output", "a", &json!({"contents": [replace("One.")]})),
        update("output", "a", &json!({"contents": [text("Two.")]})),
        update("output", "a", &json!({"contents": [replace("Two.")]})),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "One."), said("a", "Two.")]);
}

#[test]
fn replaced_usage_is_a_total_and_is_counted_once() {
    let run = &runs(&fixture("openai_responses.events.jsonl"))[0];
    let Some(BlockEvent::RunFinished(end)) = run.events.last() else { panic!("not finished") };
    // What the framework itself sums up for `gpt` (40/18), and the writer's 21/7.
    assert_eq!(
        (end.usage[0].input, end.usage[0].output, end.usage[0].reasoning),
        (Some(61), Some(25), Some(8))
    );
    assert_eq!(merged(run).response.usage, end.usage);
}

// The terminal contract.

#[test]
fn the_run_ends_with_its_status_and_not_with_its_last_output() {
    let lines = fixture("handoff_default.events.jsonl");
    let run = &runs(&lines)[0];
    let finished = run.said.iter().position(|event| matches!(event, SourceEvent::Finished { .. })).unwrap();
    assert_eq!(finished, run.said.len() - 1);
    let cut = &runs(&lines[..lines.len() - 1])[0];
    assert!(outcome(cut).starts_with("Failed: the agent's stream ended"), "{}", outcome(cut));
}

#[test]
fn an_agent_that_takes_note_of_a_broadcast_has_no_turn() {
    let run = &runs(&fixture("gc_tool_int.events.jsonl"))[0];
    let steps: Vec<&str> = run
        .events
        .iter()
        .filter_map(|event| match event {
            BlockEvent::StepStarted { name, .. } if !name.starts_with("superstep") => Some(&**name),
            _ => None,
        })
        .collect();
    let orchestrator = "group_chat_orchestrator";
    assert_eq!(steps, [orchestrator, "weather", orchestrator, "writer", orchestrator]);
}

#[test]
fn each_call_of_run_is_a_run_of_its_own() {
    let runs = runs(&fixture("seq_request_info.events.jsonl"));
    let outcomes: Vec<String> = runs.iter().map(outcome).collect();
    assert_eq!(outcomes, ["Interrupted", "Interrupted", "Success"]);
}

#[test]
fn an_aggregate_of_answers_that_were_streamed_as_answers_adds_nothing() {
    for ids in [true, false] {
        let id = |n: &str| if ids { json!(n) } else { Value::Null };
        let message = |agent: &str, n: &str, words: &str| json!({"type": "message", "role": "assistant", "author_name": agent, "message_id": id(n), "contents": [text(words)]});
        let run = run_of(&[
            invoked("a"),
            invoked("b"),
            update("output", "a", &json!({"contents": [text("one ")], "message_id": id("m1")})),
            update("output", "b", &json!({"contents": [text("eins")], "message_id": id("m2")})),
            update("output", "a", &json!({"contents": [text("two")], "message_id": id("m1")})),
            completed("a"),
            completed("b"),
            invoked("aggregator"),
            json!({"type": "output", "executor_id": "aggregator", "data": {"type": "agent_response", "messages": [
                {"type": "message", "role": "user", "contents": [text("the prompt")]},
                message("a", "m1", "one two"), message("b", "m2", "eins"), message("c", "m3", "new")]}}),
            completed("aggregator"),
            status("IDLE"),
        ]);
        assert_eq!(answer(&run), [said("a", "one two"), said("b", "eins"), said("c", "new")], "ids: {ids}");
    }
}

#[test]
fn an_aggregate_repeats_no_tools_and_no_files() {
    let call = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"});
    let result = json!({"type": "function_result", "call_id": "c1", "result": "ok"});
    let file = json!({"type": "uri", "uri": "https://example.com/a.png", "media_type": "image/png"});
    let run = run_of(&[
        invoked("a"),
        update("output", "a", &json!({"contents": [text("Look: "), call], "message_id": "m1"})),
        update("output", "a", &json!({"contents": [result], "role": "tool"})),
        update(
            "output",
            "a",
            &json!({"contents": [text("Done."), file], "message_id": "m2", "finish_reason": "stop"}),
        ),
        completed("a"),
        invoked("aggregator"),
        json!({"type": "output", "executor_id": "aggregator", "data": {"type": "agent_response", "messages": [
            {"type": "message", "role": "assistant", "author_name": "a", "message_id": "m1", "contents": [text("Look: "), call]},
            {"type": "message", "role": "tool", "author_name": "a", "contents": [result]},
            {"type": "message", "role": "assistant", "author_name": "a", "message_id": "m2", "contents": [text("Done."), file]}]}}),
        completed("aggregator"),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "Look: "), said("a", "Done.")]);
    let count = |wanted: fn(&BlockEvent) -> bool| run.events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|e| matches!(e, BlockEvent::BlockStarted(b) if b.kind == SpanKind::ToolUse)), 1);
    assert_eq!(count(|e| matches!(e, BlockEvent::ToolResult(_))), 1);
    assert_eq!(customs(&run, "aqueduct.file").len(), 1);
}

#[test]
fn a_message_with_text_around_a_call_keeps_its_order_and_is_not_doubled_by_a_repetition() {
    let message = json!({"type": "message", "role": "assistant", "author_name": "a", "message_id": "m", "contents": [
        text("before "), {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, text("after")]});
    let response = |executor: &str| json!({"type": "output", "executor_id": executor, "data": {"type": "agent_response", "messages": [message.clone()]}});
    let run = run_of(&[
        invoked("a"),
        response("a"),
        completed("a"),
        invoked("aggregator"),
        response("aggregator"),
        completed("aggregator"),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("a", "before after")]);
    let kinds: Vec<SpanKind> = run
        .events
        .iter()
        .filter_map(|event| match event {
            BlockEvent::BlockStarted(block) => Some(block.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [SpanKind::Text, SpanKind::ToolUse, SpanKind::Text]);
}

#[test]
fn a_sub_workflow_that_gives_its_output_before_its_work_is_told_as_it_is() {
    let message = |agent: &str, id: &str, words: &str| json!({"type": "agent_response", "messages": [{"type": "message", "role": "assistant", "author_name": agent, "message_id": id, "contents": [text(words)]}]});
    let run = run_of(&[
        invoked("sub"),
        json!({"type": "output", "executor_id": "sub", "data": message("writer", "m2", "Answer.")}),
        json!({"type": "intermediate", "executor_id": "sub", "data": message("researcher", "m1", "Work.")}),
        completed("sub"),
        status("IDLE"),
    ]);
    assert_eq!(answer(&run), [said("writer", "Answer.")]);
    assert_eq!(texts(&run.events, Channel::Intermediate), [said("researcher", "Work.")]);
    assert_eq!(lanes(&run), ["sub", "writer", "researcher"]);
}

#[test]
fn a_structured_output_is_data_and_a_success() {
    let run = run_of(&[
        invoked("score"),
        json!({"type": "output", "executor_id": "score", "data_class": "Score", "data": {"__class__": "Score", "points": 7}}),
        completed("score"),
        status("IDLE"),
    ]);
    assert_eq!(customs(&run, "aqueduct.data"), [&json!({"__class__": "Score", "points": 7})]);
    assert!(customs(&run, "aqueduct.notice").is_empty());
}

// Defects of the framework's own bridge.

#[test]
fn defect_1_every_participant_of_a_concurrent_run_is_heard() {
    assert_eq!(answer(&runs(&fixture("conc_default.events.jsonl"))[0]).len(), 3);
}

#[test]
fn defect_2_concurrent_agents_share_no_block_and_every_block_has_its_agent() {
    let run = &runs(&fixture("conc_intermediate.events.jsonl"))[0];
    for event in &run.events {
        if let BlockEvent::BlockStarted(block) = event {
            assert!(!block.lane.is_root(), "{block:?}");
        }
    }
    assert_eq!(thoughts(run), "Check claims. Looks fine.");
}

#[test]
fn defect_3_what_is_sent_twice_is_told_once() {
    for name in ["openai_responses.events.jsonl", "openai_responses.agent.jsonl"] {
        let run = &runs(&fixture(name))[0];
        assert_eq!(thoughts(run), "User wants weather.", "{name}");
        let arguments: String = run
            .events
            .iter()
            .filter_map(|event| match event {
                BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::ToolUse => Some(&**delta),
                _ => None,
            })
            .collect();
        assert_eq!(arguments, r#"{"city":"Paris"}"#, "{name}");
    }
}

#[test]
fn defect_4_nothing_follows_a_failure() {
    for name in ["error_agent.events.jsonl", "mag_error.events.jsonl", "error_agent.agent.jsonl"] {
        let runs = runs(&fixture(name));
        assert_eq!(runs.len(), 1, "{name}");
        assert!(matches!(runs[0].said.last(), Some(SourceEvent::Failed(_))), "{name}");
        assert!(matches!(runs[0].events.last(), Some(BlockEvent::RunFailed(_))), "{name}");
    }
}

#[test]
fn defect_5_empty_updates_make_no_events() {
    let empty = update(
        "output",
        "a",
        &json!({"contents": [], "response_id": "r", "_operation_state": "in_progress"}),
    );
    let blank =
        update("output", "a", &json!({"contents": [{"type": "text", "text": "", "merge_mode": "append"}]}));
    let run = run_of(&[empty.clone(), blank, empty, status("IDLE")]);
    let noise = run.said.iter().filter(|event| matches!(event, SourceEvent::Update(_))).count();
    assert_eq!(noise, 1, "the notice that there was no output, and nothing else: {:?}", run.said);
    assert!(lanes(&run).is_empty());
}

#[test]
fn defect_6_agents_of_as_agent_are_told_apart() {
    let run = &runs(&fixture("seq_intermediate.agent.jsonl"))[0];
    assert_eq!(lanes(run), ["researcher", "writer", "reviewer"]);
    assert_eq!(answer(run).len(), 3);
}

#[test]
fn defect_7_a_workflow_has_a_whole_history_too() {
    let run = &runs(&fixture("gc_tool_int.events.jsonl"))[0];
    let messages = merged(run).response.messages;
    let agents: Vec<&str> =
        messages.iter().filter(|m| !m.text().is_empty()).map(|m| m.source.name()).collect();
    assert_eq!(agents, ["weather", "weather", "writer", "group_chat_orchestrator"]);
    assert_eq!(messages.iter().flat_map(Message::tool_uses).count(), 1);
}

#[test]
fn as_agent_does_not_double_what_an_aggregator_repeats() {
    let run = &runs(&fixture("conc_intermediate.agent.jsonl"))[0];
    assert_eq!(answer(run).len(), 3);
    assert_eq!(thoughts(run), "Check claims. Looks fine.");
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"x\":1}"});
    let line = |update: Value| {
        let mut whole = json!({"type": "agent_response_update", "role": "assistant", "author_name": "a", "message_id": "m"});
        for (key, value) in update.as_object().unwrap() {
            whole[key] = value.clone();
        }
        json!({"update": whole})
    };
    let run = run_of(&[
        line(
            json!({"contents": [text("Let me look."), call], "finish_reason": "tool_calls", "response_id": "r1"}),
        ),
        line(json!({"contents": [text("Let me look."), call], "response_id": "r2"})),
        json!({"final_response": {"type": "agent_response", "messages": []}}),
    ]);
    assert_eq!(answer(&run), [said("a", "Let me look.")]);
    let calls =
        run.events.iter().filter(|e| matches!(e, BlockEvent::BlockStarted(b) if b.kind == SpanKind::ToolUse));
    assert_eq!(calls.count(), 1);
}

#[test]
fn as_agent_does_not_double_a_turn_of_calls_alone() {
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"x\":1}"});
    let thought = json!({"type": "text_reasoning", "text": "Hm."});
    let line = |response: &str, finish: Value| {
        json!({"update": {"type": "agent_response_update", "role": "assistant", "author_name": "a", "message_id": "m",
               "contents": [thought, call], "response_id": response, "finish_reason": finish}})
    };
    let run = run_of(&[
        line("r1", json!("tool_calls")),
        line("r2", Value::Null),
        json!({"final_response": {"type": "agent_response", "messages": []}}),
    ]);
    assert_eq!(thoughts(&run), "Hm.");
    let calls =
        run.events.iter().filter(|e| matches!(e, BlockEvent::BlockStarted(b) if b.kind == SpanKind::ToolUse));
    assert_eq!(calls.count(), 1);
}

#[test]
fn merged_turns_without_ids_are_messages_of_their_own() {
    let turn = |words: &str| {
        [invoked("a"), update("output", "a", &json!({"contents": [text(words)]})), completed("a")]
    };
    let events: Vec<Value> =
        [turn("One."), turn("Two.")].concat().into_iter().chain([status("IDLE")]).collect();
    let response = merged(&run_of(&events)).response;
    let said: Vec<String> = response.messages.iter().map(Message::text).collect();
    assert_eq!(said, ["One.", "Two."]);
    // Without an id of the source, a message has the id under which the stream shows it.
    let ids: std::collections::HashSet<_> = response.messages.iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), response.messages.len());
    assert!(!ids.contains(&None));
    assert_eq!(response.id.as_str(), "run-1");
}
