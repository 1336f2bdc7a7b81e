//! Complete tasks: the first event of a stream, the response to a blocking call, the snapshot after a reconnect, the
//! end.
//!
//! A task is decoded in the order history, artifacts, status; content that was shown before adds nothing. The history
//! contains status messages that were sent while no stream was open.

use aqueduct_core::fingerprint::Relation;
use aqueduct_core::{Channel, Metadata};
use serde_json::Value;

use super::artifact::Arrival;
use super::marked::MessageOrigin;
use super::memory::Kind;
use super::sink::Sink;
use super::speech::StatusText;
use super::status::{joined_text, raw_metadata};
use super::{Decoder, metadata};
use crate::mark;
use crate::wire::{Message, Role, StateClass, Task, Text};

impl Decoder {
    /// Decodes a complete task: emits what is new in its artifacts, history and status.
    pub(super) fn task(&mut self, task: Task<'_>, sink: &mut Sink<'_>) {
        self.record_task(&task.id, &task.context_id, sink);
        let class = task.status.state.class();
        // The first snapshot of a further turn contains the content of earlier turns; if another client decoded them,
        // it is recorded as known. (A task that has already ended is the answer itself.)
        let is_baseline = self.is_first
            && self.config.follow_up
            && class == StateClass::Active
            && self.memory.artifacts.is_empty();
        self.history(task.history, is_baseline, sink);
        for artifact in task.artifacts {
            if is_baseline || self.memory.is_left_by_earlier_turn(&artifact) {
                let place = self.memory.place(&artifact, false, false);
                let turn = self.memory.turn;
                let record = self.memory.record(&place, Kind::Words(Channel::Answer), &self.config.limits);
                record.set(&joined_text(&artifact.parts));
                // An answer of an earlier turn.
                record.begin_turn(turn.saturating_sub(1));
                continue;
            }
            // A complete artifact: replaces what is known, and the stream machine shows the difference.
            let arrival = Arrival { append: false, last: class == StateClass::Terminal, live: false };
            self.artifact(artifact, Metadata::new(), arrival, sink);
        }
        // Lanes that ended in the history end after their artifacts, which were decoded just now.
        self.end_meanwhile(sink);
        let mut beside = Metadata::new();
        let mut own = raw_metadata(task.metadata.as_ref());
        // The mark of a task names the run at Aqueduct's server; no event needs it.
        if self.reads_marks() {
            own.remove(mark::KEY);
        }
        if !own.is_empty() {
            beside.insert(metadata::EVENT.to_owned(), Value::Object(own));
        }
        if !task.extra.is_empty() {
            beside.insert(metadata::UNKNOWN.to_owned(), Value::Object(task.extra.to_values().collect()));
        }
        self.status(task.status, beside, false, sink);
    }

    /// Emits messages of the agent that were not received before. Messages of users are known.
    ///
    /// The history up to the message that this turn sent belongs to earlier turns, and is recorded without being
    /// shown; so is all of it in a baseline. If the history does not contain that message, the ids alone decide.
    fn history(&mut self, history: Vec<Message<'_>>, is_baseline: bool, sink: &mut Sink<'_>) {
        let sent = self.config.sent_message_id.as_deref();
        let after = sent.and_then(|sent| history.iter().rposition(|message| *message.message_id == *sent));
        for (at, message) in history.into_iter().enumerate() {
            let is_agent = matches!(message.role, Role::Agent | Role::Unspecified);
            if !is_agent {
                continue;
            }
            if is_baseline || after.is_some_and(|after| at <= after) {
                let text = joined_text(&message.parts);
                self.memory.messages.note(&message, &text, false, &self.config.limits);
                continue;
            }
            self.past_message(message, sink);
        }
    }

    /// Handles a message of the history. One that repeats the answer is the answer as the server stored it, and adds
    /// nothing.
    fn past_message(&mut self, message: Message<'_>, sink: &mut Sink<'_>) {
        if self.reads_marks() && self.marked_message(&message, MessageOrigin::History, false, sink) {
            return;
        }
        let text = joined_text(&message.parts);
        let repeats =
            self.memory.answers().any(|(_, record)| record.text.relation_of_whole(&text) == Relation::Same);
        if repeats {
            self.memory.messages.note(&message, &text, false, &self.config.limits);
            return;
        }
        let mut past = StatusText::new(message, None, Text::default());
        past.live = false;
        self.stream_text(&mut past, sink);
    }
}
