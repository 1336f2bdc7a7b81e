//! [`StreamContext`]: the deferred-end machine that turns source events into balanced events.
//!
//! The machine does no I/O: input enters by `handle_*`, events leave by [`poll_event`](StreamContext::poll_event), and
//! there are no other effects. It decides *when* blocks open and close; converters decide how they are written.
//!
//! ```text
//!              handle_event (updates, lanes, steps, state, …)
//!                 ┌──────┐
//!                 ▼      │
//!   new ──► running ─────┘
//!              ├── Finished ─────────────────► finished ─┐
//!              ├── Failed, handle_failure ───► failed   ─┼─► poll_event returns the rest, then None
//!              ├── handle_eof (no end sent) ─► failed   ─┤
//!              └── handle_cancel ────────────► finished ─┘   (outcome `Cancelled`)
//! ```
//!
//! | rule | where |
//! |---|---|
//! | lazy start, interruption, deferred end, last packet, replacement, re-opening | `text.rs` |
//! | end of tool calls, repeated calls, results without call, calls without id | `tools.rs` |
//! | content without a block kind of its own | `custom.rs` |
//! | lanes open with their first content and close after everything inside them | `lanes.rs` |
//! | end of run: all ends, then the terminal event, then no further event | `ending.rs` |
//! | a source whose stream ends without an end of the run has failed | [`StreamContext::handle_eof`] |
//! | message ids of the source are emitted unchanged where the host requests it | [`StreamContext::with_kept_ids`], `outlet.rs`, `text/call_parent.rs` |
//! | a run that another machine started is continued | `restore.rs` |
//!
//! Cost: constant per event, whatever the length of the run and the number of lanes; no allocation for a delta of
//! an open block.

mod begin;
mod call;
mod custom;
mod ending;
mod lanes;
mod limits;
mod outlet;
mod pending;
mod restore;
mod steps;
mod text;
mod tools;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytestring::ByteString;

pub use limits::Limits;

use crate::block::{ContentBlock, ToolOutput, ToolResult, ToolUse};
use crate::error::Error;
use crate::event::{BlockEvent, Lane, PendingInterrupt, SpanKind};
use crate::id::ResponseId;
use crate::run::{Interrupt, RunFailure, RunInfo, RunOutcome, Usage};
use crate::source::Source;
use crate::update::{Channel, Mode, SourceEvent, Update};
use crate::usage_sum::UsageSum;
use lanes::{LaneState, LaneTable};
use outlet::Outlet;
use pending::PendingInterrupts;
use text::{Fragment, Plan};
use tools::CallKey;

/// The name of a tool whose name the source did not send.
pub const UNKNOWN_TOOL: &str = "unknown";

/// The state of one run's stream.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{BlockEvent, RunInfo, SourceEvent, StreamContext, Update};
///
/// let mut context = StreamContext::new(RunInfo::new("thread", "run"));
/// context.handle_update(Update::text("Hello"))?;
/// context.handle_event(SourceEvent::finished())?; // ends the text, too
/// let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
/// assert!(matches!(events[..], [
///     BlockEvent::RunStarted(_),
///     BlockEvent::BlockStarted(_),
///     BlockEvent::BlockDelta { .. },
///     BlockEvent::BlockEnded { .. },
///     BlockEvent::RunFinished(_),
/// ]));
/// # Ok::<(), aqueduct_core::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamContext {
    run: Arc<RunInfo>,
    lanes: LaneTable,
    interrupts: PendingInterrupts,
    usage: UsageSum,
    /// The last finish reason that the source sent with the answer.
    finish_reason: Option<ByteString>,
    out: Outlet,
    /// Set once the terminal event is queued.
    ended: bool,
}

