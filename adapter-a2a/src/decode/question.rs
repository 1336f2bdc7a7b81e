//! Questions to the user, which end a turn; and the one that this turn answers, which does not.
//!
//! Agents restate a task before they go on with it, with the question that was just answered as its status. So a
//! question that repeats the answered one is held back: if anything follows, the agent has gone on; if the stream ends
//! with it, the question stands.

use aqueduct_core::{ByteString, Channel, Interrupt, Metadata, SourceEvent, Timestamp};
use serde_json::Value;

use super::print::Print;
use super::sink::Sink;
use super::status::{joined_text, other_parts, response_schema};
use super::{AtEnd, Decoder, Settled, metadata, shared};
use crate::config::{AuthRequired, InterruptView};
use crate::wire::{Message, TaskState};

/// What a question is known by.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The id of its message, as a number.
    message: Option<u64>,
    at: Option<Timestamp>,
    turn: u32,
}

impl Asked {
    fn of(message: Option<&Message<'_>>, at: Option<Timestamp>, turn: u32) -> Self {
        let message = message.and_then(|message| message.message_id.set()).map(Print::number);
        Self { message, at, turn }
    }

    /// True if it is the same as one of an earlier turn: the same message, of no other moment; or, where messages have
    /// no id, of the same moment.
    fn repeats(&self, earlier: &Self) -> bool {
        let same_moment = self.at.zip(earlier.at).map(|(own, other)| own == other);
        let is_same = match (self.message, earlier.message) {
            (Some(own), Some(other)) => own == other && same_moment != Some(false),
            (None, None) => same_moment == Some(true),
            _ => false,
        };
        is_same && earlier.turn < self.turn
    }
}

impl Decoder {
    /// `input-required` and `auth-required`.
    pub(super) fn ask(
        &mut self,
        state: &TaskState<'_>,
        message: Option<Message<'_>>,
        beside: Metadata,
        at: Option<Timestamp>,
        sink: &mut Sink<'_>,
    ) {
        if let Some(message) = &message {
            self.settle_held(&self.words(&message.parts), false, sink);
        }
        self.release(sink);
        if self.config.interrupts == InterruptView::Text {
            if let Some(message) = message {
                self.say(message, beside, None, Channel::Answer, true, sink);
            }
            return self.finish(Settled::Completed, sink.out);
        }
        if let Some(message) = &message {
            // The next turn's history has the question among what was said.
            let text = joined_text(&message.parts);
            self.memory.messages.note(message, &text, true, &self.config.limits);
        }
        let asked = Asked::of(message.as_ref(), at, self.memory.turn);
        let is_answered = self.config.follow_up
            && self.memory.asked.as_ref().is_some_and(|answered| asked.repeats(answered));
        let interrupt = self.question(state, message.as_ref(), beside);
        if is_answered {
            // What comes next tells whether the agent goes on or asks once more.
            self.at_end = AtEnd::AsksAgain;
            self.held = Some(interrupt);
            return;
        }
        self.memory.asked = Some(asked);
        sink.push(SourceEvent::InterruptRequested { source: self.source.clone(), interrupt });
        let is_auth = matches!(state, TaskState::AuthRequired);
        if is_auth && self.config.auth_required == AuthRequired::KeepsStream {
            self.at_end = AtEnd::Waits;
        } else {
            self.finish(Settled::Interrupted, sink.out);
        }
    }

    fn question(
        &mut self,
        state: &TaskState<'_>,
        message: Option<&Message<'_>>,
        beside: Metadata,
    ) -> Interrupt {
        let is_auth = matches!(state, TaskState::AuthRequired);
        let asked = message.and_then(|message| message.message_id.set());
        // Stable: the same question of the same task has the same id, however often it is told.
        let id = match asked {
            Some(asked) => format!("{}:{asked}", self.memory.task_id),
            None => format!("{}:{}:{}", self.memory.task_id, state.v03_name(), self.memory.turn),
        };
        let reason = if is_auth { "auth_required" } else { "input_required" };
        let mut interrupt = Interrupt::new(id, ByteString::from_static(reason));
        let mut beside_it = self.task_metadata();
        beside_it.insert("state".to_owned(), state.v03_name().into());
        if let Some(form) = self.form.take() {
            beside_it.insert("form".to_owned(), form);
        }
        if let Some(message) = message {
            let text = message.text();
            interrupt.message = (!text.is_empty()).then(|| text.into());
            interrupt.response_schema = response_schema(&message.parts);
            let parts = other_parts(&message.parts);
            if !parts.is_empty() {
                beside_it.insert("parts".to_owned(), Value::Array(parts));
            }
            let own = metadata::of_message(message);
            if !own.is_empty() {
                beside_it.insert("metadata".to_owned(), Value::Object(own));
            }
        }
        beside_it.extend(beside);
        interrupt.metadata = shared(beside_it);
        interrupt
    }

    /// True if the agent has only told the question that this turn answers.
    pub(crate) fn asks_again(&self) -> bool {
        self.at_end == AtEnd::AsksAgain
    }

    /// More came after a question that was held back: it was only restated.
    pub(super) fn go_on(&mut self) {
        if self.held.take().is_some() {
            self.at_end = AtEnd::Cut;
        }
    }

    /// Nothing more came: the question stands.
    pub(super) fn ask_again(&mut self, out: &mut Vec<SourceEvent>) {
        if let Some(interrupt) = self.held.take() {
            out.push(SourceEvent::InterruptRequested { source: self.source.clone(), interrupt });
        }
        self.finish(Settled::Interrupted, out);
    }
}
