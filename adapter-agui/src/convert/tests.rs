//! What each kind of event looks like, by dialect and setting; and: nothing that comes out breaks a rule.

use aqueduct_core::block::ToolOutput;
use aqueduct_core::testing::{arb_ending, arb_source_events, run_to_end};
use aqueduct_core::{
    ContentBlock, IntermediateView, Interrupt, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent,
    ToolCallId, Update, Usage, wellknown,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::converters;
use crate::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use crate::verify::{Level, verify};
use crate::wire::Event;

fn new() -> Settings {
    Settings::new(Dialect::V1_0)
}

fn old() -> Settings {
    Settings::new(Dialect::V0_0_59)
}

/// Every combination of settings.
fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        for subagents in [Subagents::Attributed, Subagents::Inline, Subagents::Hidden] {
            for view in [IntermediateView::Reasoning, IntermediateView::Text, IntermediateView::Hidden] {
                for interrupts in [Interrupts::Interrupt, Interrupts::Text] {
                    let settings = Settings::new(dialect).with_subagents(subagents);
                    all.push(settings.with_intermediate(view).with_interrupts(interrupts));
                }
            }
        }
    }
    all
}

fn converted(settings: Settings, events: Vec<SourceEvent>) -> Vec<Event> {
    let set = converters(&settings);
    let mut out = Vec::new();
    for event in run_to_end(events) {
        set.convert(&event, &mut out);
    }
    let violations = verify(&out, settings.dialect, Level::Strict);
    assert!(violations.is_empty(), "{settings:?}\n{violations:#?}\n{}", shown(&out).join("\n"));
    out
}

fn shown(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| serde_json::to_string(event).unwrap()).collect()
}

/// The events between start and end of a run.
fn inner(settings: Settings, events: Vec<SourceEvent>) -> Vec<Value> {
    let mut events = events;
    events.push(success());
    let out = converted(settings, events);
    out[1..out.len() - 1].iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

/// The last events of a run.
fn ending(settings: Settings, events: Vec<SourceEvent>) -> Vec<Value> {
    let out = converted(settings, events);
    out[1..].iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn success() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

fn update(block: ContentBlock) -> SourceEvent {
    Update::new(block).into()
}

fn researcher() -> Source {
    Source::root().child("k").named("researcher").described("looks things up")
}

fn by(source: &Source, block: ContentBlock) -> SourceEvent {
    Update::new(block).from_source(source).into()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn a_text() {
    let events =
        inner(new(), vec![Update::text("Hi").in_message("m").at(7).into(), update(ContentBlock::text("!"))]);
    assert_eq!(
        events[0],
        json!({"type": "TEXT_MESSAGE_START", "timestamp": 7, "messageId": "run/2", "role": "assistant"})
    );
    assert_eq!(events[1], json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "run/2", "delta": "Hi"}));
    assert_eq!(events[2], json!({"type": "TEXT_MESSAGE_END", "messageId": "run/2"}));
}

#[test]
fn a_delta_is_shared_not_copied() {
    let words = aqueduct_core::ByteString::from("Hello");
    let out = converted(new(), vec![Update::text(words.clone()).into(), success()]);
    let Event::TextMessageContent(content) = &out[2] else { panic!("{:?}", out[2]) };
    assert_eq!(content.delta.as_ptr(), words.as_ptr());
}

#[test]
fn a_thought_has_its_span() {
    let sealed = ContentBlock::Thinking(aqueduct_core::block::Thinking {
        text: "".into(),
        encrypted: Some(Box::new("s".into())),
    });
    let events = inner(new(), vec![update(ContentBlock::thinking("hm")), update(sealed)]);
    let expected = [
        json!({"type": "REASONING_START", "messageId": "run/2"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "run/2", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "run/2", "delta": "hm"}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "run/2", "encryptedValue": "s"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "run/2"}),
        json!({"type": "REASONING_END", "messageId": "run/2"}),
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_call_and_its_result() {
    let events = || {
        vec![
            Update::text("Let me see.").in_message("m").last().into(),
            Update::new(ContentBlock::tool_use("c1", "look", "{}")).in_message("m").last().into(),
            update(ContentBlock::tool_result("c1", "found")),
        ]
    };
    let out = inner(new(), events());
    assert_eq!(
        out[3],
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "run/2"})
    );
    assert_eq!(out[4], json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"}));
    assert_eq!(out[5], json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}));
    assert_eq!(
        out[6],
        json!({"type": "TOOL_CALL_RESULT", "messageId": "run/3", "toolCallId": "c1", "content": "found", "role": "tool"})
    );
}

