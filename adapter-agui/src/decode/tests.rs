//! What each AG-UI event says in canonical terms, and through the stream machine.

use aqueduct_core::BlockKind::{Text, ToolUse};
use aqueduct_core::testing::{InvariantChecker, run_to_end, trace};
use aqueduct_core::{
    BlockEvent, ContentBlock, LaneOutcome, MessageId, Mode, RunFailure, RunInfo, RunOutcome, Source,
    SourceEvent, StreamContext, Track, Update, wellknown,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Decoder;
use crate::config::{Dialect, Settings};
use crate::convert::converters;
use crate::error::Error;
use crate::verify::{Level, Rule, verify};
use crate::wire::{Event, RunAgentInput, Strictness};

fn event(value: Value) -> Event {
    Event::from_value(value, Strictness::Forgiving).unwrap()
}

fn decode_with(mut decoder: Decoder, events: Vec<Value>) -> Vec<SourceEvent> {
    let mut out = Vec::new();
    for value in events {
        decoder.handle_event(event(value)).unwrap();
        out.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    out
}

fn decode(events: Vec<Value>) -> Vec<SourceEvent> {
    decode_with(Decoder::new(), events)
}

fn updates(events: Vec<SourceEvent>) -> Vec<Update> {
    let only = |event| match event {
        SourceEvent::Update(update) => Some(update),
        _ => None,
    };
    events.into_iter().filter_map(only).collect()
}

/// The whole way to balanced events, as a readable trace.
fn traced(events: Vec<Value>) -> String {
    let balanced = run_to_end(decode(events));
    InvariantChecker::check_all(&balanced).unwrap();
    trace(&balanced)
}

fn start(id: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
}

fn content(id: &str, delta: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})
}

fn end(id: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_END", "messageId": id})
}

fn tagged(mut event: Value, tag: &str) -> Value {
    event["subagentRunId"] = json!(tag);
    event
}

fn call(id: &str, parent: &str) -> [Value; 2] {
    [
        json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "look", "parentMessageId": parent}),
        json!({"type": "TOOL_CALL_END", "toolCallId": id}),
    ]
}

#[test]
fn a_text_takes_along_what_its_start_said() {
    let mut first = start("m");
    first["timestamp"] = json!(7);
    first["metadata"] = json!({"k": 1});
    first["rawEvent"] = json!({"r": 1});
    first["x"] = json!(2);
    first["name"] = json!("planner");
    first["role"] = json!("user");
    let out = updates(decode(vec![first, content("m", "Hi"), content("m", ""), content("m", "!"), end("m")]));
    assert_eq!(out.len(), 3);
    assert_eq!(out[0].block, ContentBlock::text("Hi"));
    assert_eq!(out[0].message_id.as_ref().unwrap().as_str(), "m");
    assert_eq!(out[0].created_at.unwrap().0, 7);
    assert_eq!(out[0].role, aqueduct_core::Role::User);
    let metadata = serde_json::to_value(&**out[0].metadata().unwrap()).unwrap();
    assert_eq!(metadata, json!({"k": 1, "rawEvent": {"r": 1}, "x": 2, "aqueduct.author": "planner"}));
    assert!(out[1].details.is_none() && !out[1].last && out[2].last);
}

#[test]
fn an_empty_text_says_nothing() {
    assert_eq!(decode(vec![start("m"), end("m")]), []);
}

#[test]
fn content_without_a_start_is_not_lost() {
    let out = updates(decode(vec![content("m", "Hi")]));
    assert_eq!(out[0].block, ContentBlock::text("Hi"));
}

