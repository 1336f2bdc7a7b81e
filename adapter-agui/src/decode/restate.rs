//! `MESSAGES_SNAPSHOT`: a restated history, compared with the emitted content of the run.
//!
//! A message is recognised by its id, by its content, by the ids of its tool calls, and last by its position, in this order:
//! frameworks restate the messages that they have just streamed under new ids. Equal messages add nothing.
//!
//! | the snapshot | becomes |
//! |---|---|
//! | the same content under any id | nothing; another id is recorded ([`wellknown::IDS`]) |
//! | a streamed message with another text or other arguments | one update that replaces them, and the whole as [`wellknown::MESSAGES`] |
//! | a message of this turn that was not streamed | its content |
//! | one message with text and calls that were streamed as several | the whole as [`wellknown::MESSAGES`], as every later snapshot of the run |
//! | a failed tool result (no event carries its `error`) | the result, and the whole as [`wellknown::MESSAGES`] |
//! | earlier messages that are unknown | the whole as [`wellknown::MESSAGES`] |
//!
//! Cost: linear in the snapshot and in the messages of the run.

use aqueduct_core::block::ToolResult;
use aqueduct_core::fingerprint::{Fingerprint, JsonFingerprint, Relation};
use aqueduct_core::update::Details;
use aqueduct_core::{
    ByteString, ContentBlock, MessageId, Metadata, Mode, Role, Source, ToolCallId, Track, Update, wellknown,
};
use serde_json::json;

use super::Decoder;
use super::aliases::Aliases;
use super::compare::{Comparison, TextMatch};
use super::open::Kind;
use super::seen::{result_print, text_of};
use crate::input::META_ERROR;
use crate::wire::{Base, Message, MessagesSnapshot, ToolCall, ToolMessage};

/// The track of messages that were not streamed.
const RESTATED_TRACK: &str = "restated";

impl Decoder {
    /// Compares a snapshot with the run, and emits the new and corrected content.
    pub(super) fn restate(&mut self, snapshot: &MessagesSnapshot) {
        let messages = &snapshot.messages;
        let turn = messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let turn = turn.map_or(0, |at| at + 1);
        let matches = Comparison::new(&self.seen).compare(messages, turn);
        self.regroups |= self.is_regrouped(messages.get(turn..).unwrap_or_default(), matches.get(turn..));
        let mut pass_on = self.regroups;
        for (at, (message, matches)) in messages.iter().zip(matches).enumerate() {
            pass_on |= self.restate_one(message, matches, at >= turn);
        }
        if pass_on {
            let value = serde_json::to_value(messages).unwrap_or_default();
            self.custom(wellknown::MESSAGES, value, None, None, snapshot.base.clone());
        }
    }

    /// Returns `true` if the snapshot has text and calls in one message that clients hold in several: the source named no parent
    /// of the calls, so only the snapshot groups them. From then on clients use the ids of the snapshot.
    fn is_regrouped(&self, turn: &[Message], matches: Option<&[TextMatch]>) -> bool {
        turn.iter().zip(matches.unwrap_or_default()).any(|(message, matches)| {
            let text = match matches {
                TextMatch::Same(at) | TextMatch::Changed(at) => {
                    self.seen.texts.order.get(*at).map(|streamed| &streamed.id)
                }
                TextMatch::Known | TextMatch::New => None,
            };
            let carrier = |call: &ToolCall| {
                let seen = self.seen.calls.get(&call.id)?;
                Some(seen.parent.clone().unwrap_or_else(|| call.id.clone()))
            };
            let calls = message.tool_calls().iter().filter_map(carrier);
            let mut held =
                text.filter(|_| matches!(message, Message::Assistant(_))).cloned().into_iter().chain(calls);
            let first = held.next();
            !self.seen.is_history(message.id()) && held.any(|other| Some(&other) != first.as_ref())
        })
    }

    /// Emits the new content of a message. Returns `true` if it corrects emitted content, or has no form but the whole.
    fn restate_one(&mut self, message: &Message, matches: TextMatch, in_turn: bool) -> bool {
        match message {
            Message::Unknown(_) => return true,
            Message::User(_) | Message::System(_) | Message::Developer(_) => return false,
            Message::Activity(card) if self.seen.knows_card(&card.id) || self.seen.is_history(&card.id) => {
                return false;
            }
            _ => {}
        }
        if !in_turn {
            return !self.is_known(message, matches);
        }
        match message {
            Message::Assistant(streamed) => {
                self.note_carrier(message);
                let changed = self.restate_text(Kind::Text, message, matches);
                let calls = streamed.tool_calls.iter().flatten();
                calls.fold(changed, |changed, call| self.restate_call(message, call) | changed)
            }
            Message::Reasoning(_) => self.restate_text(Kind::Thought, message, matches),
            Message::Tool(result) => self.restate_result(message, result),
            Message::Activity(card) => {
                self.seen.add_card(&card.id, card.subagent_run_id.as_ref());
                let value = json!({ "type": &*card.activity_type, "content": card.content });
                let tag = card.subagent_run_id.as_ref();
                self.custom(wellknown::ACTIVITY, value, Some(&card.id), tag, Base::default());
                false
            }
            _ => false,
        }
    }