#[test]
fn a_structured_result_is_parts_only_where_they_are_known() {
    let answer = |value: Value| {
        ContentBlock::from(aqueduct_core::block::ToolResult {
            id: Some(ToolCallId::from("c1")),
            name: None,
            output: ToolOutput::Json(value),
            is_error: true,
        })
    };
    let content = |settings: Settings, value: Value| {
        let events = vec![update(ContentBlock::tool_use("c1", "look", "{}")), update(answer(value))];
        inner(settings, events).pop().unwrap()
    };
    let parts =
        json!([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url", "value": "u"}}]);
    let result = content(new(), parts.clone());
    assert_eq!(result["content"], parts);
    assert_eq!(result["metadata"], json!({"aqueduct.isError": true}));
    let silent = old().with_errors(Errors::Error);
    assert_eq!(content(silent, parts.clone())["content"], json!(parts.to_string()));
    for odd in [json!([]), json!([{"type": "smell"}]), json!({"a": 1}), json!([{"type": "text"}])] {
        assert_eq!(content(new(), odd.clone())["content"], json!(odd.to_string()));
    }
}

#[test]
fn intermediate_text_by_view() {
    let events = || vec![Update::text("plan").intermediate().into(), update(ContentBlock::text("answer"))];
    let seen = |view| {
        let events = inner(new().with_intermediate(view), events());
        types(&events).join(" ")
    };
    let answer = "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END";
    assert_eq!(seen(IntermediateView::Text), format!("{answer} {answer}"));
    assert_eq!(seen(IntermediateView::Hidden), answer);
    let reasoning = "REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_END";
    assert_eq!(seen(IntermediateView::Reasoning), format!("{reasoning} {answer}"));
}

#[test]
fn custom_blocks_by_name() {
    let one = |settings: Settings, name: &str, value: Value| {
        let block = ContentBlock::custom(name, value);
        inner(settings, vec![Update::new(block).in_message("card").into()]).remove(0)
    };
    let card = json!({"type": "plan", "content": {"a": 1}, "replace": false});
    assert_eq!(
        one(new(), wellknown::ACTIVITY, card),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "run/2",
        "activityType": "plan", "content": {"a": 1}, "replace": false})
    );
    let raw = json!({"event": null, "source": "a2a"});
    assert_eq!(one(new(), wellknown::RAW, raw), json!({"type": "RAW", "event": null, "source": "a2a"}));
    let history = json!([{"id": "u", "role": "user", "content": "x"}]);
    assert_eq!(
        one(new(), wellknown::MESSAGES, history.clone()),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": history})
    );
    assert_eq!(one(new(), "chart", json!([1])), json!({"type": "CUSTOM", "name": "chart", "value": [1]}));
    // What a client would choke on stays a custom event.
    for (name, value) in [
        (wellknown::ACTIVITY, json!({"type": "plan", "content": "text"})),
        (wellknown::ACTIVITY_DELTA, json!({"type": "plan", "patch": [{"op": "add", "path": "a"}]})),
        (wellknown::MESSAGES, json!([{"id": "u", "role": "oracle"}])),
        (wellknown::RAW, json!("text")),
    ] {
        assert_eq!(one(new(), name, value.clone()), json!({"type": "CUSTOM", "name": name, "value": value}));
    }
}

#[test]
fn a_card_keeps_its_id_over_its_changes() {
    let card = ContentBlock::custom(wellknown::ACTIVITY, json!({"type": "t", "content": {}}));
    let patch = json!({"type": "t", "patch": [{"op": "add", "path": "/a", "value": 1}]});
    let change = ContentBlock::custom(wellknown::ACTIVITY_DELTA, patch);
    let events = inner(
        new(),
        vec![Update::new(card).in_message("x").into(), Update::new(change).in_message("x").into()],
    );
    assert_eq!(types(&events), ["ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"]);
    assert_eq!(events[0]["messageId"], events[1]["messageId"]);
}