#[test]
fn messages_that_interleave_do_not_end_each_other() {
    let events = vec![
        start("a"),
        content("a", "1"),
        start("b"),
        content("b", "2"),
        content("a", "3"),
        end("a"),
        content("b", "4"),
        end("b"),
    ];
    let started = |event: &&BlockEvent| matches!(event, BlockEvent::BlockStarted(_));
    assert_eq!(run_to_end(decode(events)).iter().filter(started).count(), 2);
    let out = updates(decode(vec![
        start("a"),
        content("a", "1"),
        start("b"),
        content("b", "2"),
        content("a", "3"),
    ]));
    assert_eq!(out[0].track, Track::MAIN);
    assert_eq!(out[1].track, Track::new("text:b"));
    assert_eq!(out[2].track, Track::MAIN);
}

#[test]
fn a_call_beside_an_open_text_does_not_end_it() {
    let [first, last] = call("c", "a");
    let out = updates(decode(vec![start("a"), content("a", "1"), first, content("a", "2"), last]));
    assert_ne!(out[1].track, out[0].track);
}

#[test]
fn a_call_after_its_text_is_on_its_track() {
    let mut events = vec![start("a"), content("a", "1"), start("b"), content("b", "2"), end("b"), end("a")];
    events.extend(call("c", "b"));
    let out = updates(decode(events));
    let calls: Vec<_> = out.iter().filter(|u| matches!(u.block, ContentBlock::ToolUse(_))).collect();
    assert_eq!(calls[0].track, Track::new("text:b"));
    assert_eq!(calls[0].message_id.as_ref().unwrap().as_str(), "b");
    assert!(calls[1].last);
}

#[test]
fn a_sealed_thought_stays_one_block() {
    let thought = |kind: &str| json!({"type": kind, "messageId": "q", "role": "reasoning", "delta": "hm"});
    let out = updates(decode(vec![
        thought("REASONING_START"),
        thought("REASONING_MESSAGE_START"),
        thought("REASONING_MESSAGE_CONTENT"),
        thought("REASONING_MESSAGE_END"),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "q", "encryptedValue": "e"}),
        thought("REASONING_END"),
    ]));
    let sealed: Vec<_> = out
        .iter()
        .map(|u| match &u.block {
            ContentBlock::Thinking(t) => (&*t.text, t.encrypted.as_deref().map(|value| &**value), u.last),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sealed, [("hm", None, false), ("", Some("e"), false), ("", None, true)]);
}

#[test]
fn the_end_of_a_thought_does_not_wait_for_ever() {
    let thought = |kind: &str| json!({"type": kind, "messageId": "q", "role": "reasoning", "delta": "hm"});
    let out = updates(decode(vec![
        thought("REASONING_START"),
        thought("REASONING_MESSAGE_START"),
        thought("REASONING_MESSAGE_CONTENT"),
        thought("REASONING_MESSAGE_END"),
        start("a"),
        content("a", "1"),
    ]));
    assert!(out[1].last && matches!(out[1].block, ContentBlock::Thinking(_)));
    assert_eq!(out[2].track, Track::MAIN);
}

/// What a client of this stream would be sent.
fn shown(events: Vec<Value>) -> Vec<Value> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run")).with_kept_ids([]);
    for event in decode(events) {
        context.handle_event(event).unwrap();
    }
    let set = converters(&Settings::new(Dialect::V1_0));
    let mut out = Vec::new();
    std::iter::from_fn(|| context.poll_event()).for_each(|event| set.convert(&event, &mut out));
    out.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

#[test]
fn the_seal_of_a_result_or_call_is_sent_as_one() {
    let seal = |subtype: &str, id: &str| json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": id, "encryptedValue": "e"});
    let mut events = call("c", "x").to_vec();
    events.push(json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "21"}));
    events.extend([seal("message", "t"), seal("tool-call", "c")]);
    let out = shown(events);
    assert_eq!(out[out.len() - 2..], [seal("message", "t"), seal("tool-call", "c")]);
    assert!(out.iter().all(|event| event["type"] != "REASONING_START"), "{out:?}");
}

