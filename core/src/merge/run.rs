//! [`RunMerger`]: the events of one run as a [`CompletedRun`], for callers who want a value instead of a stream.
//!
//! ```text
//! BlockEvents (balanced, deduplicated) ──► RunMerger ──► MessageMerger ──► Response
//!                                            └ terminal event ──► outcome, result, interrupts
//! ```
//!
//! Blocks of one source message become one message. A block that continues another after an interruption belongs to the
//! message of that block; a block that replaces another takes the place of its text. The merger holds whole texts, within
//! [`MergeLimits`](super::MergeLimits); it reads no log and drives no run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use super::{MergeSettings, MessageMerger};
use crate::block::{ContentBlock, Custom, Text, Thinking, ToolResult, ToolUse};
use crate::error::Error;
use crate::event::{BlockEvent, BlockHead, EndReason, Lane, Origin, SpanKind};
use crate::id::{BlockId, MessageId, ResponseId};
use crate::message::Response;
use crate::run::{Interrupt, RunFailure, RunInfo, RunOutcome, Usage};
use crate::update::{Channel, Mode, Role, Update};
use crate::wellknown;

/// A whole run as one value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompletedRun {
    /// The run; `None` if there was no `RunStarted` event.
    pub run: Option<Arc<RunInfo>>,
    /// The content of the run, under one response id.
    pub response: Response,
    /// How the run ended. A run without terminal event has failed.
    pub outcome: Result<RunOutcome, Box<RunFailure>>,
    /// The run's value, where it has one beside its text.
    pub result: Option<Value>,
    /// The interrupts that wait for replies.
    pub interrupts: Vec<Interrupt>,
}

impl CompletedRun {
    /// Returns a run with this content and end, without value and interrupts.
    pub fn new(
        run: Option<Arc<RunInfo>>,
        response: Response,
        outcome: Result<RunOutcome, Box<RunFailure>>,
    ) -> Self {
        Self { run, response, outcome, result: None, interrupts: Vec::new() }
    }

    /// Returns the answer: the text of all messages on the answer channel.
    pub fn text(&self) -> String {
        self.response.text()
    }

    /// Returns `true` if the run succeeded.
    pub fn is_success(&self) -> bool {
        self.outcome == Ok(RunOutcome::Success)
    }

    /// Returns the failure of the run. Returns `None` if the run did not fail.
    pub fn failure(&self) -> Option<&RunFailure> {
        self.outcome.as_ref().err().map(|failure| &**failure)
    }
}

/// Merges the events of one run into a [`CompletedRun`].
///
/// # Examples
///
/// ```
/// use aqueduct_core::{RunInfo, RunMerger, SourceEvent, StreamContext, Update};
///
/// let mut context = StreamContext::new(RunInfo::new("thread", "run"));
/// context.handle_update(Update::text("Hello"))?;
/// context.handle_event(SourceEvent::finished())?;
/// let mut merger = RunMerger::default();
/// while let Some(event) = context.poll_event() {
///     merger.handle_event(&event)?;
/// }
/// assert_eq!(merger.finish().text(), "Hello");
/// # Ok::<(), aqueduct_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RunMerger {
    merger: MessageMerger,
    run: Option<Arc<RunInfo>>,
    response_id: Option<ResponseId>,
    /// The message of each block, for later blocks that continue or replace it and calls that belong to it.
    messages: HashMap<BlockId, MessageId>,
    /// Blocks whose first delta replaces an earlier text.
    replacing: HashSet<BlockId>,
    outcome: Option<Result<RunOutcome, Box<RunFailure>>>,
    result: Option<Value>,
    interrupts: Vec<Interrupt>,
    usage: Vec<Usage>,
    finish_reason: Option<ByteString>,
}

impl RunMerger {
    /// Returns a merger without events.
    pub fn new(settings: MergeSettings) -> Self {
        Self { merger: MessageMerger::new(settings), ..Self::default() }
    }

