//! Tests of the views with state.

use aqueduct_core::testing::{run_to_end, scenarios};
use aqueduct_core::{ContentBlock, LaneOutcome, RunFailure, RunOutcome, Source, SourceEvent, Update};

use super::*;
use crate::config::{Dialect, Settings, Subagents};
use crate::convert::META_IS_ERROR;
use crate::verify::{Level, verify};
use crate::wire::Content;

fn viewed(events: Vec<SourceEvent>, dialect: Dialect) -> Vec<Event> {
    shown(events, dialect, Subagents::Tool)
}

fn shown(events: Vec<SourceEvent>, dialect: Dialect, subagents: Subagents) -> Vec<Event> {
    let mut view = View::new(&Settings::new(dialect).with_subagents(subagents));
    let mut out = Vec::new();
    for event in &run_to_end(events) {
        view.convert(event, &mut out);
    }
    out
}

fn agent() -> Source {
    Source::root().child("a").named("researcher").described("Find it.")
}

fn of_agent(block: ContentBlock, message: &str) -> SourceEvent {
    Update::new(block).from_source(&agent()).in_message(message).into()
}

fn intermediate(text: &str, message: &str) -> SourceEvent {
    let update = Update::text(text).from_source(&agent()).in_message(message);
    Update { channel: aqueduct_core::Channel::Intermediate, ..update }.into()
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::kind).collect()
}

