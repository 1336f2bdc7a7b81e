//! `MESSAGES_SNAPSHOT`: a restated history, compared with what the run has emitted.
//!
//! A message is recognised by its id, by its content, by the ids of its tool calls, and last by its position, in this
//! order: frameworks restate what they have just streamed under fresh ids. What is recognised and equal adds nothing.
//!
//! | the snapshot | becomes |
//! |---|---|
//! | the same content, whatever its id | nothing; another id is noted ([`wellknown::IDS`]) |
//! | a streamed message with other words or arguments | one update that replaces them, and the whole as [`wellknown::MESSAGES`] |
//! | a message of this turn that was not streamed | its content |
//! | earlier messages that nothing knows | the whole as [`wellknown::MESSAGES`] |
//!
//! Cost: linear in the snapshot and in the messages of the run.

use std::collections::{HashMap, VecDeque};

use aqueduct_core::block::ToolResult;
use aqueduct_core::fingerprint::Relation;
use aqueduct_core::{
    ByteString, ContentBlock, MessageId, Metadata, Mode, Role, Source, ToolCallId, Track, Update, wellknown,
};
use foldhash::fast::RandomState;
use serde_json::{Value, json};

use super::Decoder;
use super::open::Kind;
use super::seen::{Digest, REMEMBERED, Said, Seen, Spoken, digest_of, result_print, text_of};
use crate::wire::{Base, Message, MessagesSnapshot, ToolCall, ToolMessage};

/// The track of messages that were never streamed.
const RESTATED_TRACK: &str = "restated";

/// Ids under which the source restated what it had sent under others.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// By the streamed id, for each of its messages.
    texts: HashMap<ByteString, Vec<Option<ByteString>>, RandomState>,
    /// The message of a call, by the call's id.
    calls: HashMap<ByteString, ByteString, RandomState>,
    /// By the call's id.
    results: HashMap<ByteString, ByteString, RandomState>,
}

impl Aliases {
    fn note_text(&mut self, said: &Said, restated: &str) {
        let alias = Some(restated).filter(|id| !id.is_empty() && said.id != *id).map(ByteString::from);
        if alias.is_none() && !self.texts.contains_key(&said.id) || self.texts.len() >= REMEMBERED {
            return;
        }
        let places = self.texts.entry(said.id.clone()).or_default();
        if places.len() <= said.nth {
            places.resize(said.nth + 1, None);
        }
        if let Some(place) = places.get_mut(said.nth) {
            *place = alias;
        }
    }

    fn note(
        map: &mut HashMap<ByteString, ByteString, RandomState>,
        call: &ByteString,
        streamed: &str,
        restated: &str,
    ) {
        if restated.is_empty() || streamed == restated {
            map.remove(call);
        } else if map.len() < REMEMBERED {
            map.insert(call.clone(), restated.into());
        }
    }

    /// The value of a [`wellknown::IDS`] block; none if all ids are those of the stream.
    pub(super) fn value(&self) -> Option<Value> {
        fn object<V: Ord>(map: &HashMap<ByteString, V, RandomState>, to: impl Fn(&V) -> Value) -> Value {
            let mut all: Vec<_> = map.iter().collect();
            all.sort_unstable();
            let members = all.into_iter().map(|(from, alias)| (from.to_string(), to(alias)));
            Value::Object(Metadata::from_iter(members))
        }
        if self.texts.is_empty() && self.calls.is_empty() && self.results.is_empty() {
            return None;
        }
        let id = |id: &ByteString| Value::from(&**id);
        let texts = object(&self.texts, |ids| {
            ids.iter().map(|alias| alias.as_ref().map_or(Value::Null, id)).collect()
        });
        Some(
            json!({ "texts": texts, "calls": object(&self.calls, id), "results": object(&self.results, id) }),
        )
    }
}