    /// Adds the next event of the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the run exceeds a limit of the merge. The events before it stay merged.
    pub fn handle_event(&mut self, event: &BlockEvent) -> Result<(), Error> {
        match event {
            BlockEvent::RunStarted(run) => self.run = Some(Arc::clone(run)),
            BlockEvent::BlockStarted(head) => self.start(head)?,
            BlockEvent::BlockDelta { block, delta } => self.append(block, delta.clone())?,
            BlockEvent::ThinkingEncrypted { block, value } => {
                let thinking = Thinking { encrypted: Some(Box::new(value.clone())), ..Thinking::default() };
                self.add(block, ContentBlock::Thinking(thinking), Mode::Append, false)?;
            }
            BlockEvent::BlockEnded { block, reason: EndReason::Complete } if block.kind == SpanKind::Text => {
                self.add(block, ContentBlock::Text(Text::default()), Mode::Append, true)?;
            }
            BlockEvent::ToolResult(result) => {
                let block = ContentBlock::from(ToolResult {
                    id: Some(result.call_id.clone()),
                    name: Some(result.tool_name.clone()).filter(|name| !name.is_empty()),
                    output: result.output.clone(),
                    is_error: result.is_error,
                });
                let update = update_of(block, &result.lane, &result.origin, Channel::Answer, Role::Tool);
                self.merger.handle_update(update.in_message(result.id.as_bytes().clone()))?;
            }
            // Log-private content is not part of the response.
            BlockEvent::Custom(custom) if wellknown::is_internal(&custom.name) => {}
            BlockEvent::Custom(custom) => {
                let block = Custom { name: custom.name.clone(), value: custom.value.clone() };
                let block = ContentBlock::from(block);
                let update = update_of(block, &custom.lane, &custom.origin, custom.channel, Role::Assistant);
                self.merger.handle_update(update.in_message(custom.id.as_bytes().clone()))?;
            }
            BlockEvent::RunFinished(end) => {
                self.outcome = Some(Ok(end.outcome));
                self.result.clone_from(&end.result);
                self.interrupts = end.interrupts.iter().map(|pending| pending.interrupt.clone()).collect();
                self.usage.clone_from(&end.usage);
                self.finish_reason.clone_from(&end.finish_reason);
            }
            BlockEvent::RunFailed(end) => {
                self.outcome = Some(Err(Box::new(end.failure.clone())));
                self.usage.clone_from(&end.usage);
            }
            // Lanes and steps are not content. Usage is taken from the terminal event.
            _ => {}
        }
        Ok(())
    }

    /// Returns `true` once the terminal event has been added.
    pub fn is_ended(&self) -> bool {
        self.outcome.is_some()
    }

    /// Returns the run as one value. The response id is that of the turn, else the id of the run.
    pub fn finish(self) -> CompletedRun {
        let fallback = || self.run.as_ref().map(|run| ResponseId::new(&run.run_id));
        let id = self.response_id.clone().or_else(fallback).unwrap_or_else(|| ResponseId::from(""));
        let mut response = self.merger.finish(id);
        response.agent = response.only_agent();
        response.usage = self.usage;
        response.finish_reason = self.finish_reason;
        let cut = || {
            let message = "the events of the run ended without a terminal event: watch the run again";
            Err(Box::new(RunFailure::new(RunFailure::UPSTREAM_ENDED, message)))
        };
        let run = CompletedRun::new(self.run, response, self.outcome.unwrap_or_else(cut));
        CompletedRun { result: self.result, interrupts: self.interrupts, ..run }
    }

    fn start(&mut self, head: &Arc<BlockHead>) -> Result<(), Error> {
        if self.response_id.is_none() {
            self.response_id.clone_from(&head.origin.response_id);
        }
        let of = |id: &Option<BlockId>| id.as_ref().and_then(|id| self.messages.get(id)).cloned();
        let earlier = of(&head.continues).or_else(|| of(&head.replaces)).or_else(|| of(&head.parent));
        let given = || head.origin.message_id.clone();
        let own = || MessageId::new(head.id.as_bytes().clone());
        let message = earlier.or_else(given).unwrap_or_else(own);
        self.messages.insert(head.id.clone(), message);
        if head.kind == SpanKind::ToolUse {
            return self.add(head, call(head, "".into()), Mode::Append, false);
        }
        if head.replaces.is_some() {
            self.replacing.insert(head.id.clone());
        }
        Ok(())
    }

    fn append(&mut self, head: &Arc<BlockHead>, delta: ByteString) -> Result<(), Error> {
        let is_first = self.replacing.remove(&head.id);
        let mode = if is_first { Mode::Replace } else { Mode::Append };
        let block = match head.kind {
            SpanKind::Text => ContentBlock::Text(Text { text: delta }),
            SpanKind::Thinking => ContentBlock::Thinking(Thinking { text: delta, encrypted: None }),
            SpanKind::ToolUse => call(head, delta),
        };
        self.add(head, block, mode, false)
    }

    fn add(&mut self, head: &BlockHead, block: ContentBlock, mode: Mode, last: bool) -> Result<(), Error> {
        let mut update = update_of(block, &head.lane, &head.origin, head.channel, head.role);
        update.message_id = self.messages.get(&head.id).cloned();
        update.mode = mode;
        update.last = last;
        self.merger.handle_update(update)
    }
}

