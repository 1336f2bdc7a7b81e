//! Violations that a client does not notice: lost content, shared ids, orphans, runs without end. The state is that of the
//! thread, over all runs.
//!
//! | rule | why a client does not notice |
//! |---|---|
//! | an id is used for two things | the client merges them into one message |
//! | a message ends without content | the client shows an empty message |
//! | a result for an unknown call, a change of an unknown card | the client drops it |
//! | the parent of a call is not a message of the agent | the client creates a second message |
//! | a snapshot without a message that is open | the message disappears, later content is dropped |
//! | the stream ends without a terminal event | the client waits, or shows the run as finished |
//!
//! Ids live as long as the thread: a later run must not reuse them.

use std::collections::{HashMap, HashSet};

use aqueduct_core::ByteString;

use super::order::{Order, Phase};
use super::rule::{Report, Rule, Severity};
use crate::wire::{
    EncryptedSubtype, Event, Message, MessagesSnapshot, RunFinished, RunFinishedOutcome, ToolCallStart,
};

/// The use of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Text,
    Reasoning,
    Result,
    Activity,
    Call,
    /// An assistant's message that exists only as the parent of a tool call; its text may still arrive.
    Carrier,
    /// A message of a user, system or developer.
    Other,
}

impl Use {
    /// Returns the use as text for a violation.
    fn word(self) -> &'static str {
        match self {
            Self::Text | Self::Carrier => "a text message",
            Self::Reasoning => "a reasoning message",
            Self::Result => "a tool result",
            Self::Activity => "an activity",
            Self::Call => "a tool call",
            Self::Other => "a message of another role",
        }
    }
}

/// The state of the thread over all runs.
#[derive(Debug, Default)]
pub(super) struct Thread {
    uses: HashMap<ByteString, Use>,
    calls: HashSet<ByteString>,
    /// Calls without parent: a client creates a message under the call's id, which other calls may name.
    own_carriers: HashSet<ByteString>,
    interrupts: HashSet<ByteString>,
    /// Open messages without content so far.
    empty: HashSet<ByteString>,
    /// Reasoning messages that ended without content, with the index of the end: an encrypted value may still follow.
    unsealed: Vec<(ByteString, usize)>,
    run: Option<(ByteString, ByteString)>,
}

impl Thread {
    /// Declares an earlier message of the thread.
    pub(super) fn seed(&mut self, message: &Message) {
        let used = match message {
            Message::Assistant(_) => Use::Text,
            Message::Reasoning(_) => Use::Reasoning,
            Message::Tool(_) => Use::Result,
            Message::Activity(_) => Use::Activity,
            _ => Use::Other,
        };
        self.uses.entry(message.id().into()).or_insert(used);
        for call in message.tool_calls() {
            self.uses.entry(call.id.clone()).or_insert(Use::Call);
            self.calls.insert(call.id.clone());
        }
    }

    /// Verifies an event before [`Order`] does.
    pub(super) fn handle(&mut self, event: &Event, order: &Order, report: &mut Report) {
        match event {
            Event::RunStarted(started) => {
                self.run = Some((started.thread_id.clone(), started.run_id.clone()));
                started.input.iter().flat_map(|input| &input.messages).for_each(|message| self.seed(message));
            }
            Event::RunFinished(finished) => self.finish(finished, report),
            Event::RunError(_) => {
                // An error after the end of a run has nothing left open.
                if order.phase == Phase::Active {
                    for (kind, ids) in order.open_things() {
                        report.unnoticed(Rule::OpenAtError, format!("the run fails with open {kind}: {ids}"));
                    }
                }
                self.report_unsealed(report);
            }
            Event::MessagesSnapshot(snapshot) => self.restate(snapshot, order, report),
            Event::ActivitySnapshot(activity) => self.claim(&activity.message_id, Use::Activity, report),
            Event::ActivityDelta(delta) => {
                if self.uses.get(&delta.message_id) != Some(&Use::Activity) {
                    let what = format!("activity '{}' was never shown", delta.message_id);
                    report.unnoticed(Rule::ActivityWithoutSnapshot, what);
                }
            }
            Event::ToolCallStart(start) => self.start_call(start, report),
            Event::ToolCallResult(result) => {
                if !self.calls.contains(&result.tool_call_id) {
                    let what = format!(
                        "a result for tool call '{}', which was not made in this thread",
                        result.tool_call_id
                    );
                    report.unnoticed(Rule::ResultWithoutCall, what);
                }
                self.claim(&result.message_id, Use::Result, report);
            }
            _ => self.handle_content(event, report),
        }
    }

    /// Handles the end of the stream.
    pub(super) fn end(&mut self, order: &Order, report: &mut Report) {
        if matches!(order.phase, Phase::New | Phase::Active) {
            let what = "the stream ends without RUN_FINISHED or RUN_ERROR".to_owned();
            report.unnoticed(Rule::MissingTerminal, what);
        }
        self.report_unsealed(report);
    }