/// What the words of a restated message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// It has none, or they are those of the input.
    Known,
    /// Those of the streamed message at this place.
    Same(usize),
    /// Other words for the streamed message at this place.
    Changed(usize),
    /// Never streamed.
    New,
}

impl Decoder {
    pub(super) fn restate(&mut self, snapshot: &MessagesSnapshot) {
        let messages = &snapshot.messages;
        let turn = messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let turn = turn.map_or(0, |at| at + 1);
        let words = Comparison::new(&self.seen).compare(messages, turn);
        let mut pass_on = false;
        for (at, (message, words)) in messages.iter().zip(words).enumerate() {
            pass_on |= self.restate_one(message, words, at >= turn);
        }
        if pass_on {
            let value = serde_json::to_value(messages).unwrap_or_default();
            self.custom(wellknown::MESSAGES, value, None, None, snapshot.base.clone());
        }
    }

    /// Emits what is new of a message. True if it corrects what was emitted, or has no other form than the whole.
    fn restate_one(&mut self, message: &Message, words: Words, in_turn: bool) -> bool {
        match message {
            Message::Unknown(_) => return true,
            Message::User(_) | Message::System(_) | Message::Developer(_) => return false,
            Message::Activity(card) if self.seen.knows_card(&card.id) || self.seen.is_history(&card.id) => {
                return false;
            }
            _ => {}
        }
        if !in_turn {
            return !self.is_known(message, words);
        }
        match message {
            Message::Assistant(said) => {
                self.note_carrier(message);
                let changed = self.restate_words(Kind::Text, message, words);
                let calls = said.tool_calls.iter().flatten();
                calls.fold(changed, |changed, call| self.restate_call(message, call) | changed)
            }
            Message::Reasoning(_) => self.restate_words(Kind::Thought, message, words),
            Message::Tool(result) => self.restate_result(message, result),
            Message::Activity(card) => {
                self.seen.hear_card(&card.id, card.subagent_run_id.as_ref());
                let value = json!({ "type": &*card.activity_type, "content": card.content });
                let tag = card.subagent_run_id.as_ref();
                self.custom(wellknown::ACTIVITY, value, Some(&card.id), tag, Base::default());
                false
            }
            _ => false,
        }
    }

    /// True if a message before the turn says nothing that neither the input nor the run has.
    fn is_known(&self, message: &Message, words: Words) -> bool {
        let knows_calls = || message.tool_calls().iter().all(|call| self.seen.calls.contains_key(&call.id));
        self.seen.is_history(message.id())
            || match message {
                Message::Tool(result) => self.seen.results.contains_key(&result.tool_call_id),
                _ => matches!(words, Words::Known | Words::Same(_)) && knows_calls(),
            }
    }

    fn restate_words(&mut self, kind: Kind, message: &Message, words: Words) -> bool {
        let Some(text) = text_of(message).map(ByteString::from) else { return false };
        let spoken = if kind == Kind::Text { &mut self.seen.texts } else { &mut self.seen.thoughts };
        match words {
            Words::Known => false,
            Words::Same(at) => {
                if let Some(said) = spoken.order.get(at) {
                    self.aliases.note_text(said, message.id());
                }
                false
            }
            Words::Changed(at) => {
                let Some(said) = spoken.order.get_mut(at) else { return false };
                said.print = Default::default();
                said.print.push(&text);
                self.aliases.note_text(said, message.id());
                let (id, track) = (said.id.clone(), said.track.clone());
                let mut update = self.whole(message, block(kind, text));
                update.message_id = Some(MessageId::new(id));
                update.track = track;
                update.mode = Mode::Replace;
                self.emit(update);
                true
            }
            Words::New => {
                self.seen.hear(kind, &message.id().into(), &text, &Track::new(RESTATED_TRACK));
                let update = self.whole(message, block(kind, text));
                self.emit(update);
                false
            }
        }
    }