/// Returns a fragment of a call, under its emitted id.
fn call(head: &BlockHead, arguments: ByteString) -> ContentBlock {
    let (id, name) = (Some(head.tool_call_id()), Some(head.tool_name.clone()));
    ContentBlock::from(ToolUse { id, name, arguments })
}

fn update_of(block: ContentBlock, lane: &Lane, origin: &Origin, channel: Channel, role: Role) -> Update {
    let mut update = Update::new(block).from_source(&lane.source);
    update.created_at = origin.created_at;
    update.channel = channel;
    update.role = role;
    if let Some(metadata) = &origin.metadata {
        update.details_mut().metadata = Some(Arc::clone(metadata));
    }
    update
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Message;
    use crate::source::Source;
    use crate::testing::run_to_end;
    use crate::update::SourceEvent;

    fn merged(events: impl IntoIterator<Item = SourceEvent>) -> CompletedRun {
        let mut merger = RunMerger::default();
        for event in run_to_end(events) {
            merger.handle_event(&event).unwrap();
        }
        merger.finish()
    }

    #[test]
    fn a_turn_with_a_tool_is_one_value() {
        let run = merged([
            Update::thinking("Let me look.").into(),
            Update::text("One ").in_message("m1").in_response("r1").into(),
            Update::text("moment.").in_message("m1").last().into(),
            Update::tool_use("call_1", "search", json!({ "q": "x" })).into(),
            Update::tool_result("call_1", "42").into(),
            Update::text("It is 42.").in_message("m2").finishing("stop").into(),
            SourceEvent::finished(),
        ]);
        assert_eq!(run.response.finish_reason.as_deref(), Some("stop"));
        assert_eq!(run.outcome, Ok(RunOutcome::Success));
        assert_eq!(run.response.text(), "One moment.It is 42.");
        let calls: Vec<&str> =
            run.response.messages.iter().flat_map(Message::tool_uses).map(|call| &*call.arguments).collect();
        assert_eq!(calls, [r#"{"q":"x"}"#]);
    }

    #[test]
    fn a_text_that_is_interrupted_stays_one_message_and_a_replaced_one_is_gone() {
        let run = merged([
            Update::text("Half ").in_message("m").into(),
            Update::tool_use("c", "t", json!({})).into(),
            Update::tool_result("c", "done").into(),
            Update::text("whole").in_message("m").into(),
            Update::text("wrong").in_message("n").into(),
            Update::text("right").in_message("n").replace().into(),
            SourceEvent::finished(),
        ]);
        assert_eq!(run.response.text(), "Half wholeright");
        let ids: Vec<_> = run.response.messages.iter().filter(|m| !m.text().is_empty()).collect();
        assert_eq!(ids.len(), 2);
    }

    #[test]
    fn agents_are_grouped_and_the_answer_is_told_apart() {
        let (a, b) = (Source::root().child("a"), Source::root().child("b"));
        let run = merged([
            Update::text("a1 ").from_source(&a).intermediate().into(),
            Update::text("b1 ").from_source(&b).intermediate().into(),
            Update::text("a2").from_source(&a).intermediate().into(),
            Update::text("answer").into(),
            SourceEvent::finished(),
        ]);
        let texts: Vec<String> = run.response.messages.iter().map(Message::text).collect();
        assert_eq!(texts, ["a1 a2", "b1 ", "answer"]);
        assert_eq!(run.response.text(), "answer");
    }

    #[test]
    fn content_of_the_log_alone_is_no_message() {
        let run = merged([
            Update::custom(wellknown::IDS, json!({ "a": "b" })).into(),
            Update::custom("mine", json!(1)).into(),
            SourceEvent::finished(),
        ]);
        let blocks: Vec<_> = run.response.messages.iter().flat_map(|message| &message.contents).collect();
        assert_eq!(blocks, [&ContentBlock::custom("mine", json!(1))]);
    }

    #[test]
    fn failures_and_interrupts_are_no_success() {
        let run = merged([Update::text("half").into(), SourceEvent::failed("agent_failed", "no luck")]);
        assert!(matches!(&run.outcome, Err(failure) if failure.code == "agent_failed"));
        assert_eq!(run.response.text(), "half");
        let run = merged([
            SourceEvent::interrupt(Interrupt::new("i", "confirmation")),
            SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None },
        ]);
        assert_eq!((run.outcome, run.interrupts.len()), (Ok(RunOutcome::Interrupted), 1));
        assert!(RunMerger::default().finish().outcome.is_err());
    }
}