impl StreamContext {
    /// Handles any event of the source.
    ///
    /// # Errors
    ///
    /// Returns an error if the event exceeds a limit or the run has ended. The rejected part of the event is not emitted,
    /// and the stream stays balanced; a lane that was opened for the event stays open. [`Error::can_continue`] returns
    /// `true` if the stream can continue without the event.
    pub fn handle_event(&mut self, event: SourceEvent) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        match event {
            SourceEvent::Update(update) => self.handle_update(update),
            SourceEvent::LaneOpened(source) => self.lanes.open(&source, &mut self.out).map(drop),
            SourceEvent::LaneClosed { source, outcome } => {
                self.lanes.close(&source, outcome, &mut self.out);
                Ok(())
            }
            SourceEvent::StepStarted { source, name } => {
                let (lane, state) = self.lanes.open(&source, &mut self.out)?;
                state.steps.start(&name, &lane, &mut self.out)
            }
            SourceEvent::StepFinished { source, name } => {
                let (lane, state) = self.lanes.open(&source, &mut self.out)?;
                state.steps.finish(&name, &lane, &mut self.out);
                Ok(())
            }
            SourceEvent::StateSnapshot { source, state } => {
                self.emit_in(&source, |lane| BlockEvent::StateSnapshot { lane, state })
            }
            SourceEvent::StateDelta { source, patch } => {
                self.emit_in(&source, |lane| BlockEvent::StateDelta { lane, patch })
            }
            SourceEvent::Usage { source, usage } => self.book(&source, None, Mode::Append, *usage),
            SourceEvent::InterruptRequested { source, interrupt } => {
                self.request_interrupt(&source, *interrupt)
            }
            SourceEvent::Finished { outcome, result } => {
                self.finish(outcome, result);
                Ok(())
            }
            // The host stores checkpoints and positions. The stream contains no events for them.
            SourceEvent::Checkpoint(_) | SourceEvent::Position(_) => Ok(()),
            SourceEvent::Failed(failure) => {
                self.fail(failure);
                Ok(())
            }
        }
    }

    /// Handles a fragment of content.
    ///
    /// # Errors
    ///
    /// As [`handle_event`](Self::handle_event).
    pub fn handle_update(&mut self, mut update: Update) -> Result<(), Error> {
        if self.ended {
            return Err(Error::Ended);
        }
        update.drop_empty_ids();
        match &mut update.block {
            ContentBlock::Text(part) => {
                let text = std::mem::take(&mut part.text);
                self.handle_text(SpanKind::Text, text, None, &update)
            }
            ContentBlock::Thinking(part) => {
                let (text, encrypted) =
                    (std::mem::take(&mut part.text), part.encrypted.take().map(|value| *value));
                self.handle_text(SpanKind::Thinking, text, encrypted, &update)
            }
            ContentBlock::ToolUse(tool) => {
                let tool = std::mem::take(&mut **tool);
                self.handle_tool_use(tool, &update)
            }
            ContentBlock::ToolResult(result) => {
                let result = std::mem::take(&mut **result);
                self.handle_tool_result(result, &update)
            }
            ContentBlock::Custom(custom) => {
                let custom = std::mem::take(&mut **custom);
                self.emit_custom(custom, &update)
            }
        }?;
        self.record_finish_reason(&update);
        self.book_usage(&update)
    }

    /// Handles the end of the source's stream. If the source has not reported the end of the run, the run fails.
    pub fn handle_eof(&mut self) {
        let message =
            "the agent's stream ended without saying how the run ended: the answer may be incomplete";
        self.fail(RunFailure::new(RunFailure::UPSTREAM_ENDED, message));
    }

    /// Fails the run for a reason outside the source's stream.
    pub fn handle_failure(&mut self, failure: RunFailure) {
        self.fail(failure);
    }

    /// Ends the run as cancelled.
    pub fn handle_cancel(&mut self) {
        self.finish(RunOutcome::Cancelled, None);
    }

    /// Returns the next event. Returns `None` until more input arrives, and always after the terminal event.
    pub fn poll_event(&mut self) -> Option<BlockEvent> {
        self.out.poll()
    }

    /// Returns the lane of the agent that the run was started for.
    pub fn root_lane(&self) -> &Arc<Lane> {
        self.lanes.root_lane()
    }

    /// Returns `true` once the run has ended. Events may still wait to be polled.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns `true` if the run has ended and all events have been polled.
    pub fn is_finished(&self) -> bool {
        self.ended && !self.out.has_events()
    }

    /// Handles a fragment of text or thinking: appends to the open block on the hot path, otherwise plans and applies.
    fn handle_text(
        &mut self,
        kind: SpanKind,
        mut text: ByteString,
        encrypted: Option<ByteString>,
        update: &Update,
    ) -> Result<(), Error> {
        if encrypted.is_none()
            && let Some(state) = self.lanes.open_state(&update.source)
        {
            text = match state.texts.try_append(kind, text, update, &mut self.out) {
                Ok(()) => return Ok(()),
                Err(text) => text,
            };
        }
        let fragment = Fragment { kind, text, encrypted, update };
        if let Some((lane, state)) = self.lanes.open_mut(&update.source) {
            let plan = state.texts.plan(fragment);
            check_room(&plan, state, update, &self.out)?;
            return state.texts.apply(plan, kind, &lane, update, &mut self.out);
        }
        let plan = match self.lanes.known(&update.source) {
            Some(state) => state.texts.plan(fragment),
            None => text::TextSpans::default().plan(fragment),
        };
        if matches!(plan, Plan::Nothing) {
            // The end of a message needs no open lane, but a different text after it is another message.
            if update.last
                && let Some(state) = self.lanes.known_mut(&update.source)
            {
                state.texts.handle_last(kind, update, &mut self.out);
            }
            return Ok(());
        }
        let (lane, state) = self.lanes.open(&update.source, &mut self.out)?;
        state.texts.apply(plan, kind, &lane, update, &mut self.out)
    }

    /// Handles a fragment of a tool call, unless it repeats a complete one.
    fn handle_tool_use(&mut self, tool: ToolUse, update: &Update) -> Result<(), Error> {
        let repeats = |state: &LaneState| match &tool.id {
            Some(id) => state.tools.is_repeat(&CallKey::Given(id.clone()), &tool, update),
            None => state.tools.is_repeat_without_id(&tool, update),
        };
        if self.lanes.known(&update.source).is_some_and(repeats) {
            return Ok(());
        }
        let (lane, state) = self.lanes.open(&update.source, &mut self.out)?;
        let key = state.tools.key_of_use(&tool);
        state.tools.handle_use(&key, tool, &lane, update, &mut state.texts, &mut self.out)
    }

    /// Handles a tool result in the lane of the agent that made the call. Progress is emitted at once and does not end the call.
    fn handle_tool_result(&mut self, result: ToolResult, update: &Update) -> Result<(), Error> {
        let call = self.lanes.call_of_result(&update.source, &result);
        let (source, key) = match call {
            Some((source, key)) => (source, Some(key)),
            None => (update.source.clone(), None),
        };
        if let ToolOutput::Progress(text) = &result.output {
            return self.emit_progress(&source, key.as_ref(), &result, text, update);
        }
        if let Some(state) = self.lanes.known(&source)
            && state.tools.is_repeated_result(key.as_ref(), &result, update.mode)
        {
            return Ok(());
        }
        let (lane, state) = self.lanes.open(&source, &mut self.out)?;
        if let Some(message) = key.as_ref().and_then(|key| state.tools.message_of(key)) {
            state.texts.record_answer(message);
        }
        state.tools.handle_result(key, result, &lane, update, &mut self.out);
        Ok(())
    }

    /// Stores the finish reason of an answer. It is copied: a slice would keep the buffer of its message alive until the
    /// end of the run.
    fn record_finish_reason(&mut self, update: &Update) {
        let reason = update.details.as_ref().and_then(|details| details.finish_reason.as_deref());
        if let Some(reason) = reason.filter(|_| update.channel == Channel::Answer) {
            self.finish_reason = Some(reason.to_owned().into());
        }
    }

    /// Adds the usage that an update carries, if any.
    fn book_usage(&mut self, update: &Update) -> Result<(), Error> {
        match update.details.as_ref().and_then(|details| details.usage.clone()) {
            Some(usage) => self.book(&update.source, update.response_id.as_ref(), update.mode, usage),
            None => Ok(()),
        }
    }

    /// Adds a usage report to the sum of the run, and emits the report.
    fn book(
        &mut self,
        source: &Source,
        response: Option<&ResponseId>,
        mode: Mode,
        usage: Usage,
    ) -> Result<(), Error> {
        let max = self.out.limits.usage_accounts;
        let fits = self.usage.book(source, response, mode, &usage, max);
        let count = if fits { 0 } else { max + 1 };
        Outlet::check(count, max, "usage_accounts", "usage accounts", source.path())?;
        self.emit_in(source, |lane| BlockEvent::Usage { lane, usage: Box::new(usage) })
    }

    /// Emits an interrupt with the emitted id of its tool call. A repeated interrupt is suppressed.
    fn request_interrupt(&mut self, source: &Source, mut interrupt: Interrupt) -> Result<(), Error> {
        if let Some(call) = &interrupt.tool_call_id
            && let Some(outgoing) = self.lanes.outgoing_call(source, call)
        {
            interrupt.tool_call_id = Some(outgoing);
        }
        let (lane, _) = self.lanes.open(source, &mut self.out)?;
        let pending = PendingInterrupt { lane, interrupt };
        if self.interrupts.add(pending.clone(), self.out.limits.interrupts)? {
            self.out.emit(BlockEvent::InterruptRequested(Box::new(pending)));
        }
        Ok(())
    }

    /// Emits an event in the lane of `source`, which opens if it is not open.
    fn emit_in(&mut self, source: &Source, event: impl FnOnce(Arc<Lane>) -> BlockEvent) -> Result<(), Error> {
        let (lane, _) = self.lanes.open(source, &mut self.out)?;
        self.out.emit(event(lane));
        Ok(())
    }
}

/// Returns an error if the fragment opens a block and the lane already has `open_blocks` open ones.
fn check_room(plan: &Plan, state: &LaneState, update: &Update, out: &Outlet) -> Result<(), Error> {
    if !matches!(plan, Plan::Open { .. }) || state.texts.is_open(&update.track) {
        return Ok(());
    }
    let open = state.texts.open_count() + state.tools.open_count() + 1;
    Outlet::check(open, out.limits.open_blocks, "open_blocks", "open blocks", update.source.path())
}
