//! Start and end of a run, its usage and its interrupts.
//!
//! | outcome of the run | 1.0 | 0.0.59 |
//! |---|---|---|
//! | success | `RUN_FINISHED` with outcome `success` and pending calls | `RUN_FINISHED` without outcome |
//! | interrupted, as `Interrupt` | `RUN_FINISHED` with outcome `interrupt` | the same |
//! | interrupted, as `Text` | one text message per interrupt, then as success | the same |
//! | cancelled | `RUN_FINISHED` with outcome `cancelled` | `RUN_ERROR` with code `cancelled` |
//! | failed | `RUN_ERROR`, after a text message if the settings ask for it | the same |
//!
//! Exactly one terminal event ends a run, and texts of this module precede it: no event may follow
//! a terminal event.

use aqueduct_core::event::{PendingInterrupt, RunFailed, RunFinished as Finished};
use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString, Metadata, RunFailure, RunOutcome, Usage};
use serde_json::Value;

use super::show::{agent_name, converter, with_metadata};
use crate::config::{Dialect, Errors, Interrupts, Settings};
use crate::ids::{FAILURE_PREFIX, INTERRUPT_PREFIX};
use crate::version::PROTOCOL_VERSION;
use crate::wire::{
    CancelledOutcome, Event, Interrupt, InterruptOutcome, MAX_SAFE_INTEGER, OpenObject, RunError,
    RunFinished, RunFinishedOutcome, RunStarted, SuccessOutcome, TextMessageContent, TextMessageEnd,
    TextMessageStart, TextRole, TokenUsage,
};

converter! {
    /// `RUN_STARTED`, `RUN_FINISHED`, `RUN_ERROR`.
    RunConverter
}

impl BlockEventConverter<Event> for RunConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            BlockEvent::RunStarted(run) => {
                // 0.0.59 does not know the member.
                let declares = self.settings.dialect == Dialect::V1_0;
                out.push(Event::from(RunStarted {
                    thread_id: run.thread_id.as_bytes().clone(),
                    run_id: run.run_id.as_bytes().clone(),
                    parent_run_id: run.parent_run_id.as_ref().map(|id| id.as_bytes().clone()),
                    protocol_version: declares.then_some(ByteString::from_static(PROTOCOL_VERSION)),
                    ..RunStarted::default()
                }));
            }
            BlockEvent::RunFinished(finished) => self.finish(finished, out),
            BlockEvent::RunFailed(failed) => {
                if self.settings.errors == Errors::Text {
                    push_run_failure_text(failed, out);
                }
                out.push(self.failure(failed));
            }
            _ => {}
        }
    }
}

impl RunConverter {
    /// Converts the end of a run: interrupts shown as text first, then `RUN_FINISHED`, or `RUN_ERROR` for 0.0.59 peers.
    fn finish(self, finished: &Finished, out: &mut Vec<Event>) {
        let outcome = match (finished.outcome, self.settings.interrupts) {
            (RunOutcome::Interrupted, Interrupts::Interrupt) => Some(self.interrupted(finished)),
            (RunOutcome::Interrupted, Interrupts::Text) => {
                // The next user message is the reply: `resume` turns it into `resume` entries.
                finished.interrupts.iter().for_each(|pending| self.push_interrupt_text(pending, out));
                self.success(finished)
            }
            // 0.0.59 has no outcome for a cancelled run; `RUN_FINISHED` alone would mean success.
            (RunOutcome::Cancelled, _) if self.settings.dialect == Dialect::V0_0_59 => {
                out.push(Event::RunError(RunError {
                    code: Some(ByteString::from_static(RunFailure::CANCELLED)),
                    message: ByteString::from_static("the run was cancelled"),
                    usage: self.usage(&finished.usage),
                    ..RunError::default()
                }));
                return;
            }
            (RunOutcome::Cancelled, _) => Some(RunFinishedOutcome::Cancelled(CancelledOutcome::default())),
            _ => self.success(finished),
        };
        out.push(Event::from(RunFinished {
            thread_id: finished.run.thread_id.as_bytes().clone(),
            run_id: finished.run.run_id.as_bytes().clone(),
            // An absent member is omitted, and never `null`.
            result: finished.result.clone().filter(|result| !result.is_null()),
            outcome,
            usage: self.usage(&finished.usage),
            ..RunFinished::default()
        }));
    }

