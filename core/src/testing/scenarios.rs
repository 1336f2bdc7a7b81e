//! Named inputs that together exercise every rule of the stream machine, for tests that combine every scenario with every
//! protocol, dialect and setting.

use serde_json::json;

use crate::block::{ContentBlock, Thinking, ToolOutput, ToolResult, ToolUse};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome, Usage};
use crate::source::Source;
use crate::update::{Role, SourceEvent, Update};
use crate::wellknown;

/// Returns all scenarios. A scenario ends as its name states, otherwise successfully.
pub fn scenarios() -> Vec<(&'static str, Vec<SourceEvent>)> {
    let mut all = Vec::new();
    all.extend(texts());
    all.extend(tools());
    all.extend(lanes());
    all.extend(lifecycles());
    all
}

fn texts() -> Vec<(&'static str, Vec<SourceEvent>)> {
    let seal = Thinking { text: "Hm".into(), encrypted: Some(Box::new("c2VhbGVk".into())) };
    let awkward = "Quotes \" and \\ and \u{1}, tabs\t, lines\nand\r\n, \u{2028}, ünïcödé, 🌍, </script>";
    vec![
        ("empty", well([])),
        ("text", well([text("m", "Hello"), text("m", " world")])),
        ("text-last-only", well([text("m", "Hello world").snapshot().last()])),
        ("text-aggregate", well([text("m", "Hel"), text("m", "lo"), text("m", "Hello").snapshot().last()])),
        (
            "text-without-ids",
            well([Update::text("Hel"), Update::text("lo"), Update::text("Hello").replace()]),
        ),
        ("text-awkward", well([text("m \"1\"", awkward), text("m \"1\"", "\u{0}\u{7f}")])),
        ("text-white-space", well([text("m", "\n"), text("m", "  Hello\n\n")])),
        ("text-replaced", well([text("m", "Helo"), text("m", "Hello").replace()])),
        ("text-same-id-twice", well([text("m", "One").last(), text("m", "Two").last()])),
        (
            "text-tracks",
            well([
                text("a", "1").on_track("a"),
                text("b", "2").on_track("b"),
                text("a", "3").on_track("a"),
                text("b", "4").on_track("b"),
            ]),
        ),
        ("text-of-a-user", well([Update { role: Role::User, ..text("q", "As you said") }, text("m", "Yes")])),
        ("thinking", well([thinking("m", "Hm"), thinking("m", ", yes"), text("m", "Yes")])),
        (
            "thinking-sealed",
            well([Update::new(ContentBlock::Thinking(seal)).in_message("m"), text("m", "Yes")]),
        ),
        ("intermediate", well([text("d", "draft").intermediate(), text("m", "final")])),
        (
            "intermediate-then-same-answer",
            well([text("m", "x").intermediate(), text("m", "x").snapshot().last()]),
        ),
    ]
}