#[test]
fn old_thinking_is_understood() {
    let out = updates(decode(vec![
        json!({"type": "THINKING_START", "title": "Plan"}),
        json!({"type": "THINKING_TEXT_MESSAGE_START"}),
        json!({"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "hm"}),
        json!({"type": "THINKING_TEXT_MESSAGE_END"}),
        json!({"type": "THINKING_END"}),
        json!({"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "loose"}),
    ]));
    assert_eq!(out[0].block, ContentBlock::thinking("hm"));
    assert_eq!(out[0].metadata().unwrap()["title"], "Plan");
    assert!(out[1].last);
    assert_eq!(out[2].block, ContentBlock::thinking("loose"));
    assert_ne!(out[0].message_id, out[2].message_id);
    let bad = Decoder::new().handle_event(event(json!({"type": "THINKING_TEXT_MESSAGE_CONTENT"})));
    assert!(bad.unwrap_err().to_string().contains("THINKING_TEXT_MESSAGE_CONTENT.delta"));
}

#[test]
fn chunks_are_spelled_out() {
    let out = updates(decode(vec![
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "a", "delta": "1"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "2"}),
        json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "t", "delta": "{}"}),
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
    ]));
    let kinds: Vec<_> = out.iter().map(|u| (u.block.kind(), u.last)).collect();
    assert_eq!(
        kinds,
        [(Text, false), (Text, false), (Text, true), (ToolUse, false), (ToolUse, false), (ToolUse, true)]
    );
    let error = Decoder::new().handle_event(event(json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "1"})));
    assert!(matches!(error, Err(Error::FirstChunkWithout { .. })));
}

#[test]
fn sub_agents_are_lanes() {
    let out = decode(vec![
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "researcher", "description": "d", "parentToolCallId": "c"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s2", "name": "deep", "parentSubagentRunId": "s1"}),
        tagged(content("m", "x"), "s2"),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s2", "result": 1}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s2", "outcome": {"type": "suspended"}}),
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "m", "code": "e"}),
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "s1", "message": "m", "code": "cancelled"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s1", "outcome": {"type": "bored"}}),
    ]);
    let s1 = Source::root().child("s1");
    let SourceEvent::LaneOpened(opened) = &out[0] else { panic!() };
    assert_eq!((opened.name(), opened.parent_call().unwrap().as_str()), ("researcher", "c"));
    let SourceEvent::Update(update) = &out[2] else { panic!() };
    assert_eq!(update.source, s1.child("s2"));
    let outcomes: Vec<_> = out[3..]
        .iter()
        .map(|event| match event {
            SourceEvent::LaneClosed { outcome, .. } => outcome.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outcomes[0], LaneOutcome::Success(Some(json!(1))));
    assert_eq!(outcomes[1], LaneOutcome::Suspended);
    assert_eq!(outcomes[2], LaneOutcome::Failed(RunFailure::new("e", "m")));
    assert_eq!(outcomes[3], LaneOutcome::Cancelled);
    assert!(
        matches!(&outcomes[4], LaneOutcome::Failed(failure) if failure.code == RunFailure::UPSTREAM_INVALID)
    );
}

#[test]
fn a_tag_alone_is_a_lane_named_by_its_first_event() {
    let mut named = tagged(start("m"), "s");
    named["name"] = json!("helper");
    let out = updates(decode(vec![named, content("m", "x")]));
    assert_eq!((out[0].source.key(), out[0].source.name()), ("s", "helper"));
}

