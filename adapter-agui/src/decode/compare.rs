//! The messages of a snapshot, compared with those of the run: by id, content, tool calls and
//! position.
//!
//! Each comparison is a pass over all messages of the snapshot, and a message is matched by the
//! first pass that finds a match. So a certain match (equal id and text) is never taken by an
//! uncertain one (position) of another message. One streamed text is matched at most once: two
//! equal messages of a snapshot need two equal streamed texts.
//!
//! ```text
//! streamed  m1 "Hi"  m2 "Ho"       snapshot  x1 "Hi"  x2 "Ho!"
//! by content    x1 = m1 (Same)
//! by position   x2 = m2 (Changed): as many texts as were streamed, and one of each is left
//! ```

use std::collections::{HashMap, VecDeque};

use aqueduct_core::ByteString;
use foldhash::fast::RandomState;

use super::open::Kind;
use super::seen::{Digest, EmittedTexts, Seen, digest_of, text_of};
use crate::wire::Message;

/// The relation of a restated message's text to the streamed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextMatch {
    /// The message has no text, or the text is that of the input.
    Known,
    /// The text of the streamed message at this index.
    Same(usize),
    /// A changed text of the streamed message at this index.
    Changed(usize),
    /// A text that was not streamed.
    New,
}

/// A comparison of one snapshot with the run.
/// `history` counts the texts of the input that are not matched yet.
pub(super) struct Comparison<'a> {
    seen: &'a Seen,
    history: HashMap<Digest, usize, RandomState>,
    texts: Side<'a>,
    thoughts: Side<'a>,
}

/// The streamed messages of one kind, and which of them the snapshot has restated.
struct Side<'a> {
    streamed_texts: &'a EmittedTexts,
    used: Vec<bool>,
    by_digest: HashMap<Digest, VecDeque<usize>, RandomState>,
}

impl<'a> Side<'a> {
    /// Returns the streamed texts, none of them matched yet.
    fn new(streamed_texts: &'a EmittedTexts) -> Self {
        let mut by_digest: HashMap<Digest, VecDeque<usize>, RandomState> = HashMap::default();
        for (at, streamed) in streamed_texts.order.iter().enumerate() {
            by_digest.entry(streamed.print.digest()).or_default().push_back(at);
        }
        Self { streamed_texts, used: vec![false; streamed_texts.order.len()], by_digest }
    }

    /// Matches a text. Returns `false` if it is matched already: one streamed text explains one message.
    fn take(&mut self, at: usize) -> bool {
        self.used.get_mut(at).is_some_and(|used| !std::mem::replace(used, true))
    }

    /// Takes a streamed message of that id with this text, or all of them if the text is their concatenation.
    fn take_same(&mut self, id: &str, digest: Digest) -> Option<usize> {
        let streamed_texts = self.streamed_texts;
        let places = streamed_texts.places(id);
        let is_same = |at: &&usize| {
            streamed_texts.order.get(**at).is_some_and(|streamed| streamed.print.digest() == digest)
        };
        if let Some(at) = places.iter().filter(is_same).find(|at| self.take(**at)) {
            return Some(*at);
        }
        // Some sources stream one message as several of one id, and restate it as one.
        let first = places.first().filter(|_| streamed_texts.is_joined(id, digest))?;
        places.iter().fold(false, |any, at| self.take(*at) | any).then_some(*first)
    }

    /// Takes the first streamed message with this text that was not restated yet.
    fn take_equal(&mut self, digest: Digest) -> Option<usize> {
        loop {
            let at = self.by_digest.get_mut(&digest)?.pop_front()?;
            if self.take(at) {
                return Some(at);
            }
        }
    }
}

impl<'a> Comparison<'a> {
    /// Returns a comparison in which nothing is matched yet.
    pub(super) fn new(seen: &'a Seen) -> Self {
        let (texts, thoughts) = (Side::new(&seen.texts), Side::new(&seen.thoughts));
        Self { seen, history: seen.history_texts.clone(), texts, thoughts }
    }

    /// Returns the streamed texts of the kind of a message: text and thinking are compared separately.
    fn side(&mut self, message: &Message) -> &mut Side<'a> {
        if matches!(message, Message::Reasoning(_)) { &mut self.thoughts } else { &mut self.texts }
    }

    /// Returns the relation of each message's text. Messages from the index `turn` on belong to the run.
    pub(super) fn compare(mut self, messages: &[Message], turn: usize) -> Vec<TextMatch> {
        let mut matches: Vec<Option<TextMatch>> = vec![None; messages.len()];
        for step in [Self::by_id, Self::by_content, Self::by_history, Self::by_owner] {
            for (at, (message, matches)) in messages.iter().zip(&mut matches).enumerate() {
                if matches.is_none() {
                    *matches = step(&mut self, message, at >= turn);
                }
            }
        }
        self.by_position(messages, turn, &mut matches);
        matches.into_iter().map(|matches| matches.unwrap_or(TextMatch::New)).collect()
    }

    /// Matches a message by its id, if the text is equal.
    fn by_id(&mut self, message: &Message, _in_turn: bool) -> Option<TextMatch> {
        let Some(digest) = text_of(message).map(digest_of) else { return Some(TextMatch::Known) };
        if self.seen.is_history(message.id()) {
            self.consume(digest);
            return Some(TextMatch::Known);
        }
        self.side(message).take_same(message.id(), digest).map(TextMatch::Same)
    }

    /// Matches a message of the turn by its text.
    fn by_content(&mut self, message: &Message, in_turn: bool) -> Option<TextMatch> {
        let digest = text_of(message).map(digest_of).filter(|_| in_turn)?;
        self.side(message).take_equal(digest).map(TextMatch::Same)
    }

    /// Matches a message by the texts of the input, each as often as the input contains it.
    fn by_history(&mut self, message: &Message, _in_turn: bool) -> Option<TextMatch> {
        let digest = text_of(message).map(digest_of)?;
        self.consume(digest).then_some(TextMatch::Known)
    }

    /// Finds a changed text by the id of a known message, or by the calls of a known message.
    fn by_owner(&mut self, message: &Message, in_turn: bool) -> Option<TextMatch> {
        if !in_turn {
            return None;
        }
        let parents =
            message.tool_calls().iter().filter_map(|call| self.seen.calls.get(&call.id)?.parent.clone());
        let ids: Vec<ByteString> = std::iter::once(message.id().into()).chain(parents).collect();
        let side = self.side(message);
        let streamed_texts = side.streamed_texts;
        ids.iter()
            .flat_map(|id| streamed_texts.places(id))
            .find(|at| side.take(**at))
            .map(|at| TextMatch::Changed(*at))
    }

    /// If there are as many texts as were streamed, matches the unmatched ones at the same position.
    fn by_position(&mut self, messages: &[Message], turn: usize, matches: &mut [Option<TextMatch>]) {
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
            if places.len() != side.streamed_texts.order.len() {
                continue;
            }
            for (streamed, at) in places.into_iter().enumerate() {
                if let Some(matches) = matches.get_mut(at).filter(|matches| matches.is_none())
                    && side.take(streamed)
                {
                    *matches = Some(TextMatch::Changed(streamed));
                }
            }
        }
    }

    /// Matches one occurrence of a text of the input. Returns `false` if none is left.
    fn consume(&mut self, digest: Digest) -> bool {
        let Some(left) = self.history.get_mut(&digest).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }
}
