//! Interrupts, which end a turn; and the repetition of the one that this turn answers, which does not.
//!
//! ```text
//! input-required, no reply yet            ──► InterruptRequested, the turn ends
//! input-required, equal to the answered   ──► held ── more input ──────────► dropped: the agent continues
//!                                                  └─ end of the stream ───► InterruptRequested, the turn ends
//! input-required with calls of tools that
//!   the frontend offered, and nothing else ─► tool calls, the turn ends as a success
//! auth-required with `KeepsStream`         ─► InterruptRequested, the stream stays open
//! ```
//!
//! Agents repeat a task before they continue it, with the answered interrupt as its status. So an interrupt that
//! repeats the answered one is held until the next event decides.

use aqueduct_core::fingerprint::hash_text;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, InterruptId, Metadata, SourceEvent, Timestamp,
};
use serde_json::Value;

use super::sink::Sink;
use super::status::{joined_text, other_parts, response_schema};
use super::{AtEnd, Decoder, Settled, metadata, shared};
use crate::config::{AuthRequired, InterruptView};
use crate::question::{self, Question};
use crate::recognise::Sign;
use crate::wire::{Message, Part, TaskState};

/// The identity of an interrupt, kept in the task memory: the next turn compares the first statuses with it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// A hash of the id of its message; `None` if the message had none, or there was none.
    message: Option<u64>,
    /// The time of the status.
    at: Option<Timestamp>,
    /// The turn in which it was requested.
    turn: u32,
}

impl Asked {
    /// Returns the identity of an interrupt that arrives in that turn.
    fn of(message: Option<&Message<'_>>, at: Option<Timestamp>, turn: u32) -> Self {
        let message = message.and_then(|message| message.message_id.set()).map(hash_text);
        Self { message, at, turn }
    }

    /// Returns `true` if it equals one of an earlier turn: the same message, with the same or no time; or, for messages
    /// without an id, the same time.
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
    /// Handles `input-required` and `auth-required`.
    ///
    /// Held texts are settled first: one that the interrupt repeats is dropped, the others are notices.
    pub(super) fn ask(
        &mut self,
        state: &TaskState<'_>,
        message: Option<Message<'_>>,
        beside: Metadata,
        at: Option<Timestamp>,
        sink: &mut Sink<'_>,
    ) {
        if let Some(message) = &message {
            self.settle_held(&self.words(&message.parts), &message.parts, false, sink);
        }
        self.release(sink);
        if self.config.interrupts == InterruptView::Text {
            self.ask_in_words(state, message, beside, sink);
            return self.finish(Settled::Completed, sink.out);
        }
        if let Some(message) = &message {
            // The history of the next turn contains this message.
            let text = joined_text(&message.parts);
            self.memory.messages.note(message, &text, true, &self.config.limits);
        }
        let asked = Asked::of(message.as_ref(), at, self.memory.turn);
        if let Some(message) = message.as_ref().filter(|message| self.calls_frontend(message)) {
            return self.call_frontend(message, asked, sink);
        }
        // Only a turn that replies can see the answered interrupt again; in any other turn an equal one is new.
        let is_answered = self.config.follow_up
            && self.memory.asked.as_ref().is_some_and(|answered| asked.repeats(answered));
        let interrupts = self.questions(state, message.as_ref(), beside);
        self.memory.interrupts = interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
        if is_answered {
            // The next events show whether the agent continues or asks once more.
            self.at_end = AtEnd::AsksAgain;
            self.held = interrupts;
            return;
        }
        self.memory.asked = Some(asked);
        for interrupt in interrupts {
            sink.push(SourceEvent::InterruptRequested {
                source: self.source.clone(),
                interrupt: Box::new(interrupt),
            });
        }
        let is_auth = matches!(state, TaskState::AuthRequired);
        // The user authorises the agent elsewhere, and the agent continues on the same stream.
        if is_auth && self.config.auth_required == AuthRequired::KeepsStream {
            self.at_end = AtEnd::Waits;
        } else {
            self.finish(Settled::Interrupted, sink.out);
        }
    }

