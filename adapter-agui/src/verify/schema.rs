//! The parts of a typed event that a client of the dialect cannot read.
//!
//! The types of [`wire`](crate::wire) accept more than a client does: unknown members and kinds
//! survive reading, and one type serves both dialects. This module reports the difference, one
//! event at a time and without state. The order of events is checked in `order.rs`, the thread in
//! `thread.rs`.
//!
//! | defect | 1.0 | 0.0.59 |
//! |---|---|---|
//! | unknown event, outcome, message, part, source | dropped by the client (unnoticed) | rejected |
//! | unknown member of an event | dropped (unnoticed) | ignored, not reported |
//! | unknown member of an outcome | dropped (unnoticed) | rejected |
//! | `THINKING_*`, binary parts | retired (unnoticed) | part of the dialect |
//! | outcome `cancelled`, `pendingToolCallIds`, file handles, tool results as parts | part of the dialect | rejected |

use aqueduct_core::Metadata;

use super::rule::{Report, Rule, Severity};
use crate::config::Dialect;
use crate::wire::{
    Content, ContentPart, Event, MediaPart, Message, PartSource, PatchOperation, RunAgentInput, RunFinished,
    RunFinishedOutcome, SubagentFinishedOutcome,
};

/// The retired events of 0.0.x, in which reasoning had no ids.
pub(crate) const THINKING: [&str; 5] = [
    "THINKING_START",
    "THINKING_END",
    "THINKING_TEXT_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END",
];

/// Reports the parts of an event that a client of the dialect rejects or drops. The report already
/// holds the index and type of the event.
pub(super) fn check(event: &Event, dialect: Dialect, report: &mut Report) {
    let old = dialect == Dialect::V0_0_59;
    // Only a 1.0 client removes undeclared members; 0.0.59 passes them on.
    if let Some(extra) = event.base().and_then(|base| base.extra())
        && !old
    {
        report.unnoticed(Rule::UnknownField, format!("unknown members: {}", names(extra)));
    }
    match event {
        Event::Unknown { kind, .. } if THINKING.contains(&&**kind) && old => {}
        Event::Unknown { kind, .. } if THINKING.contains(&&**kind) => {
            report.unnoticed(Rule::RetiredEvent, format!("{kind} is not part of 1.0"));
        }
        Event::Unknown { kind, .. } => {
            report.add(Rule::UnknownEvent, rejected_by_old(old), format!("{kind} is no event type"));
        }
        Event::ToolCallResult(result) => check_tool_content(&result.content, old, report),
        Event::MessagesSnapshot(snapshot) => check_messages(&snapshot.messages, old, report),
        Event::RunStarted(started) => {
            if let Some(input) = &started.input {
                check_input(input, old, report);
            }
        }
        Event::RunFinished(finished) => check_outcome(finished, old, report),
        Event::SubagentFinished(finished) => {
            if let Some(SubagentFinishedOutcome::Unknown(outcome)) = &finished.outcome {
                unknown("outcome", outcome, rejected_by_old(old), report);
            }
        }
        Event::StateDelta(delta) => check_patch(&delta.delta, old, report),
        Event::ActivityDelta(delta) => check_patch(&delta.patch, old, report),
        _ => {}
    }
}

/// Returns the severity of unknown parts: 1.0 removes them; 0.0.59 rejects the stream.
fn rejected_by_old(old: bool) -> Severity {
    if old { Severity::Rejected } else { Severity::Unnoticed }
}

/// Returns the names of members for an error message, as `a, b`.
fn names(members: &Metadata) -> String {
    members.keys().cloned().collect::<Vec<_>>().join(", ")
}

/// Reports a value of an unknown kind. Messages are discriminated by `role`, all other unions by
/// `type`.
fn unknown(kind: &str, members: &Metadata, severity: Severity, report: &mut Report) {
    let tag = ["type", "role"].iter().find_map(|tag| members.get(*tag)?.as_str()).unwrap_or("");
    report.add(Rule::UnknownVariant, severity, format!("'{tag}' is no kind of {kind}"));
}

