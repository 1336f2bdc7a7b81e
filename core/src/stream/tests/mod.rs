//! Tests of the stream machine: each rule of its table by name, the scenarios of the adapter this design started
//! from, limits, and properties.

mod cuts;
mod ids;
mod limits;
mod properties;
mod repeats;
mod restore;
mod rules;
mod scenarios;

use crate::block::{ContentBlock, ToolResult, ToolUse};
use crate::event::{BlockEvent, SpanKind};
use crate::run::RunOutcome;
use crate::testing::{InvariantChecker, audit_content, run_to_end, trace};
use crate::update::{SourceEvent, Update};

/// The events of a run that its source ends well, checked against all invariants.
#[track_caller]
fn run(updates: impl IntoIterator<Item = Update>) -> Vec<BlockEvent> {
    let mut events: Vec<SourceEvent> = updates.into_iter().map(SourceEvent::Update).collect();
    events.push(finished());
    run_events(events)
}

/// The events of a run, checked against all invariants.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tests build the list in place")]
fn run_events(events: Vec<SourceEvent>) -> Vec<BlockEvent> {
    let out = run_to_end(events.clone());
    if let Err(violation) = InvariantChecker::check_all(&out) {
        panic!("{violation}\n{}", trace(&out));
    }
    if let Err(difference) = audit_content(&events, &out) {
        panic!("{difference}\n{}", trace(&out));
    }
    out
}

fn finished() -> SourceEvent {
    SourceEvent::Finished { outcome: RunOutcome::Success, result: None }
}

/// A stream as short codes: `RS`/`RF`/`RE` run started, finished, failed; `T+ T T-` text, `R+ R R-` thinking, `C+ Ca
/// C- Cr` tool call, arguments, end, result; `X` custom; `L+ L-` lane; `S+ S-` step.
fn codes(events: &[BlockEvent]) -> String {
    let code = |event: &BlockEvent| match event {
        BlockEvent::RunStarted(_) => "RS".to_owned(),
        BlockEvent::RunFinished(_) => "RF".to_owned(),
        BlockEvent::RunFailed(_) => "RE".to_owned(),
        BlockEvent::BlockStarted(block) => format!("{}+", letter(block.kind)),
        BlockEvent::BlockDelta { block, .. } if block.kind == SpanKind::ToolUse => "Ca".to_owned(),
        BlockEvent::BlockDelta { block, .. } => letter(block.kind).to_owned(),
        BlockEvent::BlockEnded { block, .. } => format!("{}-", letter(block.kind)),
        BlockEvent::ToolResult(_) => "Cr".to_owned(),
        BlockEvent::Custom(_) => "X".to_owned(),
        BlockEvent::LaneOpened(_) => "L+".to_owned(),
        BlockEvent::LaneClosed { .. } => "L-".to_owned(),
        BlockEvent::StepStarted { .. } => "S+".to_owned(),
        BlockEvent::StepFinished { .. } => "S-".to_owned(),
        other => format!("{other:?}"),
    };
    events.iter().map(code).collect::<Vec<_>>().join(" ")
}

fn letter(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Text => "T",
        SpanKind::Thinking => "R",
        SpanKind::ToolUse => "C",
    }
}

/// All text that left, in order.
fn said(events: &[BlockEvent]) -> String {
    deltas(events, SpanKind::Text).concat()
}

fn deltas(events: &[BlockEvent], kind: SpanKind) -> Vec<String> {
    let delta = |event: &BlockEvent| match event {
        BlockEvent::BlockDelta { block, delta } if block.kind == kind => Some(delta.to_string()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

/// The outgoing ids of the tool calls, in order of their start.
fn call_ids(events: &[BlockEvent]) -> Vec<String> {
    let id = |event: &BlockEvent| match event {
        BlockEvent::BlockStarted(block) if block.kind == SpanKind::ToolUse => Some(block.id.to_string()),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

fn text(message: &str, text: &str) -> Update {
    Update::text(text).in_message(message)
}

fn thinking(message: &str, text: &str) -> Update {
    Update::new(ContentBlock::thinking(text)).in_message(message)
}

fn tool(id: &str, name: &str, arguments: &str) -> Update {
    Update::new(ContentBlock::tool_use(id, name, arguments))
}

fn arguments(id: &str, fragment: &str) -> Update {
    Update::new(ContentBlock::tool_arguments(id, fragment))
}

fn result(id: &str, output: &str) -> Update {
    Update::new(ContentBlock::tool_result(id, output))
}

fn nameless(name: Option<&str>, arguments: &str) -> Update {
    Update::new(ContentBlock::from(ToolUse {
        id: None,
        name: name.map(Into::into),
        arguments: arguments.into(),
    }))
}

fn nameless_result(name: Option<&str>, output: &str) -> Update {
    Update::new(ContentBlock::from(ToolResult {
        id: None,
        name: name.map(Into::into),
        output: crate::block::ToolOutput::Text(output.into()),
        is_error: false,
    }))
}