    /// Returns `true` if a task waits only for tools that the frontend offered (`DecodeConfig::frontend_tools`):
    /// every part that is not text is a call of such a tool, and there is at least one.
    fn calls_frontend(&self, message: &Message<'_>) -> bool {
        let offered = &self.config.frontend_tools;
        let is_call = |part: &Part<'_>| match self.config.recognisers.part(part) {
            Some(Sign::ToolStarted(start)) => offered.iter().any(|name| **name == *start.name),
            _ => false,
        };
        let mut calls = message.parts.iter().filter(|part| part.as_text().is_none()).peekable();
        !offered.is_empty() && calls.peek().is_some() && calls.all(is_call)
    }

    /// Emits the calls and the end of the turn: the frontend executes them, and the next turn contains their results.
    /// Text of the message is intermediate.
    fn call_frontend(&mut self, message: &Message<'_>, asked: Asked, sink: &mut Sink<'_>) {
        self.memory.interrupts.clear();
        self.memory.asked = Some(asked);
        let words = message.text();
        if !words.trim().is_empty() {
            let text = ContentBlock::text(words);
            sink.push(self.update(text, Channel::Intermediate).last());
        }
        for (at, part) in message.parts.iter().enumerate() {
            let Some(Sign::ToolStarted(start)) = self.config.recognisers.part(part) else { continue };
            let id = ByteString::from(format!("{}#{at}", &*message.message_id));
            let call = self.calls.start(start, id, self.config.limits.open_calls);
            sink.push(self.update(call, Channel::Answer).last());
        }
        self.finish(Settled::CalledFrontend, sink.out);
    }

    /// Emits an interrupt as text of the answer, for frontends without interrupts. The task still waits: its
    /// interrupts are remembered, so that the next message of the user is sent as the reply.
    ///
    /// An interrupt that consists of data gets the text that is found in its data.
    fn ask_in_words(
        &mut self,
        state: &TaskState<'_>,
        message: Option<Message<'_>>,
        beside: Metadata,
        sink: &mut Sink<'_>,
    ) {
        let has_words = message.as_ref().is_some_and(|message| !message.text().trim().is_empty());
        let interrupts = self.questions(state, message.as_ref(), Metadata::new());
        self.memory.interrupts = interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
        let words: Vec<&str> =
            interrupts.iter().filter_map(|interrupt| interrupt.message.as_deref()).collect();
        let mut message = message.unwrap_or_default();
        if !has_words && !words.is_empty() {
            message.parts = vec![Part::text(words.join("\n"))];
        }
        if !message.parts.is_empty() {
            self.say(message, beside, None, Channel::Answer, true, sink);
        }
    }

    /// Returns the interrupts of a status: one for each question of its framework, or one for the status.
    ///
    /// The form that an artifact announced before (`UserInputMetaData` of CAIPE, `Interrupt` of `LangGraph`) is used
    /// up here. The text of an interrupt is that of the question, else of the message, else found in the data.
    fn questions(
        &mut self,
        state: &TaskState<'_>,
        message: Option<&Message<'_>>,
        beside: Metadata,
    ) -> Vec<Interrupt> {
        let form = self.form.take();
        let parts = message.map(|message| &*message.parts).unwrap_or_default();
        let found = question::questions(parts, form.as_ref());
        let text = message.map(Message::text).filter(|text| !text.trim().is_empty());
        let status = self.question(state, message, form.as_ref(), beside);
        if found.is_empty() {
            let words = text.or_else(|| question::words_of_data(parts, form.as_ref()));
            return vec![Interrupt { message: words.map(Into::into), ..status }];
        }
        let of_question = |question: Question| {
            let mut interrupt = status.clone();
            if let Some(id) = question.shape.id(&self.memory.task_id) {
                interrupt.id = InterruptId::new(id);
            }
            interrupt.message = question.words.or_else(|| text.clone()).map(Into::into);
            interrupt.response_schema = question.schema.or(interrupt.response_schema);
            interrupt
        };
        found.into_iter().map(of_question).collect()
    }

    /// Returns an interrupt with what all interrupts of a status share: id, reason, schema, and metadata with the
    /// task's ids, the state, the form, the parts that are not text, and the message's own metadata.
    fn question(
        &self,
        state: &TaskState<'_>,
        message: Option<&Message<'_>>,
        form: Option<&Value>,
        beside: Metadata,
    ) -> Interrupt {
        let is_auth = matches!(state, TaskState::AuthRequired);
        let asked = message.and_then(|message| message.message_id.set());
        // The id is stable: the same interrupt of the same task has the same id, however often it is sent.
        let id = match asked {
            Some(asked) => format!("{}:{asked}", self.memory.task_id),
            None => format!("{}:{}:{}", self.memory.task_id, state.v03_name(), self.memory.turn),
        };
        let reason = if is_auth { "auth_required" } else { "input_required" };
        let mut interrupt = Interrupt::new(id, ByteString::from_static(reason));
        let mut beside_it = self.task_metadata();
        beside_it.insert("state".to_owned(), state.v03_name().into());
        if let Some(form) = form {
            beside_it.insert("form".to_owned(), form.clone());
        }
        if let Some(message) = message {
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

    /// Returns `true` if the agent has repeated the interrupt that this turn answers, and sent nothing since. A
    /// caller that polls the task can give up earlier then.
    pub fn asks_again(&self) -> bool {
        self.at_end == AtEnd::AsksAgain
    }

    /// Handles input after an interrupt: the agent continues, so the end of the stream is a cut again. A held
    /// interrupt was only repeated, and is dropped.
    pub(super) fn go_on(&mut self) {
        let was_held = !std::mem::take(&mut self.held).is_empty();
        if was_held || self.at_end == AtEnd::Waits {
            self.at_end = AtEnd::Cut;
        }
    }

    /// Emits a held interrupt, because the stream ended: it is pending.
    pub(super) fn ask_again(&mut self, out: &mut Vec<SourceEvent>) {
        for interrupt in std::mem::take(&mut self.held) {
            out.push(SourceEvent::InterruptRequested {
                source: self.source.clone(),
                interrupt: Box::new(interrupt),
            });
        }
        self.finish(Settled::Interrupted, out);
    }
}