    /// Returns the outcome of a success. `None` means success, too: a peer without declared version gets nothing more.
    fn success(self, finished: &Finished) -> Option<RunFinishedOutcome> {
        let pending: Vec<_> = finished.pending_calls.iter().map(|call| call.as_bytes().clone()).collect();
        let pending_tool_call_ids = Some(pending).filter(|pending| !pending.is_empty());
        let outcome = SuccessOutcome { pending_tool_call_ids, extra: None };
        (self.settings.dialect == Dialect::V1_0).then_some(RunFinishedOutcome::Success(outcome))
    }

    /// Returns the outcome with all interrupts that the run waits for.
    fn interrupted(self, finished: &Finished) -> RunFinishedOutcome {
        let interrupts = finished.interrupts.iter().map(|pending| self.interrupt(pending)).collect();
        RunFinishedOutcome::Interrupt(InterruptOutcome { interrupts, extra: None })
    }

    /// Converts an interrupt. For a hidden lane the tag and the hidden tool call are omitted: the
    /// client has received neither. A response schema that is not an object (`true`, `false`) has no
    /// form in AG-UI and is omitted.
    fn interrupt(self, pending: &PendingInterrupt) -> Interrupt {
        let hidden = self.settings.hides(&pending.lane);
        let interrupt = &pending.interrupt;
        let schema = interrupt.response_schema.as_ref().and_then(Value::as_object);
        Interrupt {
            id: interrupt.id.as_bytes().clone(),
            reason: interrupt.reason.clone(),
            message: interrupt.message.clone(),
            tool_call_id: interrupt.tool_call_id.as_ref().filter(|_| !hidden).map(|id| id.as_bytes().clone()),
            response_schema: schema.cloned().map(OpenObject),
            expires_at: interrupt.expires_at.clone(),
            metadata: interrupt.metadata.as_ref().map(|metadata| OpenObject((**metadata).clone())),
            subagent_run_id: self.settings.tag(&pending.lane),
            extra: None,
        }
    }

    /// Adds the interrupt as a text message. Its id is that of the interrupt, which the agent keeps unique in the thread, with a
    /// prefix that no minted id has.
    fn push_interrupt_text(self, pending: &PendingInterrupt, out: &mut Vec<Event>) {
        let interrupt = &pending.interrupt;
        let message_id = ByteString::from(format!("{INTERRUPT_PREFIX}{}", interrupt.id));
        // An interrupt without a message still needs a text: a client shows an empty message as nothing.
        let question = interrupt.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(|| {
            ByteString::from(format!("The agent waits for your answer ({}).", interrupt.reason))
        });
        let metadata = Metadata::from_iter([
            ("aqueduct.interruptId".to_owned(), Value::from(interrupt.id.as_str())),
            ("aqueduct.reason".to_owned(), Value::from(&*interrupt.reason)),
        ]);
        let name = agent_name(&pending.lane).filter(|_| !self.settings.hides(&pending.lane));
        push_text(message_id, question, name, metadata, out);
    }

    /// Returns `RUN_ERROR` with code, message and, as metadata, the details.
    fn failure(self, failed: &RunFailed) -> Event {
        let mut metadata = Metadata::new();
        if let Some(details) = &failed.failure.details {
            metadata.insert("aqueduct.details".to_owned(), details.clone());
        }
        Event::RunError(RunError {
            base: with_metadata(metadata),
            code: Some(failed.failure.code.clone()).filter(|code| !code.is_empty()),
            message: failed.failure.message.clone(),
            usage: self.usage(&failed.usage),
        })
    }