#[test]
fn steps_states_and_customs() {
    let out = decode(vec![
        json!({"type": "STEP_STARTED", "stepName": "s"}),
        json!({"type": "STEP_FINISHED", "stepName": "s"}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
        json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1, "by": "x"}]}),
        json!({"type": "CUSTOM", "name": "chart", "value": null}),
        json!({"type": "RAW", "event": {"a": 1}, "source": "s"}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {}, "replace": false}),
        json!({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": []}),
        json!({"type": "HOLOGRAM", "x": 1}),
    ]);
    let root = Source::root();
    assert_eq!(out[0], SourceEvent::StepStarted { source: root.clone(), name: "s".into() });
    assert_eq!(out[2], SourceEvent::StateSnapshot { source: root.clone(), state: Value::Null });
    assert_eq!(
        out[3],
        SourceEvent::StateDelta {
            source: root,
            patch: vec![json!({"op": "add", "path": "/a", "value": 1, "by": "x"})]
        }
    );
    let blocks: Vec<_> =
        updates(out).into_iter().map(|u| (u.block, u.message_id.map(|id| id.to_string()))).collect();
    let custom = |name: &str, value: Value, id: Option<&str>| {
        (ContentBlock::custom(name, value), id.map(str::to_owned))
    };
    assert_eq!(
        blocks,
        [
            custom("chart", Value::Null, None),
            custom(wellknown::RAW, json!({"event": {"a": 1}, "source": "s"}), None),
            custom(wellknown::ACTIVITY, json!({"type": "t", "content": {}, "replace": false}), Some("m")),
            custom(wellknown::ACTIVITY_DELTA, json!({"type": "t", "patch": []}), Some("m")),
            custom(wellknown::RAW, json!({"event": {"type": "HOLOGRAM", "x": 1}, "source": "ag-ui"}), None),
        ]
    );
}

#[test]
fn an_untagged_change_goes_to_the_lane_of_its_card() {
    let card = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "t", "content": {}});
    let change = json!({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "t", "patch": []});
    let out = updates(decode(vec![tagged(card, "s"), change]));
    assert_eq!(out[1].source, out[0].source);
}

#[test]
fn results_keep_their_structure() {
    let mut result = json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]});
    result["metadata"] = json!({"aqueduct.isError": true});
    let out = updates(decode(vec![result]));
    let ContentBlock::ToolResult(result) = &out[0].block else { panic!() };
    assert!(result.is_error);
    assert_eq!(result.output.to_text(), r#"[{"type":"text","text":"x"}]"#);
}

fn finished(outcome: &Value) -> Vec<SourceEvent> {
    decode(vec![json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome,
        "usage": [{"model": "m", "inputTokens": 3}]})])
}

#[test]
fn ends_are_told_as_they_are() {
    let end = |outcome: Value| finished(&outcome).pop().unwrap();
    let finish = |outcome| SourceEvent::Finished { outcome, result: None };
    assert_eq!(end(Value::Null), finish(RunOutcome::Success));
    assert_eq!(end(json!({"type": "success", "pendingToolCallIds": ["c"]})), finish(RunOutcome::Success));
    assert_eq!(end(json!({"type": "cancelled"})), finish(RunOutcome::Cancelled));
    assert!(
        matches!(end(json!({"type": "bored"})), SourceEvent::Failed(f) if f.code == RunFailure::UPSTREAM_INVALID)
    );
    let asked = finished(
        &json!({"type": "interrupt", "interrupts": [{"id": "i", "reason": "input_required", "message": "?",
        "toolCallId": "c", "responseSchema": {"type": "object"}, "expiresAt": "x", "metadata": {"a": 1}, "subagentRunId": "s"}]}),
    );
    assert!(matches!(&asked[0], SourceEvent::Usage { usage, .. } if usage.input == Some(3)));
    let SourceEvent::InterruptRequested { source, interrupt } = &asked[1] else { panic!() };
    assert_eq!((source.key(), interrupt.id.as_str(), &*interrupt.reason), ("s", "i", "input_required"));
    assert_eq!(interrupt.response_schema, Some(json!({"type": "object"})));
    assert_eq!(asked[2], finish(RunOutcome::Interrupted));
    let failed =
        |code: Value| decode(vec![json!({"type": "RUN_ERROR", "message": "m", "code": code})]).pop().unwrap();
    assert_eq!(failed(json!("e")), SourceEvent::Failed(RunFailure::new("e", "m")));
    assert_eq!(failed(Value::Null), SourceEvent::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "m")));
    assert_eq!(failed(json!("cancelled")), finish(RunOutcome::Cancelled));
}