    /// Verifies content, ids and parents of messages and calls.
    fn handle_content(&mut self, event: &Event, report: &mut Report) {
        match event {
            Event::TextMessageStart(start) => {
                self.claim(&start.message_id, Use::Text, report);
                self.empty.insert(start.message_id.clone());
            }
            Event::ReasoningMessageStart(start) => {
                self.claim(&start.message_id, Use::Reasoning, report);
                self.empty.insert(start.message_id.clone());
            }
            Event::TextMessageContent(content) if !content.delta.is_empty() => {
                self.empty.remove(&content.message_id);
            }
            Event::ReasoningMessageContent(content) if !content.delta.is_empty() => {
                self.empty.remove(&content.message_id);
            }
            Event::TextMessageEnd(end) if self.empty.remove(&end.message_id) => {
                let what = format!("text message '{}' ends without content", end.message_id);
                report.unnoticed(Rule::LostContent, what);
            }
            Event::ReasoningMessageEnd(end) if self.empty.remove(&end.message_id) => {
                self.unsealed.push((end.message_id.clone(), report.index));
            }
            Event::ReasoningEncryptedValue(value) if value.subtype == EncryptedSubtype::Message => {
                self.empty.remove(&value.entity_id);
                self.unsealed.retain(|(id, _)| *id != value.entity_id);
            }
            _ => {}
        }
    }

    /// Reports reasoning messages that have neither content nor an encrypted value, at the position of their end.
    fn report_unsealed(&mut self, report: &mut Report) {
        for (id, index) in self.unsealed.drain(..) {
            let what = format!("reasoning message '{id}' has neither content nor a sealed form");
            let event = "REASONING_MESSAGE_END".to_owned();
            report.add_at(index, event, Rule::LostContent, Severity::Unnoticed, what);
        }
    }

    /// Records the use of an id, and reports a second use.
    fn claim(&mut self, id: &ByteString, now: Use, report: &mut Report) {
        // The latest use replaces the earlier one: a third use is compared with the second.
        match self.uses.insert(id.clone(), now) {
            None => {}
            // A card is updated under its id, and a message that is the parent of a call may get its text.
            Some(Use::Activity) if now == Use::Activity => {}
            Some(Use::Carrier) if now == Use::Text => {}
            Some(earlier) => {
                let (earlier, now) = (earlier.word(), now.word());
                report.unnoticed(Rule::IdReused, format!("id '{id}' of {now} was already that of {earlier}"));
            }
        }
    }

    /// Records a call and its parent message, which may arrive later.
    fn start_call(&mut self, start: &ToolCallStart, report: &mut Report) {
        self.claim(&start.tool_call_id, Use::Call, report);
        self.calls.insert(start.tool_call_id.clone());
        let Some(parent) = &start.parent_message_id else {
            self.own_carriers.insert(start.tool_call_id.clone());
            return;
        };
        match self.uses.get(parent) {
            None => {
                self.uses.insert(parent.clone(), Use::Carrier);
            }
            Some(Use::Text | Use::Carrier) => {}
            Some(Use::Call) if self.own_carriers.contains(parent) => {}
            Some(other) => {
                let what = format!("the parent '{parent}' of a tool call is {}", other.word());
                report.unnoticed(Rule::ParentNotAssistant, what);
            }
        }
    }

    /// Verifies a snapshot: it must contain the messages that are open.
    fn restate(&mut self, snapshot: &MessagesSnapshot, order: &Order, report: &mut Report) {
        for open in order.open_texts() {
            if !snapshot.messages.iter().any(|message| message.id() == &**open) {
                let what = format!("the open text message '{open}' is not among the restated messages");
                report.unnoticed(Rule::SnapshotDropsOpen, what);
            }
        }
        snapshot.messages.iter().for_each(|message| self.seed(message));
    }

    /// Verifies the interrupts and pending calls at the end of a run.
    fn finish(&mut self, finished: &RunFinished, report: &mut Report) {
        self.report_unsealed(report);
        if let Some((thread, run)) = &self.run
            && (*thread != finished.thread_id || *run != finished.run_id)
        {
            let (thread_id, run_id) = (&finished.thread_id, &finished.run_id);
            let what = format!("run '{run}' of thread '{thread}' ends as run '{run_id}' of '{thread_id}'");
            report.unnoticed(Rule::RunMismatch, what);
        }
        match &finished.outcome {
            Some(RunFinishedOutcome::Interrupt(outcome)) => {
                for interrupt in &outcome.interrupts {
                    if !self.interrupts.insert(interrupt.id.clone()) {
                        let what = format!("interrupt '{}' was already asked", interrupt.id);
                        report.unnoticed(Rule::InterruptReused, what);
                    }
                }
            }
            Some(RunFinishedOutcome::Success(outcome)) => {
                for call in outcome.pending_tool_call_ids.iter().flatten() {
                    if !self.calls.contains(call) {
                        let what = format!("tool call '{call}' is pending, but was not made");
                        report.unnoticed(Rule::PendingUnknown, what);
                    }
                }
            }
            _ => {}
        }
    }
}