/// Reports an outcome of a run that the dialect does not have, and its undeclared members. An
/// interrupt outcome without interrupts is rejected by both dialects: the client would wait for a
/// reply to nothing.
fn check_outcome(finished: &RunFinished, old: bool, report: &mut Report) {
    match &finished.outcome {
        Some(RunFinishedOutcome::Interrupt(outcome)) if outcome.interrupts.is_empty() => {
            report.rejected(Rule::Schema, "the outcome is an interrupt without interrupts");
        }
        Some(RunFinishedOutcome::Success(outcome)) if outcome.pending_tool_call_ids.is_some() && old => {
            report.rejected(Rule::NotInDialect, "pendingToolCallIds is not part of 0.0.59");
        }
        Some(RunFinishedOutcome::Cancelled(_)) if old => {
            report.rejected(Rule::NotInDialect, "the outcome 'cancelled' is not part of 0.0.59");
        }
        Some(RunFinishedOutcome::Unknown(outcome)) => {
            unknown("outcome", outcome, rejected_by_old(old), report);
        }
        _ => {}
    }
    let extra = match &finished.outcome {
        Some(RunFinishedOutcome::Success(outcome)) => outcome.extra.as_deref(),
        Some(RunFinishedOutcome::Interrupt(outcome)) => outcome.extra.as_deref(),
        Some(RunFinishedOutcome::Cancelled(outcome)) => outcome.extra.as_deref(),
        _ => None,
    };
    if let Some(extra) = extra {
        let what = format!("unknown members of the outcome: {}", names(extra));
        report.add(Rule::UnknownField, rejected_by_old(old), what);
    }
}

/// Reports the input that `RUN_STARTED` echoes: 0.0.59 requires the lists `tools` and `context`,
/// 1.0 does not.
fn check_input(input: &RunAgentInput, old: bool, report: &mut Report) {
    if old && (input.tools.is_none() || input.context.is_none()) {
        report.rejected(Rule::NotInDialect, "0.0.59 needs tools and context in the echoed input");
    }
    check_messages(&input.messages, old, report);
}

/// Reports restated messages of unknown roles, and content that the dialect does not have. Only
/// user and tool messages can hold parts.
fn check_messages(messages: &[Message], old: bool, report: &mut Report) {
    for message in messages {
        match message {
            Message::Unknown(members) => unknown("message", members, rejected_by_old(old), report),
            Message::Tool(tool) => check_tool_content(&tool.content, old, report),
            Message::User(user) => check_content(&user.content, old, report),
            _ => {}
        }
    }
}

/// Reports the content of a tool result. A result may consist of parts from 1.0 on.
fn check_tool_content(content: &Content, old: bool, report: &mut Report) {
    if old && matches!(content, Content::Parts(_)) {
        report.rejected(Rule::NotInDialect, "0.0.59 takes a tool result only as a text");
    }
    check_content(content, old, report);
}

/// Reports parts that the dialect does not have. A text is always accepted.
fn check_content(content: &Content, old: bool, report: &mut Report) {
    let Content::Parts(parts) = content else { return };
    for part in parts {
        match part {
            ContentPart::Text(_) => {}
            ContentPart::Image(media)
            | ContentPart::Audio(media)
            | ContentPart::Video(media)
            | ContentPart::Document(media) => check_media(media, old, report),
            ContentPart::Binary(_) if old => {}
            ContentPart::Binary(_) => {
                report.unnoticed(Rule::RetiredEvent, "binary parts are not part of 1.0");
            }
            ContentPart::Unknown(members) => unknown("part", members, rejected_by_old(old), report),
        }
    }
}

/// Reports the source of a media part. Handles of uploaded files were added in 1.0.
fn check_media(media: &MediaPart, old: bool, report: &mut Report) {
    match &media.source {
        PartSource::File(_) if old => {
            report.rejected(Rule::NotInDialect, "file handles are not part of 0.0.59");
        }
        PartSource::Unknown(members) => unknown("source", members, rejected_by_old(old), report),
        _ => {}
    }
}

/// Reports operations that are not of RFC 6902. The severity depends on when a client checks them.
fn check_patch(patch: &[PatchOperation], old: bool, report: &mut Report) {
    for operation in patch {
        let Err(expected) = operation.check() else { continue };
        // 1.0 drops an unknown operation, and rejects a known one that is malformed. 0.0.59 checks operations only when it
        // applies them, and then continues with a warning.
        let malformed = operation.is_known() || !operation.0.contains_key("op");
        let severity = if malformed && !old { Severity::Rejected } else { Severity::Unnoticed };
        report.add(Rule::BadPatch, severity, format!("a patch operation lacks {expected}"));
    }
}