    fn restate_call(&mut self, message: &Message, call: &ToolCall) -> bool {
        let (name, arguments) = (call.function.name.clone(), call.function.arguments.clone());
        let block = ContentBlock::tool_use(call.id.clone(), name, arguments.clone());
        let is_history = self.seen.is_history(message.id());
        let Some(seen) = self.seen.calls.get_mut(&call.id) else {
            let source = self.lanes.source(message.subagent_run_id());
            self.seen.hear_call(&call.id, &source, Some(&message.id().into()));
            self.seen.hear_arguments(&call.id, &arguments);
            let update = self.whole(message, block);
            self.emit(update);
            return false;
        };
        let is_same = arguments.trim().is_empty() || seen.print.relation(&arguments) == Relation::Same;
        if is_same || is_history {
            return false;
        }
        seen.print = Default::default();
        seen.print.push(&arguments);
        let mut update = Update::new(block).from_source(&seen.source).last();
        update.message_id = seen.parent.clone().map(MessageId::new);
        update.mode = Mode::Replace;
        self.emit(update);
        true
    }

    fn restate_result(&mut self, message: &Message, result: &ToolMessage) -> bool {
        let print = result_print(&result.content);
        let known = self.seen.results.get(&result.tool_call_id);
        if let Some(known) = known {
            if !self.seen.is_history(&result.id) {
                let (call, streamed) = (&result.tool_call_id, &known.message);
                Aliases::note(&mut self.aliases.results, call, streamed, &result.id);
            }
            if known.print == print || self.seen.is_history(&result.id) {
                return false;
            }
        }
        let corrects = known.is_some();
        self.seen.hear_result(&result.tool_call_id, &result.id, &result.content);
        let block = ContentBlock::ToolResult(ToolResult {
            id: Some(ToolCallId::new(result.tool_call_id.clone())),
            name: None,
            output: super::content::output(result.content.clone()),
            is_error: result.error.is_some(),
        });
        let mut update = self.whole(message, block);
        update.role = Role::Tool;
        self.emit(update);
        corrects
    }

    /// The message of streamed calls, under the id that the snapshot has for it.
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

/// One comparison of a snapshot with the run.
struct Comparison<'a> {
    seen: &'a Seen,
    history: HashMap<Digest, usize, RandomState>,
    texts: Side<'a>,
    thoughts: Side<'a>,
}

/// The streamed messages of one kind, and which of them the snapshot has restated.
struct Side<'a> {
    spoken: &'a Spoken,
    used: Vec<bool>,
    by_digest: HashMap<Digest, VecDeque<usize>, RandomState>,
}

impl<'a> Side<'a> {
    fn new(spoken: &'a Spoken) -> Self {
        let mut by_digest: HashMap<Digest, VecDeque<usize>, RandomState> = HashMap::default();
        for (at, said) in spoken.order.iter().enumerate() {
            by_digest.entry(said.print.digest()).or_default().push_back(at);
        }
        Self { spoken, used: vec![false; spoken.order.len()], by_digest }
    }

    fn take(&mut self, at: usize) -> bool {
        self.used.get_mut(at).is_some_and(|used| !std::mem::replace(used, true))
    }

    /// A streamed message of that id with these words, or all of them if those are the words together.
    fn take_same(&mut self, id: &str, digest: Digest) -> Option<usize> {
        let spoken = self.spoken;
        let places = spoken.places(id);
        let is_same = |at: &&usize| spoken.order.get(**at).is_some_and(|said| said.print.digest() == digest);
        if let Some(at) = places.iter().filter(is_same).find(|at| self.take(**at)) {
            return Some(*at);
        }
        let first = places.first().filter(|_| spoken.is_joined(id, digest))?;
        places.iter().fold(false, |any, at| self.take(*at) | any).then_some(*first)
    }

    /// The first streamed message with these words that nothing has restated yet.
    fn take_like(&mut self, digest: Digest) -> Option<usize> {
        loop {
            let at = self.by_digest.get_mut(&digest)?.pop_front()?;
            if self.take(at) {
                return Some(at);
            }
        }
    }
}

