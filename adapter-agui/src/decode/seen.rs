//! What the stream has said so far, as far as a restated history must be compared with it.
//!
//! Texts are kept as fingerprints: a message costs some tens of bytes, however long it is.

use std::collections::{HashMap, HashSet};

use aqueduct_core::ByteString;

use crate::wire::{Message, RunAgentInput};

/// A running FNV-1a hash and the length. Two texts with one print are equal for this purpose: a collision could
/// only hide that a restated message differs from the one that was streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Print {
    hash: u64,
    length: usize,
}

impl Default for Print {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, length: 0 }
    }
}

impl Print {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.length += text.len();
    }

    fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    history: HashSet<ByteString>,
    texts: HashMap<ByteString, Print>,
    thoughts: HashMap<ByteString, Print>,
    calls: HashSet<ByteString>,
    results: HashSet<ByteString>,
    cards: HashSet<ByteString>,
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
        if !self.calls.contains(id) {
            self.calls.insert(detached(id));
        }
    }

    pub(super) fn hear_result(&mut self, call: &ByteString) {
        self.results.insert(detached(call));
    }

    pub(super) fn hear_card(&mut self, id: &ByteString) {
        self.cards.insert(detached(id));
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
                Message::Activity(_) => self.cards.contains(id),
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
                let same = text.is_empty() || self.texts.get(&said.id) == Some(&Print::of(text));
                same && message.tool_calls().iter().all(|call| self.calls.contains(&call.id))
            }
            Message::Reasoning(thought) => {
                self.thoughts.get(&thought.id) == Some(&Print::of(&thought.content))
            }
            Message::Tool(_) | Message::Activity(_) => self.knows(message),
            Message::Unknown(_) => false,
        }
    }
}

fn hear(map: &mut HashMap<ByteString, Print>, id: &ByteString, text: &str) {
    if let Some(print) = map.get_mut(id) {
        print.push(text);
    } else {
        map.insert(detached(id), Print::of(text));
    }
}

/// A copy that does not keep the payload alive.
pub(super) fn detached(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}