#[test]
fn restated_messages_in_the_words_of_the_dialect() {
    let history = |part: Value| {
        json!([
            {"id": "t", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]},
            {"id": "u", "role": "user", "content": [part]},
        ])
    };
    let one = |settings: Settings, value: Value| {
        inner(settings, vec![update(ContentBlock::custom(wellknown::MESSAGES, value))]).remove(0)
    };
    let text = history(json!({"type": "text", "text": "y"}));
    assert_eq!(one(new(), text.clone())["messages"], text);
    let told = one(old(), text);
    assert_eq!(told["messages"][0]["content"], json!(r#"[{"type":"text","text":"x"}]"#));
    let file = history(json!({"type": "image", "source": {"type": "file", "value": "f"}}));
    assert_eq!(one(new(), file.clone())["type"], "MESSAGES_SNAPSHOT");
    assert_eq!(one(old(), file)["type"], "CUSTOM");
}

#[test]
fn only_the_root_restates_the_conversation() {
    let block = ContentBlock::custom(wellknown::MESSAGES, json!([]));
    let events = inner(new(), vec![by(&researcher(), block)]);
    assert_eq!(events[1]["type"], "CUSTOM");
}

fn delegation() -> Vec<SourceEvent> {
    let (sub, deep) = (researcher(), researcher().child("deep"));
    vec![
        update(ContentBlock::tool_use("c1", "delegate", "{}")),
        SourceEvent::LaneOpened(sub.clone().called_by(ToolCallId::from("c1"))),
        SourceEvent::StepStarted { source: sub.clone(), name: "researcher".into() },
        by(&sub, ContentBlock::text("found")),
        by(&deep, ContentBlock::thinking("hm")),
        SourceEvent::LaneClosed { source: sub, outcome: LaneOutcome::Failed(RunFailure::new("e", "broke")) },
    ]
}

#[test]
fn sub_agents_attributed() {
    let events = inner(new(), delegation());
    assert_eq!(
        events[2],
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "run/2", "name": "researcher",
        "description": "looks things up", "parentToolCallId": "c1"})
    );
    assert_eq!(
        events[3],
        json!({"type": "STEP_STARTED", "stepName": "researcher", "subagentRunId": "run/2"})
    );
    assert_eq!(events[4]["name"], "researcher");
    assert_eq!(
        events[6],
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "run/4", "name": "deep", "parentSubagentRunId": "run/2"})
    );
    let errors: Vec<_> = events.iter().filter(|event| event["type"] == "SUBAGENT_ERROR").collect();
    assert_eq!(
        *errors[1],
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "run/2", "message": "broke", "code": "e"})
    );
}

#[test]
fn sub_agents_inline() {
    let events = inner(old().with_subagents(Subagents::Inline), delegation());
    assert!(events.iter().all(|event| !event["type"].as_str().unwrap().starts_with("SUBAGENT")));
    assert_eq!(
        events[2],
        json!({"type": "STEP_STARTED", "stepName": "researcher", "subagentRunId": "run/2"})
    );
    assert_eq!(
        events[3],
        json!({"type": "STEP_STARTED", "stepName": "researcher/researcher", "subagentRunId": "run/2"})
    );
    assert_eq!(events[4]["name"], "researcher");
    let notice = events.iter().rfind(|event| event["type"] == "CUSTOM").unwrap();
    assert_eq!(notice["value"], json!({"text": "broke", "level": "error", "code": "e"}));
    let last_step = events.iter().rfind(|event| event["type"] == "STEP_FINISHED").unwrap();
    assert_eq!(
        *last_step,
        json!({"type": "STEP_FINISHED", "metadata": {"aqueduct.outcome": "failed"},
        "stepName": "researcher", "subagentRunId": "run/2"})
    );
}

#[test]
fn sub_agents_hidden() {
    let events = inner(new().with_subagents(Subagents::Hidden), delegation());
    // Of the sub-agent only its answer is shown, as part of the run.
    let shown = [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_END",
    ];
    assert_eq!(types(&events), shown);
    assert!(events.iter().all(|event| event.get("subagentRunId").is_none()));
    let draft = Update::text("draft").from_source(&Source::root().child("sub")).intermediate();
    assert!(inner(new().with_subagents(Subagents::Hidden), vec![draft.into()]).is_empty());
}

#[test]
fn a_patch_that_is_none_is_shown_raw() {
    let delta = |patch: Value| SourceEvent::StateDelta { source: Source::root(), patch: vec![patch] };
    let events = inner(
        new(),
        vec![delta(json!({"op": "add", "path": "/a", "value": 1})), delta(json!({"op": "jump"}))],
    );
    assert_eq!(events[0], json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]}));
    assert_eq!(
        events[1],
        json!({"type": "RAW", "event": {"stateDelta": [{"op": "jump"}]}, "source": "aqueduct"})
    );
}

fn question() -> Vec<SourceEvent> {
    let mut interrupt = Interrupt::new("i1", "input_required");
    interrupt.message = Some("Which one?".into());
    interrupt.response_schema = Some(json!({"type": "object"}));
    interrupt.tool_call_id = Some(ToolCallId::from("c1"));
    vec![
        by(&researcher(), ContentBlock::tool_use("c1", "ask", "{}")),
        SourceEvent::InterruptRequested { source: researcher(), interrupt: Box::new(interrupt) },
        SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
    ]
}

#[test]
fn a_question_as_an_interrupt() {
    let last = ending(new(), question()).pop().unwrap();
    assert_eq!(
        last["outcome"],
        json!({"type": "interrupt", "interrupts": [{"id": "i1", "reason": "input_required",
        "message": "Which one?", "toolCallId": "c1", "responseSchema": {"type": "object"}, "subagentRunId": "run/2"}]})
    );
    let hidden = ending(new().with_subagents(Subagents::Hidden), question()).pop().unwrap();
    assert_eq!(
        hidden["outcome"]["interrupts"][0],
        json!({"id": "i1", "reason": "input_required",
        "message": "Which one?", "responseSchema": {"type": "object"}})
    );
}

