//! The emitted content of a run, as far as a restated history is compared with it.
//!
//! Texts are kept as fingerprints: a message costs some tens of bytes, whatever its length.

use std::collections::{HashMap, HashSet};

use aqueduct_core::block::ToolOutput;
use aqueduct_core::fingerprint::{Fingerprint, JsonFingerprint, hash_text};
use aqueduct_core::{ByteString, Source, Track};
use foldhash::fast::RandomState;

use super::content::output;
use super::open::Kind;
use crate::wire::{Content, Message, RunAgentInput};

/// The most messages, calls and results of each kind that are remembered. Beyond it a run is still decoded, but a restated
/// history of its later messages is passed on instead of recognised. About 8 MB at the limit.
pub(super) const REMEMBERED: usize = 1 << 16;

/// A text's length and hash: equal for texts that are equal except for surrounding white space.
pub(super) type Digest = (usize, u64);

/// A text or thinking message of this run.
#[derive(Debug)]
pub(super) struct EmittedText {
    pub(super) id: ByteString,
    /// The number of earlier messages of the same id: some frameworks give all messages of a run one id.
    pub(super) nth: usize,
    pub(super) print: Fingerprint,
    pub(super) track: Track,
}

/// The texts, or the thinking, of this run in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct EmittedTexts {
    pub(super) order: Vec<EmittedText>,
    by_id: HashMap<ByteString, Parts, RandomState>,
}

/// The messages of one id.
#[derive(Debug, Default)]
struct Parts {
    places: Vec<usize>,
    /// The fingerprint of all of them as one text.
    joined: Fingerprint,
    /// Set if the next content starts a new message.
    ended: bool,
}

impl EmittedTexts {
    /// Appends to the open message of an id, or begins one. Beyond [`REMEMBERED`] messages no further one is begun.
    fn add_text(&mut self, id: &ByteString, text: &str, track: &Track) {
        let parts = match self.by_id.get_mut(id) {
            Some(parts) => parts,
            None => self.by_id.entry(detached(id)).or_default(),
        };
        let open = parts.places.last().filter(|_| !parts.ended);
        if let Some(streamed) = open.and_then(|at| self.order.get_mut(*at)) {
            streamed.print.push(text);
            parts.joined.push(text);
        } else if self.order.len() < REMEMBERED && !text.is_empty() {
            parts.joined.push(text);
            parts.ended = false;
            let nth = parts.places.len();
            parts.places.push(self.order.len());
            self.order.push(EmittedText {
                id: detached(id),
                nth,
                print: Fingerprint::of(text),
                track: track.clone(),
            });
        }
    }

    /// Handles the end of a message: content that follows under its id is another message.
    pub(super) fn end(&mut self, id: &str) {
        if let Some(parts) = self.by_id.get_mut(id) {
            parts.ended = true;
        }
    }

    /// Returns `true` if a message of that id was emitted.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns the indices of the messages of an id.
    pub(super) fn places(&self, id: &str) -> &[usize] {
        self.by_id.get(id).map_or(&[], |parts| &parts.places)
    }

    /// Returns `true` if the messages of an id are together this text.
    pub(super) fn is_joined(&self, id: &str, digest: Digest) -> bool {
        self.by_id.get(id).is_some_and(|parts| parts.joined.digest() == digest)
    }
}

/// A tool call of this run or of its input.
#[derive(Debug, Default)]
pub(super) struct SeenCall {
    pub(super) source: Source,
    /// The message that the call is part of.
    pub(super) parent: Option<ByteString>,
    pub(super) print: JsonFingerprint,
    /// Set for a call of the input's open turn: no user message follows it, so the run continues it.
    pub(super) is_open: bool,
    /// The name and arguments so far of a call of the input that the source repeats.
    pub(super) again: Option<(ByteString, String)>,
}

/// A tool result of this run or of its input.
#[derive(Debug)]
pub(super) struct SeenResult {
    pub(super) message: ByteString,
    pub(super) print: u64,
    pub(super) is_error: bool,
}

/// The emitted content of a run and its input.
#[derive(Debug, Default)]
pub(super) struct Seen {
    history: HashSet<ByteString, RandomState>,
    /// The number of occurrences of each text of the agent in the input.
    pub(super) history_texts: HashMap<Digest, usize, RandomState>,
    pub(super) texts: EmittedTexts,
    pub(super) thoughts: EmittedTexts,
    pub(super) calls: HashMap<ByteString, SeenCall, RandomState>,
    pub(super) results: HashMap<ByteString, SeenResult, RandomState>,
    result_messages: HashSet<ByteString, RandomState>,
    /// The tags of progress cards.
    cards: HashMap<ByteString, Option<ByteString>, RandomState>,
}