    /// Returns `true` if a message before the turn has no content beyond that of the input and the run.
    fn is_known(&self, message: &Message, matches: TextMatch) -> bool {
        let knows_calls = || message.tool_calls().iter().all(|call| self.seen.calls.contains_key(&call.id));
        self.seen.is_history(message.id())
            || match message {
                Message::Tool(result) => self.seen.results.contains_key(&result.tool_call_id),
                _ => matches!(matches, TextMatch::Known | TextMatch::Same(_)) && knows_calls(),
            }
    }

    /// Emits the text of a message if it is new or changed. Returns `true` if it was changed.
    fn restate_text(&mut self, kind: Kind, message: &Message, matches: TextMatch) -> bool {
        let Some(text) = text_of(message).map(ByteString::from) else { return false };
        let streamed_texts = if kind == Kind::Text { &mut self.seen.texts } else { &mut self.seen.thoughts };
        match matches {
            TextMatch::Known => false,
            TextMatch::Same(at) => {
                if let Some(streamed) = streamed_texts.order.get(at) {
                    self.aliases.note_text(streamed, message.id());
                }
                false
            }
            TextMatch::Changed(at) => {
                let Some(streamed) = streamed_texts.order.get_mut(at) else { return false };
                streamed.print = Fingerprint::default();
                streamed.print.push(&text);
                self.aliases.note_text(streamed, message.id());
                let (id, track) = (streamed.id.clone(), streamed.track.clone());
                let mut update = self.whole(message, block(kind, text));
                update.message_id = Some(MessageId::new(id));
                update.track = track;
                update.mode = Mode::Replace;
                self.emit(update);
                true
            }
            TextMatch::New => {
                self.seen.add_text(kind, &message.id().into(), &text, &Track::new(RESTATED_TRACK));
                let update = self.whole(message, block(kind, text));
                self.emit(update);
                false
            }
        }
    }

    /// Emits a call that was not streamed, or corrected arguments. Returns `true` for the latter.
    fn restate_call(&mut self, message: &Message, call: &ToolCall) -> bool {
        let (name, arguments) = (call.function.name.clone(), call.function.arguments.clone());
        let block = ContentBlock::tool_use(call.id.clone(), name, arguments.clone());
        let is_history = self.seen.is_history(message.id());
        let Some(seen) = self.seen.calls.get_mut(&call.id) else {
            let source = self.lanes.source(message.subagent_run_id());
            self.seen.add_call(&call.id, &source, Some(&message.id().into()));
            self.seen.add_arguments(&call.id, &arguments);
            let update = self.whole(message, block);
            self.emit(update);
            return false;
        };
        let is_same = arguments.trim().is_empty() || seen.print.relation(&arguments) == Relation::Same;
        if is_same || is_history {
            return false;
        }
        seen.print = JsonFingerprint::default();
        seen.print.push(&arguments);
        let mut update = Update::new(block).from_source(&seen.source).last();
        update.message_id = seen.parent.clone().map(MessageId::new);
        update.mode = Mode::Replace;
        self.emit(update);
        true
    }

    /// Emits a result that was not streamed. Returns `true` if only the whole snapshot can represent it.
    fn restate_result(&mut self, message: &Message, result: &ToolMessage) -> bool {
        let (print, is_error) = (result_print(&result.content), result.error.is_some());
        let known = self.seen.results.get(&result.tool_call_id);
        if let Some(known) = known {
            if !self.seen.is_history(&result.id) {
                let (call, streamed) = (&result.tool_call_id, &known.message);
                Aliases::note(&mut self.aliases.results, call, streamed, &result.id);
            }
            let is_same = known.print == print && (known.is_error || !is_error);
            if is_same || self.seen.is_history(&result.id) {
                return false;
            }
        }
        let pass_on = known.is_some() || is_error;
        self.seen.add_result(&result.tool_call_id, &result.id, &result.content, is_error);
        let block = ContentBlock::from(ToolResult {
            id: Some(ToolCallId::new(result.tool_call_id.clone())),
            name: None,
            output: super::content::output(result.content.clone()),
            is_error,
        });
        let mut update = self.whole(message, block);
        update.role = Role::Tool;
        update.details = result.error.as_deref().map(|error| {
            let metadata = Metadata::from_iter([(META_ERROR.to_owned(), error.into())]);
            Box::new(Details { metadata: Some(metadata.into()), ..Details::default() })
        });
        self.emit(update);
        pass_on
    }

    /// Records the message of streamed calls, under its id in the snapshot.
    fn note_carrier(&mut self, message: &Message) {
        if self.seen.is_history(message.id()) {
            return;
        }
        for call in message.tool_calls() {
            if let Some(seen) = self.seen.calls.get(&call.id) {
                let streamed = seen.parent.as_ref().unwrap_or(&call.id);
                Aliases::note(&mut self.aliases.calls, &call.id, streamed, message.id());
            }
        }
    }

    /// Returns an update with the complete content of a message that was not streamed.
    fn whole(&mut self, message: &Message, block: ContentBlock) -> Update {
        let source: Source = self.lanes.source(message.subagent_run_id());
        let mut update = Update::new(block).from_source(&source).snapshot().last();
        update.message_id = Some(MessageId::from(message.id()));
        update.track = Track::new(RESTATED_TRACK);
        update
    }
}

fn block(kind: Kind, text: ByteString) -> ContentBlock {
    match kind {
        Kind::Text => ContentBlock::text(text),
        Kind::Thought => ContentBlock::thinking(text),
    }
}