#[test]
fn the_words_of_a_question_are_found_where_frameworks_put_them() {
    let asked = |metadata: Value, message: Option<&str>| {
        let mut interrupt = json!({"id": "i", "reason": "r", "metadata": metadata});
        if let Some(message) = message {
            interrupt["message"] = json!(message);
        }
        let end = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
            "outcome": {"type": "interrupt", "interrupts": [interrupt]}});
        let SourceEvent::InterruptRequested { interrupt, .. } = decode(vec![end]).remove(0) else { panic!() };
        interrupt.message.map(|message| message.to_string())
    };
    for (metadata, words) in [
        (json!({"langgraph": {"raw": {"question": "Deploy?"}, "ns": null}}), "Deploy?"),
        (json!({"langgraph": {"raw": "Deploy?"}}), "Deploy?"),
        (json!({"langgraph": {"raw": [{"action": "deploy", "description": "Deploy?"}]}}), "Deploy?"),
        (json!({"reason": {"message": "Deploy?", "tool": "deploy"}}), "Deploy?"),
        (json!({"value": {"question": "Deploy?"}}), "Deploy?"),
        (json!({"adk": {"toolConfirmation": {"hint": "Deploy?", "confirmed": false}}}), "Deploy?"),
        (json!({"langgraph": {"raw": {"cluster": "prod"}}}), r#"{"cluster":"prod"}"#),
    ] {
        assert_eq!(asked(metadata.clone(), None).as_deref(), Some(words), "{metadata}");
        assert_eq!(asked(metadata, Some("Own")).as_deref(), Some("Own"));
    }
    assert_eq!(asked(json!({"tool_name": "deploy"}), None), None);
}

#[test]
fn a_question_before_1_0_is_one() {
    let custom = json!({"type": "CUSTOM", "name": "on_interrupt", "value": "{\"question\": \"Deploy?\"}",
        "rawEvent": {"id": "i1"}});
    let nameless = json!({"type": "CUSTOM", "name": "on_interrupt", "value": "Deploy?"});
    let end = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    let out = decode(vec![custom, nameless, end.clone()]);
    let asked: Vec<_> = out
        .iter()
        .filter_map(|event| match event {
            SourceEvent::InterruptRequested { interrupt, .. } => {
                Some((interrupt.id.to_string(), interrupt.message.clone().unwrap().to_string()))
            }
            _ => None,
        })
        .collect();
    let pair = |id: &str| (id.to_owned(), "Deploy?".to_owned());
    assert_eq!(asked, [pair("i1"), pair("r/on_interrupt/1")]);
    assert_eq!(
        *out.last().unwrap(),
        SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None }
    );
    assert_eq!(
        *decode(vec![end]).last().unwrap(),
        SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
    );
}

#[test]
fn nothing_follows_the_end() {
    let mut decoder = Decoder::new();
    decoder.handle_event(event(json!({"type": "RUN_ERROR", "message": "m"}))).unwrap();
    let error = decoder.handle_event(event(json!({"type": "CUSTOM", "name": "n", "value": 1}))).unwrap_err();
    assert!(error.can_continue() && error.to_string().starts_with("CUSTOM after the end"));
}

#[test]
fn a_stream_that_just_stops_is_no_success() {
    let trace = traced(vec![start("m"), content("m", "half")]);
    assert!(trace.contains("upstream_ended"), "{trace}");
}

