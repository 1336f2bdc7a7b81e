//! One stored event in every protocol, and the rule by which the stream machine emitted it.
//!
//! The forms use default settings. The list of events on the page shows the configured form (sub-agents inline,
//! intermediate text hidden), which the frontend of the agent receives.

use aqueduct_core::event::EndReason;
use aqueduct_core::service::{Caller, RefusalKind, RunService as _, ServiceError};
use aqueduct_core::{BlockEvent, Channel, RunId, SpanKind};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::ToDialect;
use crate::convert::form_of;
use crate::service::Gateway;

/// The query of `GET /inspector/runs/{run}/forms`.
#[derive(Debug, Deserialize)]
pub(super) struct FormsQuery {
    /// The number of the event, from 1; 0 counts as 1.
    #[serde(default = "first")]
    number: u64,
}

/// The default of `number`: the start of the run.
fn first() -> u64 {
    1
}

/// Returns the forms of one event of a run, if the caller may watch the run.
///
/// Converters keep no state, so the start of the run and the event suffice, and the cost does not depend on the length
/// of the run.
///
/// ```text
/// {"number":7,"canonical":[…],"agui":[…],"agui-0.0.59":[…],"a2a":[…],"rule":{"name":"lazy start","why":"…"}}
/// ```
///
/// # Errors
///
/// Returns a refusal if the caller may not watch the run, and `NotFound` if the run has no event of that number or the
/// log does not keep it any more.
pub(super) async fn of(
    gateway: &Gateway,
    caller: &Caller,
    run: &RunId,
    query: &FormsQuery,
) -> Result<Value, ServiceError> {
    let service = gateway.runs();
    // The watch checks whether the caller may access the run.
    let mut start = service.watch(caller, run, 0).await?;
    // Checked before the event is read: a watch beyond the head of an open run would wait for the event.
    let number = query.number.max(1);
    let head = service.find_run(caller, run).await?.head;
    if number > head {
        let message = format!("run {run} has {head} events: there is no event {number}");
        return Err(ServiceError::new(RefusalKind::NotFound, message));
    }
    let started = start.next().await;
    let event = if number == 1 {
        started.clone()
    } else {
        service.watch(caller, run, number.saturating_sub(1)).await?.next().await
    };
    let (Some(started), Some(event)) = (started, event) else {
        let message = format!("event {number} of run {run} is no longer kept");
        return Err(ServiceError::new(RefusalKind::NotFound, message));
    };
    let form = |to| form_of(to, &started.event, &event.event);
    let (rule, why) = rule(&event.event);
    Ok(json!({
        "number": event.number, "canonical": form(ToDialect::Blocks), "agui": form(ToDialect::Agui),
        "agui-0.0.59": form(ToDialect::Agui0059), "a2a": form(ToDialect::A2a), "rule": { "name": rule, "why": why },
    }))
}

/// Returns the rule that emitted an event: its name in the documentation of the stream machine, and its effect here.
///
/// Derived from the event alone, as a converter would: start and end of a block carry the reason.
fn rule(event: &BlockEvent) -> (&'static str, String) {
    match event {
        BlockEvent::BlockStarted(block) => {
            let why = match (&block.replaces, &block.continues, block.kind) {
                (Some(old), _, _) => return ("replace", format!("the source sent another text for block {old}: the old block ended as replaced")),
                (_, Some(old), _) => return ("re-open", format!("more content for block {old}, which an interruption had ended: a new block with an id of its own")),
                (_, _, SpanKind::ToolUse) => "a tool use opens when its name is known; it closes open texts and thinkings of its track, never another call",
                (_, _, SpanKind::Text) if block.channel == Channel::Intermediate => "work on the way to the answer (channel intermediate) opened at its first content; it closes the open text or thinking of its track",
                (_, _, SpanKind::Text) => "a text opens at its first non-empty content; it closes the open text or thinking of its track",
                (_, _, SpanKind::Thinking) => "a thinking opens at its first non-empty content; it closes the open text or thinking of its track",
            };
            ("lazy start", why.to_owned())
        }
        BlockEvent::BlockDelta { .. } => ("content", "what the block did not have yet: an append as it came, of a snapshot only what was missing".to_owned()),
        BlockEvent::ThinkingEncrypted { .. } => ("content", "the sealed form of an open thinking, passed on unread".to_owned()),
        BlockEvent::BlockEnded { reason, block } => {
            let why = match (reason, block.kind) {
                (EndReason::Complete, SpanKind::ToolUse) => "the arguments are complete, or the result came: the end is emitted before the result",
                (EndReason::Complete, _) => "the source marked the block's last packet",
                (EndReason::Interrupted, _) => "another block of the same track began, which closes this one",
                (EndReason::Closed, _) => "its lane or the run ended: the held end was flushed, in the order of opening",
                (EndReason::Replaced, _) => "the block that starts next has its text instead",
                _ => "the block ended",
            };
            ("deferred end", why.to_owned())
        }
        BlockEvent::ToolResult(_) => ("tool result", "its call ended before; a result without a call gets start and end filled in first".to_owned()),
        BlockEvent::Custom(_) => ("custom", "content without a kind of its own; it closes nothing".to_owned()),
        BlockEvent::LaneOpened(_) => ("lane", "the first sign of this invocation of a sub-agent; lanes do not interrupt each other".to_owned()),
        BlockEvent::LaneClosed { .. } => ("lane", "its blocks and sub-agents ended before, children before parents; the outcome is told as the agent told it".to_owned()),
        BlockEvent::StepStarted { .. } | BlockEvent::StepFinished { .. } => ("step", "a named phase of the lane; open ones end with their lane".to_owned()),
        BlockEvent::StateSnapshot { .. } | BlockEvent::StateDelta { .. } => ("state", "the shared state as the source sent it".to_owned()),
        BlockEvent::Usage { .. } => ("usage", "tokens as reported now; protocols show the sum with the terminal event".to_owned()),
        BlockEvent::InterruptRequested(_) => ("interrupt", "a question to a human; all open ones are in the terminal event again".to_owned()),
        BlockEvent::RunStarted(_) => ("run", "the first event of every run".to_owned()),
        BlockEvent::RunFinished(_) => ("end of run", "all held ends, then this event, then nothing".to_owned()),
        BlockEvent::RunFailed(_) => ("end of run", "the source failed, or ended without saying so: all held ends, then this event".to_owned()),
        _ => ("event", "an event of the stream machine".to_owned()),
    }
}
