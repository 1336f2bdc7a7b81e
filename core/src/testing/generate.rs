//! Arbitrary source events for property tests: few ids and short texts, so that the rules collide often.

use bytestring::ByteString;
use proptest::prelude::*;
use serde_json::json;

use crate::block::{ContentBlock, Thinking, ToolOutput, ToolResult, ToolUse};
use crate::id::ToolCallId;
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome, Usage};
use crate::source::Source;
use crate::update::{Channel, Mode, SourceEvent, Update};

/// Up to `len` source events over a few nested lanes, without an end of the run.
pub fn arb_source_events(len: usize) -> impl Strategy<Value = Vec<SourceEvent>> {
    prop::collection::vec(arb_source_event(), 0..len)
}

/// The ways a run can end; `None` is a source that stops without reporting the end.
pub fn arb_ending() -> impl Strategy<Value = Option<SourceEvent>> {
    prop_oneof![
        3 => Just(Some(SourceEvent::Finished { outcome: RunOutcome::Success, result: None })),
        1 => Just(Some(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None })),
        1 => Just(Some(SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: Some(json!(1)) })),
        1 => Just(Some(SourceEvent::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "it broke")))),
        1 => Just(None),
    ]
}

fn arb_source_event() -> impl Strategy<Value = SourceEvent> {
    prop_oneof![
        20 => arb_update().prop_map(SourceEvent::Update),
        1 => arb_source().prop_map(SourceEvent::LaneOpened),
        2 => (arb_source(), arb_outcome())
            .prop_map(|(source, outcome)| SourceEvent::LaneClosed { source, outcome }),
        1 => (arb_source(), "[ab]").prop_map(|(source, name)| SourceEvent::StepStarted { source, name: name.into() }),
        1 => (arb_source(), "[ab]").prop_map(|(source, name)| SourceEvent::StepFinished { source, name: name.into() }),
        1 => arb_source().prop_map(|source| SourceEvent::StateSnapshot { source, state: json!({"n": 1}) }),
        1 => arb_source().prop_map(|source| SourceEvent::StateDelta {
            source,
            patch: vec![json!({"op": "add", "path": "/x", "value": 1})],
        }),
        1 => arb_source().prop_map(|source| SourceEvent::Usage {
            source,
            usage: Box::new(Usage { input: Some(3), ..Usage::default() }),
        }),
        1 => (arb_source(), "i[12]").prop_map(|(source, id)| SourceEvent::InterruptRequested {
            source,
            interrupt: Box::new(Interrupt::new(id, "input_required")),
        }),
    ]
}

fn arb_source() -> impl Strategy<Value = Source> {
    let sources = || {
        let research = Source::root().child("research");
        [
            Source::root(),
            research.child("search").called_by(ToolCallId::from("c1")),
            research,
            Source::root().child("write").named("The writer"),
        ]
    };
    prop::sample::select(sources().to_vec())
}

fn arb_outcome() -> impl Strategy<Value = LaneOutcome> {
    prop_oneof![
        Just(LaneOutcome::Success(None)),
        Just(LaneOutcome::Success(Some(json!("done")))),
        Just(LaneOutcome::Cancelled),
        Just(LaneOutcome::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "lane broke"))),
    ]
}

fn arb_update() -> impl Strategy<Value = Update> {
    let modes = prop_oneof![6 => Just(Mode::Append), 1 => Just(Mode::Snapshot), 1 => Just(Mode::Replace)];
    let channels = prop_oneof![3 => Just(Channel::Answer), 1 => Just(Channel::Intermediate)];
    let tracks = prop_oneof![4 => Just(""), 1 => Just("x"), 1 => Just("y")];
    let messages = prop_oneof![1 => Just(None), 3 => "m[123]".prop_map(Some)];
    (arb_source(), arb_block(), modes, channels, tracks, messages, prop::bool::weighted(0.15)).prop_map(
        |(source, block, mode, channel, track, message, last)| {
            let mut update = Update::new(block).from_source(&source).on_track(track);
            update.mode = mode;
            update.channel = channel;
            update.last = last;
            // A whole text without id is rare in practice, and ends the audit of its lane.
            match message {
                None if mode != Mode::Append && !last => update.in_message("m1"),
                None => update,
                Some(id) => update.in_message(id),
            }
        },
    )
}

fn arb_block() -> impl Strategy<Value = ContentBlock> {
    let text = || prop_oneof![8 => "[a-c]{1,3}", 1 => Just(String::new()), 1 => Just(" \n".to_owned())];
    let call = || prop_oneof![6 => "c[123]".prop_map(Some), 2 => Just(None), 1 => Just(Some(String::new()))];
    let name = || prop_oneof![2 => Just(Some(ByteString::from_static("look"))), 1 => Just(None)];
    prop_oneof![
        6 => text().prop_map(ContentBlock::text),
        3 => text().prop_map(ContentBlock::thinking),
        1 => Just(ContentBlock::Thinking(Thinking { text: "".into(), encrypted: Some(Box::new("seal".into())) })),
        3 => (call(), name(), "[{}1 ]{0,3}").prop_map(|(id, name, arguments)| ContentBlock::from(ToolUse {
            id: id.map(ToolCallId::from),
            name,
            arguments: arguments.into(),
        })),
        3 => (call(), name(), arb_output(), any::<bool>()).prop_map(|(id, name, output, is_error)| {
            ContentBlock::from(ToolResult { id: id.map(ToolCallId::from), name, output, is_error })
        }),
        1 => Just(ContentBlock::custom("chart", json!({"bars": [1, 2]}))),
    ]
}

fn arb_output() -> impl Strategy<Value = ToolOutput> {
    prop_oneof![
        3 => "[xy]{0,2}".prop_map(|text| ToolOutput::Text(text.into())),
        1 => Just(ToolOutput::Json(json!({"ok": true}))),
        1 => Just(ToolOutput::Progress("half".into())),
    ]
}