fn snapshot(messages: &Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

#[test]
fn a_restated_stream_adds_nothing() {
    let whole = |text: &str| {
        json!([
            {"id": "u", "role": "user", "content": "?"},
            {"id": "m", "role": "assistant", "content": text},
            {"id": "x", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        ])
    };
    let stream = |text: &str| {
        let mut events = vec![start("m"), content("m", "He"), content("m", "llo"), end("m")];
        events.extend(call("c", "x"));
        events.push(snapshot(&whole(text)));
        updates(decode(events)).pop().unwrap().block
    };
    assert!(matches!(stream("Hello"), ContentBlock::ToolUse(_)));
    assert_eq!(stream("Hello!"), ContentBlock::custom(wellknown::MESSAGES, whole("Hello!")));
}

/// `LangGraph` and agno start the call that waited for an answer again in the run that resumes.
#[test]
fn a_call_of_the_input_that_starts_again_is_the_same_call() {
    let input = |arguments: &str| -> RunAgentInput {
        serde_json::from_value(json!({"threadId": "t", "runId": "r", "messages": [
            {"id": "u", "role": "user", "content": "?"},
            {"id": "x", "role": "assistant", "toolCalls": [
                {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}]}]}))
        .unwrap()
    };
    let stream = || {
        let mut events = call("c", "other").to_vec();
        let delta = json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"});
        events.insert(1, delta);
        events
            .push(json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "21"}));
        events
    };
    let out = |arguments: &str| updates(decode_with(Decoder::new().with_input(&input(arguments)), stream()));
    assert_eq!(out("{ }").len(), 1, "the answer alone");
    let changed = out("{\"a\":1}");
    assert_eq!(changed[0].block, ContentBlock::tool_use("c", "look", "{}"));
    assert_eq!((changed[0].mode, changed.len()), (Mode::Replace, 2));
}

/// More than is held for the comparison: the call is emitted as it arrives, with all its arguments in order.
#[test]
fn a_large_call_that_starts_again_is_emitted_whole() {
    let input: RunAgentInput = serde_json::from_value(json!({"threadId": "t", "runId": "r", "messages": [
        {"id": "u", "role": "user", "content": "?"},
        {"id": "x", "role": "assistant", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}]}))
    .unwrap();
    let large = "x".repeat(700_000);
    let deltas = ["{\"a\":\"", &large, &large, "\",\"b\":", "1}"];
    let mut events = call("c", "other").to_vec();
    for (at, delta) in (1..).zip(deltas) {
        events.insert(at, json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": delta}));
    }
    let emitted = updates(decode_with(Decoder::new().with_input(&input), events));
    let mut arguments = String::new();
    for update in &emitted {
        let ContentBlock::ToolUse(tool) = &update.block else { panic!("{update:?}") };
        arguments.push_str(&tool.arguments);
        assert_eq!((&update.track, update.message_id.as_ref()), (&Track::MAIN, Some(&MessageId::from("x"))));
    }
    assert_eq!(arguments, deltas.concat());
    let modes: Vec<_> = emitted.iter().map(|update| (update.mode, update.last)).collect();
    let rest = (Mode::Append, false);
    assert_eq!(modes, [(Mode::Replace, false), rest, rest, (Mode::Append, true)]);
    let mut context = StreamContext::new(RunInfo::new("t", "r"));
    let (mut streamed, mut blocks) = (String::new(), 0);
    for update in emitted {
        context.handle_update(update).unwrap();
        while let Some(event) = context.poll_event() {
            match event {
                BlockEvent::BlockStarted(_) => blocks += 1,
                BlockEvent::BlockDelta { delta, .. } => streamed.push_str(&delta),
                _ => {}
            }
        }
    }
    assert_eq!((streamed, blocks), (arguments, 1));
}

#[test]
fn the_same_under_other_ids_adds_nothing_but_a_note() {
    let mut events = vec![start("m"), content("m", "Hello"), end("m")];
    events.extend(call("c", "m"));
    events.push(json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "21"}));
    events.extend([start("n"), content("n", "21."), end("n")]);
    let count = updates(decode(events.clone())).len();
    let fresh = json!([
        {"id": "u2", "role": "user", "content": "?"},
        {"id": "m2", "role": "assistant", "content": "Hello", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        {"id": "t2", "role": "tool", "toolCallId": "c", "content": "21"},
        {"id": "n2", "role": "assistant", "content": "21."},
    ]);
    events.push(snapshot(&fresh));
    assert_eq!(updates(decode(events.clone())).len(), count);
    events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    let out = updates(decode(events.clone()));
    let ids = json!({"texts": {"m": ["m2"], "n": ["n2"]}, "calls": {"c": "m2"}, "results": {"c": "t2"}});
    assert_eq!(out.last().unwrap().block, ContentBlock::custom(wellknown::IDS, ids));
    let kinds: Vec<_> = shown(events).iter().map(|event| event["type"].clone()).collect();
    assert!(!kinds.contains(&json!("MESSAGES_SNAPSHOT")) && !kinds.contains(&json!("CUSTOM")), "{kinds:?}");
}

