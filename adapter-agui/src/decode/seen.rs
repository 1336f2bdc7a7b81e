//! What the stream has said so far, as far as a restated history must be compared with it.
//!
//! Texts are kept as fingerprints: a message costs some tens of bytes, however long it is.

use std::collections::{HashMap, HashSet};

use aqueduct_core::ByteString;
use aqueduct_core::fingerprint::{Fingerprint, Relation};
use foldhash::fast::RandomState;

use crate::wire::{Message, RunAgentInput};

/// How many messages, calls and results of each kind are remembered. A run with more than that is still decoded; only
/// a history that restates its later ones is then passed on instead of being recognised. About 6 MB at the limit.
pub(super) const REMEMBERED: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Seen {
    history: HashSet<ByteString, RandomState>,
    texts: HashMap<ByteString, Fingerprint, RandomState>,
    thoughts: HashMap<ByteString, Fingerprint, RandomState>,
    calls: HashSet<ByteString, RandomState>,
    results: HashSet<ByteString, RandomState>,
    /// Cards and the tags they were shown under.
    cards: HashMap<ByteString, Option<ByteString>, RandomState>,
}

impl Seen {
    /// Declares what the run starts from.
    pub(super) fn know_input(&mut self, input: &RunAgentInput) {
        for message in &input.messages {
            self.history.insert(message.id().into());
            self.calls.extend(message.tool_calls().iter().map(|call| call.id.clone()));
            if let Message::Tool(result) = message {
                self.results.insert(result.tool_call_id.clone());
            }
        }
    }

    pub(super) fn hear_text(&mut self, id: &ByteString, text: &str) {
        hear(&mut self.texts, id, text);
    }

    pub(super) fn hear_thought(&mut self, id: &ByteString, text: &str) {
        hear(&mut self.thoughts, id, text);
    }

    pub(super) fn hear_call(&mut self, id: &ByteString) {
        remember(&mut self.calls, id);
    }

    pub(super) fn hear_result(&mut self, call: &ByteString) {
        remember(&mut self.results, call);
    }

    pub(super) fn hear_card(&mut self, id: &ByteString, tag: Option<&ByteString>) {
        if self.cards.len() < REMEMBERED || self.cards.contains_key(id) {
            self.cards.insert(detached(id), tag.map(detached));
        }
    }

    /// The tag of a card: a change of it need not repeat it.
    pub(super) fn card_tag(&self, id: &ByteString) -> Option<ByteString> {
        self.cards.get(id).cloned().flatten()
    }

    pub(super) fn knows_text(&self, id: &str) -> bool {
        self.texts.contains_key(id)
    }

    pub(super) fn knows_call(&self, id: &str) -> bool {
        self.calls.contains(id)
    }

    pub(super) fn knows_result(&self, call: &str) -> bool {
        self.results.contains(call)
    }

    /// True if anything under the message's own id was heard.
    pub(super) fn knows(&self, message: &Message) -> bool {
        let id = message.id();
        self.history.contains(id)
            || match message {
                Message::Assistant(_) => self.texts.contains_key(id),
                Message::Reasoning(_) => self.thoughts.contains_key(id),
                Message::Tool(result) => self.results.contains(&result.tool_call_id),
                Message::Activity(_) => self.cards.contains_key(id),
                _ => false,
            }
    }

    /// True if the message says nothing that was not heard. What others said is input, not output.
    pub(super) fn restates(&self, message: &Message) -> bool {
        if self.history.contains(message.id()) {
            return true;
        }
        match message {
            Message::User(_) | Message::System(_) | Message::Developer(_) => true,
            Message::Assistant(said) => {
                let text = said.content.as_deref().unwrap_or("");
                let same = text.is_empty() || restated(self.texts.get(&said.id), text);
                same && message.tool_calls().iter().all(|call| self.calls.contains(&call.id))
            }
            Message::Reasoning(thought) => restated(self.thoughts.get(&thought.id), &thought.content),
            Message::Tool(_) | Message::Activity(_) => self.knows(message),
            Message::Unknown(_) => false,
        }
    }
}

/// True if a text is the one that was heard.
fn restated(heard: Option<&Fingerprint>, text: &str) -> bool {
    heard.is_some_and(|heard| heard.relation(text) == Relation::Same)
}

fn hear(map: &mut HashMap<ByteString, Fingerprint, RandomState>, id: &ByteString, text: &str) {
    if let Some(print) = map.get_mut(id) {
        print.push(text);
    } else if map.len() < REMEMBERED {
        let mut print = Fingerprint::default();
        print.push(text);
        map.insert(detached(id), print);
    }
}

fn remember(set: &mut HashSet<ByteString, RandomState>, id: &ByteString) {
    if set.len() < REMEMBERED && !set.contains(id) {
        set.insert(detached(id));
    }
}

/// A copy that does not keep the payload alive.
pub(super) fn detached(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}