#[test]
fn a_question_as_a_text() {
    for settings in [old(), new().with_interrupts(Interrupts::Text)] {
        let events = ending(settings, question());
        let at = events.len() - 4;
        assert_eq!(events[at]["messageId"], "interrupt/i1");
        assert_eq!(
            events[at + 1],
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "interrupt/i1", "delta": "Which one?"})
        );
        let outcome = &events[at + 3]["outcome"];
        assert!(outcome.is_null() || outcome["type"] == "success", "{outcome}");
    }
}

#[test]
fn endings() {
    let usage =
        Usage { model: Some("m".into()), input: Some(1), cache_write_input: Some(2), ..Usage::default() };
    let spent = || SourceEvent::Usage { source: Source::root(), usage: Box::new(usage.clone()) };
    let cancelled = || vec![spent(), SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }];
    assert_eq!(
        ending(new(), cancelled()),
        [json!({"type": "RUN_FINISHED", "threadId": "thread", "runId": "run",
        "outcome": {"type": "cancelled"}, "usage": [{"model": "m", "inputTokens": 1, "cacheWriteInputTokens": 2}]})]
    );
    assert_eq!(
        ending(old(), cancelled()),
        [json!({"type": "RUN_ERROR", "code": "cancelled",
        "message": "the run was cancelled", "usage": [{"model": "m", "inputTokens": 1}]})]
    );
    let failure = || RunFailure::new("agent_failed", "it broke");
    let failed = || vec![SourceEvent::Failed(failure())];
    let error = json!({"type": "RUN_ERROR", "code": "agent_failed", "message": "it broke"});
    assert_eq!(ending(new(), failed()), std::slice::from_ref(&error));
    let shown = ending(old(), failed());
    assert_eq!((&shown[1]["delta"], &shown[3]), (&json!("it broke"), &error));
    let pending = || vec![update(ContentBlock::tool_use("c1", "ask", "{}")), success()];
    let last = ending(new(), pending()).pop().unwrap();
    assert_eq!(last["outcome"], json!({"type": "success", "pendingToolCallIds": ["c1"]}));
    assert!(ending(old(), pending()).pop().unwrap().get("outcome").is_none());
    let valued = SourceEvent::Finished { outcome: RunOutcome::Success, result: Some(json!({"a": 1})) };
    assert_eq!(ending(old(), vec![valued])[0]["result"], json!({"a": 1}));
}

#[test]
fn the_start_declares_a_version_only_to_who_did() {
    let first = |settings| serde_json::to_value(&converted(settings, vec![success()])[0]).unwrap();
    assert_eq!(
        first(new()),
        json!({"type": "RUN_STARTED", "threadId": "thread", "runId": "run", "protocolVersion": "1.0"})
    );
    assert_eq!(first(old()), json!({"type": "RUN_STARTED", "threadId": "thread", "runId": "run"}));
}

#[test]
fn a_converter_can_be_replaced() {
    use aqueduct_core::{BlockEvent, EventKind};
    let set = converters(&new()).with(EventKind::Run, |_: &BlockEvent, _: &mut Vec<Event>| {});
    let mut out = Vec::new();
    for event in run_to_end([success()]) {
        set.convert(&event, &mut out);
    }
    assert!(out.is_empty());
}

/// Custom blocks with well-known names, right and wrong, among arbitrary events.
fn arb_events() -> impl Strategy<Value = Vec<SourceEvent>> {
    let names = prop::sample::select(vec![
        (wellknown::ACTIVITY, json!({"type": "t", "content": {"a": 1}})),
        (wellknown::ACTIVITY, json!({"type": 1})),
        (wellknown::RAW, json!({"event": {"x": 1}})),
        (wellknown::FILE, json!({"url": "u"})),
        (wellknown::NOTICE, json!({"text": "n"})),
    ]);
    let custom = (names, "[ab]").prop_map(|((name, value), id)| {
        SourceEvent::from(Update::new(ContentBlock::custom(name, value)).in_message(id))
    });
    (arb_source_events(60), prop::collection::vec(custom, 0..4), arb_ending()).prop_map(
        |(mut events, customs, ending)| {
            for (at, custom) in customs.into_iter().enumerate() {
                events.insert((at * 7) % (events.len() + 1), custom);
            }
            events.extend(ending);
            events
        },
    )
}

proptest! {
    #[test]
    fn whatever_comes_no_rule_is_broken(events in arb_events(), settings in prop::sample::select(all_settings())) {
        converted(settings, events);
    }
}