    /// Returns token counts. A count above 2^53 - 1 is omitted: a JavaScript client would change it.
    fn usage(self, usage: &[Usage]) -> Option<Vec<TokenUsage>> {
        let count = |count: Option<u64>| count.filter(|count| *count <= MAX_SAFE_INTEGER.unsigned_abs());
        let converted = usage.iter().map(|usage| TokenUsage {
            provider: usage.provider.clone(),
            model: usage.model.clone(),
            input_tokens: count(usage.input),
            output_tokens: count(usage.output),
            total_tokens: count(usage.total),
            reasoning_tokens: count(usage.reasoning),
            cached_input_tokens: count(usage.cached_input),
            cache_write_input_tokens: count(usage.cache_write_input)
                .filter(|_| self.settings.dialect == Dialect::V1_0),
            extra: None,
        });
        Some(converted.collect::<Vec<_>>()).filter(|usage| !usage.is_empty())
    }
}

/// The most bytes of a tool's error that the text about its failure repeats; the result holds all of it.
const MAX_REPEATED_ERROR: usize = 500;

/// Adds the failure of a sub-agent or a tool as a text message, if the settings ask for it. Its id is that of the lane or
/// the result, with a prefix that no minted id has.
pub(super) fn push_failure_text(
    settings: Settings,
    id: &str,
    name: &str,
    message: &str,
    out: &mut Vec<Event>,
) {
    if settings.errors != Errors::Text {
        return;
    }
    // The limit counts bytes, so the text is cut at the nearest character boundary before it.
    let end = (0..=MAX_REPEATED_ERROR.min(message.len()))
        .rev()
        .find(|at| message.is_char_boundary(*at))
        .unwrap_or(0);
    let (shown, rest) = message.split_at(end);
    let name = if name.is_empty() { "The tool" } else { name };
    // An empty error leaves `… failed: `, whose end is trimmed below.
    let text = format!("⚠ {name} failed: {shown}{}", if rest.is_empty() { "" } else { "…" });
    let message_id = ByteString::from(format!("{FAILURE_PREFIX}{id}"));
    push_text(message_id, ByteString::from(text.trim_end_matches([' ', ':'])), None, Metadata::new(), out);
}

/// Adds the failure of the run as a text message. Its id is that of the run, with a prefix that no minted id has.
fn push_run_failure_text(failed: &RunFailed, out: &mut Vec<Event>) {
    let message_id = ByteString::from(format!("{FAILURE_PREFIX}{}", failed.run.run_id));
    let code = Value::from(&*failed.failure.code);
    let metadata = Metadata::from_iter([("aqueduct.error".to_owned(), code)]);
    let text = Some(failed.failure.message.clone()).filter(|message| !message.is_empty());
    let text = text.unwrap_or_else(|| ByteString::from(format!("The run failed ({}).", failed.failure.code)));
    push_text(message_id, text, None, metadata, out);
}

/// Adds a whole text message: start, content and end. It carries no tag: these texts belong to the
/// run, and the lane they are about may be hidden or ended.
fn push_text(
    message_id: ByteString,
    text: ByteString,
    name: Option<ByteString>,
    metadata: Metadata,
    out: &mut Vec<Event>,
) {
    out.push(Event::TextMessageStart(TextMessageStart {
        base: with_metadata(metadata),
        message_id: message_id.clone(),
        role: Some(TextRole::Assistant),
        name,
        subagent_run_id: None,
    }));
    out.push(Event::TextMessageContent(TextMessageContent {
        message_id: message_id.clone(),
        delta: text,
        ..TextMessageContent::default()
    }));
    out.push(Event::TextMessageEnd(TextMessageEnd { message_id, ..TextMessageEnd::default() }));
}

/// Converts usage to nothing: the terminal event carries the sum, and AG-UI has no event for it.
#[derive(Debug, Clone, Copy)]
pub struct UsageConverter;

impl BlockEventConverter<Event> for UsageConverter {
    fn convert(&self, _event: &BlockEvent, _out: &mut Vec<Event>) {}
}

/// Converts interrupts to nothing: the terminal event carries all of them, and clients read them only there.
#[derive(Debug, Clone, Copy)]
pub struct InterruptConverter;

impl BlockEventConverter<Event> for InterruptConverter {
    fn convert(&self, _event: &BlockEvent, _out: &mut Vec<Event>) {}
}