impl Seen {
    /// Declares the input of the run.
    pub(super) fn declare_input(&mut self, input: &RunAgentInput) {
        let is_user = |message: &Message| matches!(message, Message::User(_));
        let user = input.messages.iter().rposition(is_user).unwrap_or(0);
        for (at, message) in input.messages.iter().enumerate() {
            if !self.history.insert(message.id().into()) {
                continue;
            }
            if let Some(digest) = text_of(message).map(digest_of) {
                *self.history_texts.entry(digest).or_default() += 1;
            }
            for call in message.tool_calls() {
                let parent = Some(message.id().into());
                let mut known = SeenCall { parent, is_open: at > user, ..SeenCall::default() };
                known.print.push(&call.function.arguments);
                self.calls.insert(call.id.clone(), known);
            }
            if let Message::Tool(result) = message {
                let print = result_print(&result.content);
                let (message, is_error) = (result.id.clone(), result.error.is_some());
                self.results.insert(result.tool_call_id.clone(), SeenResult { message, print, is_error });
            }
        }
    }

    pub(super) fn add_text(&mut self, kind: Kind, id: &ByteString, text: &str, track: &Track) {
        match kind {
            Kind::Text => self.texts.add_text(id, text, track),
            Kind::Thought => self.thoughts.add_text(id, text, track),
        }
    }

    /// Records a call. Its arguments follow with [`add_arguments`](Self::add_arguments).
    pub(super) fn add_call(&mut self, id: &ByteString, source: &Source, parent: Option<&ByteString>) {
        if self.calls.len() < REMEMBERED || self.calls.contains_key(id) {
            let (source, parent) = (source.clone(), parent.map(detached));
            let call = SeenCall { source, parent, ..SeenCall::default() };
            self.calls.insert(detached(id), call);
        }
    }

    /// Returns a call of the input that the run continues, and that the source may repeat.
    pub(super) fn open_call_mut(&mut self, id: &str) -> Option<&mut SeenCall> {
        self.calls.get_mut(id).filter(|call| call.is_open)
    }

    /// Appends to the arguments of a call. Unknown calls are ignored.
    pub(super) fn add_arguments(&mut self, call: &str, arguments: &str) {
        if let Some(call) = self.calls.get_mut(call) {
            call.print.push(arguments);
        }
    }

    /// Records the result of a call. The call is no longer open: a repetition of it is a new call.
    pub(super) fn add_result(
        &mut self,
        call: &ByteString,
        message: &ByteString,
        content: &Content,
        is_error: bool,
    ) {
        if let Some(call) = self.calls.get_mut(call) {
            call.is_open = false;
        }
        if self.results.len() < REMEMBERED || self.results.contains_key(call) {
            let result = SeenResult { message: detached(message), print: result_print(content), is_error };
            self.result_messages.insert(result.message.clone());
            self.results.insert(detached(call), result);
        }
    }

    /// Records a progress card and its tag.
    pub(super) fn add_card(&mut self, id: &ByteString, tag: Option<&ByteString>) {
        if self.cards.len() < REMEMBERED || self.cards.contains_key(id) {
            self.cards.insert(detached(id), tag.map(detached));
        }
    }

    /// Returns the tag of a card: a change of the card may omit it.
    pub(super) fn card_tag(&self, id: &ByteString) -> Option<ByteString> {
        self.cards.get(id).cloned().flatten()
    }

    pub(super) fn knows_card(&self, id: &str) -> bool {
        self.cards.contains_key(id)
    }

    pub(super) fn knows_text(&self, id: &str) -> bool {
        self.texts.knows(id)
    }

    /// Returns `true` if a message of the input has this id.
    pub(super) fn is_history(&self, id: &str) -> bool {
        self.history.contains(id)
    }

    /// Returns `true` if a tool result of this run has this message id.
    pub(super) fn is_result(&self, message: &str) -> bool {
        self.result_messages.contains(message)
    }
}

/// Returns the text of the agent in a message. Returns `None` if it has none.
pub(super) fn text_of(message: &Message) -> Option<&str> {
    let text = match message {
        Message::Assistant(streamed) => streamed.content.as_deref()?,
        Message::Reasoning(thought) => &thought.content,
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// Returns length and hash of a text without the white space around it.
pub(super) fn digest_of(text: &str) -> Digest {
    Fingerprint::of(text).digest()
}

/// Returns the hash of a result as text: frameworks restate a structured result as its JSON.
pub(super) fn result_print(content: &Content) -> u64 {
    let text = match output(content.clone()) {
        ToolOutput::Text(text) => text,
        other => other.to_text(),
    };
    hash_text(text.trim())
}

/// Returns a copy in an allocation of its own size, so that stored text does not keep its payload alive.
pub(super) fn detached(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}
