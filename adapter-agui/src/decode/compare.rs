//! The messages of a snapshot, compared with those of the run: by id, content, tool calls and position.

use std::collections::{HashMap, VecDeque};

use aqueduct_core::ByteString;
use foldhash::fast::RandomState;

use super::open::Kind;
use super::seen::{Digest, Seen, Spoken, digest_of, text_of};
use crate::wire::Message;

/// What the words of a restated message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// It has none, or they are those of the input.
    Known,
    /// Those of the streamed message at this place.
    Same(usize),
    /// Other words for the streamed message at this place.
    Changed(usize),
    /// Never streamed.
    New,
}

/// One comparison of a snapshot with the run.
pub(super) struct Comparison<'a> {
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
    pub(super) fn new(seen: &'a Seen) -> Self {
        let (texts, thoughts) = (Side::new(&seen.texts), Side::new(&seen.thoughts));
        Self { seen, history: seen.history_texts.clone(), texts, thoughts }
    }

    fn side(&mut self, message: &Message) -> &mut Side<'a> {
        if matches!(message, Message::Reasoning(_)) { &mut self.thoughts } else { &mut self.texts }
    }

    /// The words of each message; from the place `turn` on they are the run's.
    pub(super) fn compare(mut self, messages: &[Message], turn: usize) -> Vec<Words> {
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