#[test]
fn a_snapshot_corrects_once() {
    let arguments = |text: &str| {
        json!([{"id": "x", "role": "assistant", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": text}}]}])
    };
    let mut events = call("c", "x").to_vec();
    events.push(json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "21"}));
    events.extend([snapshot(&arguments("{\"a\":1}")), snapshot(&arguments("{\"a\": 1}"))]);
    let out = updates(decode(events));
    let corrected: Vec<_> = out.iter().filter(|update| update.mode == Mode::Replace).collect();
    assert_eq!(corrected.len(), 1);
    assert_eq!(corrected[0].block, ContentBlock::tool_use("c", "look", "{\"a\":1}"));
    // Other words under another id, at the same place.
    let words = json!([{"id": "fresh", "role": "assistant", "content": "Better."}]);
    let said = vec![start("m"), content("m", "Worse."), end("m"), snapshot(&words)];
    let out = updates(decode(said.clone()));
    let corrected = out.iter().find(|update| update.mode == Mode::Replace).unwrap();
    assert_eq!(corrected.message_id.as_ref().unwrap().as_str(), "m");
    let replacing: Vec<_> =
        shown(said).into_iter().filter(|event| event["metadata"]["aqueduct.replaces"] == "m").collect();
    assert_eq!(replacing.len(), 1, "{replacing:?}");
}

#[test]
fn an_answer_that_is_only_restated_is_said() {
    let history = json!([
        {"id": "old", "role": "assistant", "content": "before"},
        {"id": "u", "role": "user", "content": "?"},
        {"id": "q", "role": "reasoning", "content": "hm"},
        {"id": "a", "role": "assistant", "content": "now", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": "found"},
    ]);
    let blocks: Vec<_> = updates(decode(vec![snapshot(&history)])).into_iter().map(|u| u.block).collect();
    assert_eq!(
        blocks,
        [
            ContentBlock::thinking("hm"),
            ContentBlock::text("now"),
            ContentBlock::tool_use("c", "look", "{}"),
            ContentBlock::tool_result("c", "found"),
            ContentBlock::custom(wellknown::MESSAGES, history),
        ]
    );
}

#[test]
fn what_was_sent_in_is_not_said_again() {
    let input: RunAgentInput = serde_json::from_value(json!({"threadId": "t", "runId": "r", "messages": [
        {"id": "old", "role": "assistant", "content": "before"}]}))
    .unwrap();
    let history = json!([{"id": "old", "role": "assistant", "content": "before"}]);
    assert_eq!(decode_with(Decoder::new().with_input(&input), vec![snapshot(&history)]), []);
    let echoed = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input});
    assert_eq!(decode(vec![echoed, snapshot(&history)]), []);
}

#[test]
fn the_good_stream_is_decoded_whole() {
    let text = include_str!("../../../tests/fixtures/agui/good.jsonl");
    let trace = traced(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect());
    for said in ["hmm", "Hel", "lo", "sub ", "text", "42", "done", "researcher", "plan"] {
        assert!(trace.contains(said), "{said}\n{trace}");
    }
}