impl<'a> Comparison<'a> {
    fn new(seen: &'a Seen) -> Self {
        let (texts, thoughts) = (Side::new(&seen.texts), Side::new(&seen.thoughts));
        Self { seen, history: seen.history_texts.clone(), texts, thoughts }
    }

    fn side(&mut self, message: &Message) -> &mut Side<'a> {
        if matches!(message, Message::Reasoning(_)) { &mut self.thoughts } else { &mut self.texts }
    }

    /// The words of each message; from the place `turn` on they are the run's.
    fn compare(mut self, messages: &[Message], turn: usize) -> Vec<Words> {
        let mut words: Vec<Option<Words>> = vec![None; messages.len()];
        for step in [Self::by_id, Self::by_content, Self::by_history, Self::by_owner] {
            for (at, (message, words)) in messages.iter().zip(&mut words).enumerate() {
                if words.is_none() {
                    *words = step(&mut self, message, at >= turn);
                }
            }
        }
        self.by_position(messages, turn, &mut words);
        words.into_iter().map(|words| words.unwrap_or(Words::New)).collect()
    }

    fn by_id(&mut self, message: &Message, _in_turn: bool) -> Option<Words> {
        let Some(digest) = text_of(message).map(digest_of) else { return Some(Words::Known) };
        if self.seen.is_history(message.id()) {
            self.consume(digest);
            return Some(Words::Known);
        }
        self.side(message).take_same(message.id(), digest).map(Words::Same)
    }

    fn by_content(&mut self, message: &Message, in_turn: bool) -> Option<Words> {
        let digest = text_of(message).map(digest_of).filter(|_| in_turn)?;
        self.side(message).take_like(digest).map(Words::Same)
    }

    fn by_history(&mut self, message: &Message, _in_turn: bool) -> Option<Words> {
        let digest = text_of(message).map(digest_of)?;
        self.consume(digest).then_some(Words::Known)
    }

    /// Other words under a known id, or with the calls of a known message.
    fn by_owner(&mut self, message: &Message, in_turn: bool) -> Option<Words> {
        if !in_turn {
            return None;
        }
        let parents =
            message.tool_calls().iter().filter_map(|call| self.seen.calls.get(&call.id)?.parent.clone());
        let ids: Vec<ByteString> = std::iter::once(message.id().into()).chain(parents).collect();
        let side = self.side(message);
        let spoken = side.spoken;
        ids.iter().flat_map(|id| spoken.places(id)).find(|at| side.take(**at)).map(|at| Words::Changed(*at))
    }

    /// As many texts as were streamed: one that is left over on both sides at the same place is the same one.
    fn by_position(&mut self, messages: &[Message], turn: usize, words: &mut [Option<Words>]) {
        for kind in [Kind::Text, Kind::Thought] {
            let is_kind =
                |message: &Message| matches!(message, Message::Reasoning(_)) == (kind == Kind::Thought);
            let of_kind = |at: &usize| {
                let message = messages.get(*at).filter(|message| is_kind(message));
                message
                    .is_some_and(|message| text_of(message).is_some() && !self.seen.is_history(message.id()))
            };
            let places: Vec<usize> = (turn..messages.len()).filter(of_kind).collect();
            let side = if kind == Kind::Text { &mut self.texts } else { &mut self.thoughts };
            if places.len() != side.spoken.order.len() {
                continue;
            }
            for (streamed, at) in places.into_iter().enumerate() {
                if let Some(words) = words.get_mut(at).filter(|words| words.is_none())
                    && side.take(streamed)
                {
                    *words = Some(Words::Changed(streamed));
                }
            }
        }
    }

    fn consume(&mut self, digest: Digest) -> bool {
        let Some(left) = self.history.get_mut(&digest).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }
}