fn tools() -> Vec<(&'static str, Vec<SourceEvent>)> {
    vec![
        (
            "tool",
            well([
                text("m", "Let me look."),
                call("c", "search", r#"{"q":"#).in_message("m"),
                arguments("c", r#""rust"}"#).last(),
                result("c", "found"),
                text("m", "Here."),
            ]),
        ),
        ("tool-without-result", well([call("c", "pick_colour", "{}").last()])),
        ("tool-without-arguments", well([call("c", "now", ""), result("c", "noon")])),
        ("tool-orphan-result", well([result("c", "from before")])),
        ("tool-error", well([call("c", "t", "{}"), failed_result("c", "boom")])),
        (
            "tool-json-result",
            well([call("c", "t", "{}"), output("c", ToolOutput::Json(json!({"n": [1, 2.5, null]})))]),
        ),
        (
            "tool-parts-result",
            well([
                call("c", "t", "{}"),
                output("c", ToolOutput::Json(json!([{"type": "text", "text": "part"}]))),
            ]),
        ),
        (
            "tool-progress",
            well([
                call("c", "t", "{}"),
                output("c", ToolOutput::Progress("half".into())),
                result("c", "done"),
            ]),
        ),
        (
            "tools-parallel",
            well([
                call("c1", "x", r#"{"a""#),
                call("c2", "y", r#"{"b""#),
                arguments("c1", ":1}"),
                arguments("c2", ":2}"),
                result("c2", "two"),
                result("c1", "one"),
                text("m", "Both."),
            ]),
        ),
        (
            "tools-same-id-twice",
            well([
                call("call_1", "t", "{}").last(),
                result("call_1", "one"),
                call("call_1", "t", "{ \"n\": 2 }").last(),
                result("call_1", "two"),
            ]),
        ),
        (
            "tools-without-ids",
            well([anonymous("t", "{\"a\""), anonymous("", ":1}"), anonymous_result("t", "ok")]),
        ),
        (
            "tool-aggregate-repeats",
            well([
                call("c", "t", "{\"a\": 1}").last(),
                result("c", "r"),
                call("c", "t", "{\"a\":1}").snapshot().last(),
                result("c", "r"),
                text("m", "Done"),
            ]),
        ),
        (
            "tool-arguments-replaced",
            well([call("c", "t", "{\"a\":1}"), call("c", "t", "{\"a\":2}").replace(), result("c", "r")]),
        ),
    ]
}

fn lanes() -> Vec<(&'static str, Vec<SourceEvent>)> {
    let research = Source::root().child("research").named("Researcher").called_by("c".into());
    let deep = research.child("deep");
    let write = Source::root().child("write").named("Writer");
    let nested = vec![
        call("c", "delegate", "{}").last().into(),
        text("m", "Looking").from_source(&research).into(),
        text("w", "Drafting").from_source(&write).into(),
        thinking("d", "Digging").from_source(&deep).into(),
        call("c", "dig", "{}").from_source(&deep).into(),
        text("w", " more").from_source(&write).into(),
        result("c", "gold").from_source(&deep).into(),
        SourceEvent::LaneClosed { source: deep.clone(), outcome: LaneOutcome::Success(Some(json!("gold"))) },
        text("m", " found").from_source(&research).into(),
        SourceEvent::LaneClosed { source: research.clone(), outcome: LaneOutcome::Success(None) },
        result("c", "found gold").into(),
        text("a", "Gold it is.").into(),
    ];
    let broken = RunFailure::new(RunFailure::AGENT_FAILED, "model overloaded");
    vec![
        ("lanes-nested-and-parallel", ended(nested)),
        (
            "lane-fails-run-does-not",
            ended(vec![
                text("m", "Trying").from_source(&write).into(),
                SourceEvent::LaneClosed { source: write.clone(), outcome: LaneOutcome::Failed(broken) },
                text("a", "It failed, but I know.").into(),
            ]),
        ),
        (
            "lane-twice",
            ended(vec![
                text("m", "one").from_source(&write).into(),
                SourceEvent::LaneClosed { source: write.clone(), outcome: LaneOutcome::Cancelled },
                text("m", "two").from_source(&write).last().into(),
            ]),
        ),
        (
            "lane-steps-and-state",
            ended(vec![
                SourceEvent::StepStarted { source: Source::root(), name: "plan".into() },
                SourceEvent::StepStarted { source: write.clone(), name: "plan".into() },
                SourceEvent::StateSnapshot { source: Source::root(), state: json!({"n": 1}) },
                SourceEvent::StateDelta {
                    source: write.clone(),
                    patch: vec![json!({"op": "replace", "path": "/n", "value": 2})],
                },
                SourceEvent::StepFinished { source: Source::root(), name: "plan".into() },
                text("m", "x").from_source(&write).intermediate().into(),
            ]),
        ),
    ]
}

fn lifecycles() -> Vec<(&'static str, Vec<SourceEvent>)> {
    let sub = Source::root().child("sub");
    let mut ask = Interrupt::new("ask-1", "input_required");
    ask.message = Some("Which colour?".into());
    ask.response_schema = Some(json!({"type": "object", "properties": {"colour": {"type": "string"}}}));
    let mut approve = Interrupt::new("ask-2", "tool_call");
    approve.tool_call_id = Some("c".into());
    let spent = Usage { model: Some("m1".into()), input: Some(10), output: Some(5), ..Usage::default() };
    let failure = RunFailure::new(RunFailure::AGENT_FAILED, "the model is on fire");
    let half = || {
        vec![
            text("m", "Half a sen").into(),
            call("c", "t", "{").into(),
            thinking("s", "?").from_source(&sub).into(),
        ]
    };
    let custom = |name: &'static str, value| {
        SourceEvent::from(Update::new(ContentBlock::custom(name, value)).in_message("p"))
    };
    vec![
        (
            "custom",
            ended(vec![
                custom("chart", json!({"bars": [1, 2]})),
                custom(
                    wellknown::FILE,
                    json!({"url": "https://example.com/a.png", "mediaType": "image/png", "name": "a.png"}),
                ),
                custom(wellknown::DATA, json!(null)),
                custom(wellknown::ACTIVITY, json!({"type": "search", "content": {"done": 1}})),
                custom(
                    wellknown::ACTIVITY_DELTA,
                    json!({"type": "search", "patch": [{"op": "replace", "path": "/done", "value": 2}]}),
                ),
                custom(wellknown::NOTICE, json!({"text": "careful", "level": "warning"})),
                custom(wellknown::RAW, json!({"event": {"x": 1}, "source": "elsewhere"})),
            ]),
        ),
        (
            "usage",
            ended(vec![
                text("m", "x").into(),
                SourceEvent::Usage { source: sub.clone(), usage: Box::new(spent) },
            ]),
        ),
        (
            "interrupted",
            vec![
                text("m", "I need to know.").into(),
                SourceEvent::InterruptRequested { source: Source::root(), interrupt: Box::new(ask) },
                SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
            ],
        ),
        (
            "interrupted-in-a-lane",
            vec![
                call("c", "delete", "{}").from_source(&sub).last().into(),
                SourceEvent::InterruptRequested { source: sub.clone(), interrupt: Box::new(approve) },
                SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
            ],
        ),
        (
            "result",
            vec![SourceEvent::Finished { outcome: RunOutcome::Success, result: Some(json!({"n": 1})) }],
        ),
        (
            "cancelled",
            [half(), vec![SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }]].concat(),
        ),
        ("failed", [half(), vec![SourceEvent::Failed(failure)]].concat()),
        ("cut", half()),
    ]
}

fn well<const N: usize>(updates: [Update; N]) -> Vec<SourceEvent> {
    ended(updates.into_iter().map(SourceEvent::Update).collect())
}

fn ended(mut events: Vec<SourceEvent>) -> Vec<SourceEvent> {
    events.push(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
    events
}

fn text(message: &'static str, text: &'static str) -> Update {
    Update::text(text).in_message(message)
}

fn thinking(message: &'static str, text: &'static str) -> Update {
    Update::new(ContentBlock::thinking(text)).in_message(message)
}

fn call(id: &'static str, name: &'static str, arguments: &'static str) -> Update {
    Update::new(ContentBlock::tool_use(id, name, arguments))
}

fn arguments(id: &'static str, fragment: &'static str) -> Update {
    Update::new(ContentBlock::tool_arguments(id, fragment))
}

fn anonymous(name: &'static str, arguments: &'static str) -> Update {
    Update::new(ContentBlock::from(ToolUse {
        id: None,
        name: Some(name.into()),
        arguments: arguments.into(),
    }))
}

fn result(id: &'static str, text: &'static str) -> Update {
    Update::new(ContentBlock::tool_result(id, text))
}

fn failed_result(id: &'static str, text: &'static str) -> Update {
    let output = ToolOutput::Text(text.into());
    Update::new(ContentBlock::from(ToolResult { id: Some(id.into()), output, is_error: true, name: None }))
}

fn output(id: &'static str, output: ToolOutput) -> Update {
    Update::new(ContentBlock::from(ToolResult { id: Some(id.into()), output, is_error: false, name: None }))
}

fn anonymous_result(name: &'static str, text: &'static str) -> Update {
    let output = ToolOutput::Text(text.into());
    Update::new(ContentBlock::from(ToolResult { id: None, name: Some(name.into()), output, is_error: false }))
}