#[test]
fn a_sub_agent_is_a_call_with_its_answer_as_result() {
    let out = viewed(
        vec![
            SourceEvent::LaneOpened(agent()),
            intermediate("Looking.", "m1"),
            intermediate("Found ", "m2"),
            intermediate("it.", "m2"),
            SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
            Update::text("Done.").into(),
            SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        ],
        Dialect::V0_0_59,
    );
    let call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"];
    assert_eq!(kinds(&out)[1..5], call, "{out:#?}");
    assert!(matches!(&out[1], Event::ToolCallStart(start) if start.tool_call_name == "researcher"));
    assert!(matches!(&out[2], Event::ToolCallArgs(args) if args.delta == r#"{"input":"Find it."}"#));
    let Event::ToolCallResult(result) = &out[4] else { panic!() };
    assert_eq!(result.content, Content::Text("Looking.\n\nFound it.".into()));
    assert!(out.iter().all(|event| event.subagent_run_id().is_none()));
}

#[test]
fn a_failure_is_a_failed_result_and_an_answer_is_never_lost() {
    let failed = LaneOutcome::Failed(RunFailure::new("e", "no way"));
    let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
    let lane = |outcome| {
        let text = of_agent(ContentBlock::text("Found it."), "m");
        vec![text, SourceEvent::LaneClosed { source: agent(), outcome }, end.clone()]
    };
    let out = viewed(lane(failed), Dialect::V1_0);
    let result = out.iter().find_map(|event| match event {
        Event::ToolCallResult(result) => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!(result.content, Content::Text("Found it.\n\nno way".into()));
    assert_eq!(result.base.metadata().unwrap()[META_IS_ERROR], true);
    // What a sub-agent says as the run's answer is shown as it comes, behind its name.
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        let out = viewed(lane(LaneOutcome::Success(None)), dialect);
        let said = if dialect == Dialect::V1_0 { "Found it." } else { "**researcher:** Found it." };
        assert_eq!((texts(&out).concat(), results(&out)), (said.to_owned(), vec!["Found it.".to_owned()]));
    }
}

#[test]
fn the_work_of_a_sub_agent_is_shown_under_its_name() {
    let checker = agent().child("b").named("checker");
    let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
    let out = viewed(
        vec![
            of_agent(ContentBlock::thinking("hm"), "t"),
            of_agent(ContentBlock::tool_use("c", "search", "{}"), "c"),
            of_agent(ContentBlock::tool_result("c", "42"), "r"),
            Update::text("Right.").from_source(&checker).into(),
            SourceEvent::LaneClosed { source: checker, outcome: LaneOutcome::Success(None) },
            SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Suspended },
            Update::text("Done.").into(),
            end,
        ],
        Dialect::V0_0_59,
    );
    let names = out.iter().filter_map(|event| match event {
        Event::ToolCallStart(start) => Some(&*start.tool_call_name),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), ["researcher", "researcher › search", "researcher › checker"]);
    let thought = out.iter().filter_map(|event| match event {
        Event::ReasoningMessageContent(said) => Some(&*said.delta),
        _ => None,
    });
    assert_eq!(thought.collect::<String>(), "researcher: hm");
    assert_eq!(results(&out), ["42", "Right.", "waits for a reply"]);
    assert!(out.iter().all(|event| event.subagent_run_id().is_none()));
}

#[test]
fn failures_are_written_as_texts_where_the_settings_say_so() {
    let failed = LaneOutcome::Failed(RunFailure::new("e", "no way"));
    let mut refused = ContentBlock::tool_result("c", "refused");
    if let ContentBlock::ToolResult(result) = &mut refused {
        result.is_error = true;
    }
    let events = vec![
        of_agent(ContentBlock::tool_use("c", "fetch", "{}"), "c"),
        of_agent(refused, "r"),
        intermediate("I began.", "m"),
        SourceEvent::LaneClosed { source: agent(), outcome: failed },
        SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
    ];
    let told = |dialect| {
        let out = viewed(events.clone(), dialect);
        assert_eq!(results(&out), ["refused", "I began.\n\nno way"]);
        texts(&out)
    };
    assert_eq!(told(Dialect::V1_0), Vec::<String>::new());
    let both = ["⚠ researcher › fetch failed: refused", "⚠ researcher failed: no way"];
    assert_eq!(told(Dialect::V0_0_59), both);
}

/// A client that was cut has seen the call begin: it must see it end as if it had not been cut.
#[test]
fn a_reader_that_begins_in_the_middle_sees_the_same_end() {
    let events = run_to_end(vec![
        intermediate("Found ", "m"),
        intermediate("it.", "m"),
        SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
        SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
    ]);
    for cut in 0..events.len() {
        let mut view = View::new(&Settings::new(Dialect::V0_0_59));
        let mut out = Vec::new();
        let (seen, rest) = events.split_at(cut);
        for event in seen {
            view.skip(event);
        }
        for event in rest {
            view.convert(event, &mut out);
        }
        let is_closed = seen.iter().any(|event| matches!(event, BlockEvent::LaneClosed { .. }));
        let expected: &[&str] = if is_closed { &[] } else { &["Found it."] };
        assert_eq!(results(&out), expected, "cut before {cut}");
    }
}

fn texts(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::TextMessageContent(said) => Some(said.delta.to_string()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

fn results(events: &[Event]) -> Vec<String> {
    let result = |event: &Event| match event {
        Event::ToolCallResult(result) => match &result.content {
            Content::Text(text) => Some(text.to_string()),
            Content::Parts(_) => None,
        },
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

#[test]
fn every_scenario_is_a_stream_that_clients_take() {
    for (name, events) in scenarios() {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            for subagents in [Subagents::Tool, Subagents::Hidden] {
                let found = verify(&shown(events.clone(), dialect, subagents), dialect, Level::Strict);
                assert!(found.is_empty(), "{name}, {subagents:?}: {found:#?}");
            }
        }
    }
}

/// A sub-agent's text on the answer channel, before, inside and after texts of the root.
fn team(root_text: Option<SourceEvent>, end: SourceEvent) -> Vec<SourceEvent> {
    let mut events = vec![
        of_agent(ContentBlock::text("A "), "m1"),
        of_agent(ContentBlock::text("draft."), "m1"),
        SourceEvent::LaneClosed { source: agent(), outcome: LaneOutcome::Success(None) },
    ];
    events.extend(root_text);
    let writer = Source::root().child("w").named("writer");
    events.push(Update::text("More.").from_source(&writer).in_message("m2").into());
    events.push(end);
    events
}

fn succeeded() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

#[test]
fn a_hidden_sub_agent_answers_only_where_the_root_does_not() {
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        let said = |root_text| {
            let out = shown(team(root_text, succeeded()), dialect, Subagents::Hidden);
            assert!(matches!(out.last(), Some(Event::RunFinished(_))), "{out:#?}");
            texts(&out)
        };
        assert_eq!(said(Some(Update::text("The answer.").into())), ["The answer."]);
        assert_eq!(said(None), ["A ", "draft.", "More."]);
        let work = Update::text("Working.").intermediate();
        assert_eq!(said(Some(work.into())), ["A ", "draft.", "More."]);
    }
}

#[test]
fn held_answers_are_sent_before_a_failure_and_beyond_the_bound() {
    let failed = SourceEvent::Failed(RunFailure::new("e", "no way"));
    let out = shown(team(None, failed), Dialect::V1_0, Subagents::Hidden);
    assert_eq!(texts(&out), ["A ", "draft.", "More."]);
    assert!(matches!(out.last(), Some(Event::RunError(_))), "{out:#?}");

    let long = "x".repeat(MAX_HELD + 1);
    let events = run_to_end(vec![of_agent(ContentBlock::text(long.as_str()), "m")]);
    let mut view = View::new(&Settings::new(Dialect::V1_0).with_subagents(Subagents::Hidden));
    let mut out = Vec::new();
    for event in events.iter().take_while(|event| !matches!(event, BlockEvent::BlockEnded { .. })) {
        view.convert(event, &mut out);
    }
    assert_eq!(texts(&out).concat().len(), long.len(), "streamed before the run ends");
}

#[test]
fn a_reader_that_begins_in_the_middle_gets_the_same_hidden_answers() {
    for root_text in [None, Some(SourceEvent::from(Update::text("The answer.")))] {
        let events = run_to_end(team(root_text, succeeded()));
        let settings = Settings::new(Dialect::V1_0).with_subagents(Subagents::Hidden);
        for cut in 0..events.len() {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            let (mut one, mut other) = (View::new(&settings), View::new(&settings));
            let (seen, rest) = events.split_at(cut);
            for event in seen {
                one.convert(event, &mut parts);
            }
            for event in seen {
                other.skip(event);
            }
            for event in rest {
                other.convert(event, &mut parts);
            }
            let mut view = View::new(&settings);
            for event in &events {
                view.convert(event, &mut whole);
            }
            assert_eq!(parts, whole, "cut before {cut}");
        }
    }
}