/// Any events, legal or not, over few ids.
fn arb_event() -> impl Strategy<Value = Value> {
    let kinds =
        prop::sample::select(crate::wire::EventType::ALL.map(crate::wire::EventType::as_str).to_vec());
    let tag = prop::option::of("[xy]");
    (kinds, "[ab]", "[d-f]{0,2}", tag, any::<bool>()).prop_map(|(kind, id, delta, tag, flag)| {
        let mut value = json!({"type": kind, "messageId": id, "toolCallId": id, "toolCallName": "t", "delta": delta,
            "stepName": id, "role": "reasoning", "subtype": "message", "entityId": id, "encryptedValue": "e",
            "name": id, "value": 1, "event": 1, "snapshot": 1, "threadId": "t", "runId": "r", "message": "m",
            "content": "c", "activityType": "t", "patch": [], "messages": []});
        match kind {
            "STATE_DELTA" => value["delta"] = json!([]),
            "ACTIVITY_SNAPSHOT" => value["content"] = json!({}),
            "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CHUNK" => value["role"] = json!("assistant"),
            "TOOL_CALL_RESULT" => value["role"] = json!("tool"),
            "SUBAGENT_STARTED" | "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => value["subagentRunId"] = json!(id),
            _ => {}
        }
        if flag && kind.ends_with("_CHUNK") {
            let members = value.as_object_mut().unwrap();
            members.shift_remove("messageId");
            members.shift_remove("toolCallId");
        }
        if let Some(tag) = tag {
            value["subagentRunId"] = json!(tag);
        }
        value
    })
}

proptest! {
    #[test]
    fn whatever_a_source_sends_the_stream_stays_balanced(events in prop::collection::vec(arb_event(), 0..40)) {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        for value in events {
            // Refusals are fine; panics and imbalance are not.
            let _refused = decoder.handle_event(event(value));
            out.extend(std::iter::from_fn(|| decoder.poll_event()));
        }
        let balanced = run_to_end(out);
        InvariantChecker::check_all(&balanced).unwrap();
        // Whatever it was, it comes out as a stream that a client takes whole.
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let set = converters(&Settings::new(dialect));
            let mut shown = Vec::new();
            for event in &balanced {
                set.convert(event, &mut shown);
            }
            let violations = verify(&shown, dialect, Level::Strict);
            // Changes of cards that the source never showed are passed on: the card may be known from elsewhere.
            let found: Vec<_> = violations.iter().filter(|v| v.rule != Rule::ActivityWithoutSnapshot).collect();
            prop_assert!(found.is_empty(), "{:?}", found);
        }
    }
}

#[test]
fn a_call_without_a_tag_belongs_to_the_agent_of_its_message_also_after_the_end() {
    for is_ended in [false, true] {
        let mut events = vec![
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "subagentRunId": "s"}),
            content("m", "Looking."),
        ];
        events.extend(is_ended.then(|| end("m")));
        events.push(json!(
            {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look", "parentMessageId": "m"}
        ));
        events.push(json!({"type": "TOOL_CALL_END", "toolCallId": "c"}));
        events.push(json!(
            {"type": "TOOL_CALL_RESULT", "messageId": "r", "toolCallId": "c", "content": "42"}
        ));
        let updates = updates(decode(events));
        let keys: Vec<&str> = updates.iter().map(|update| update.source.key()).collect();
        assert_eq!(keys, vec!["s"; updates.len()], "ended: {is_ended}");
        assert!(updates.len() >= 4, "{updates:#?}");
    }
}

#[test]
fn a_reasoning_message_whose_end_is_repeated_is_held_once() {
    let mut decoder = Decoder::new();
    let reasoning = |kind: &str| json!({"type": kind, "messageId": "r"});
    decoder.handle_event(event(reasoning("REASONING_START"))).unwrap();
    decoder
        .handle_event(event(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "hm"})))
        .unwrap();
    for _ in 0..100 {
        decoder.handle_event(event(reasoning("REASONING_MESSAGE_END"))).unwrap();
    }
    assert_eq!(decoder.lanes.find(None).unwrap().held.len(), 1);
}
