//! What each agent has said: enough to know whether a whole message restates an earlier one.
//!
//! The stream machine drops what is repeated under one id on one channel. What it cannot know, and this can: that
//! a message *without* id restates a streamed one (the Responses client sets no message id), that an update
//! repeats a finished message instead of adding to it, that a file or citation was shown before.
//!
//! Everything is remembered as a hash, so a streamed fragment allocates nothing. Texts are hashed without white
//! space: aggregates are trimmed and joined anew. A collision of 64 bits would hide a repetition's difference; it
//! resists accident, not malice, and a source can only hide its own text.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use aqueduct_core::fingerprint::hash_bytes;
use aqueduct_core::{Channel, Source};

type State = foldhash::fast::FixedState;

/// A length and a hash of a text without its white space; the same however the text was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Print {
    len: usize,
    hash: u64,
}

impl Print {
    fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    fn push(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            self.len += word.len();
            self.hash = hash_bytes(self.hash, word.as_bytes());
        }
    }
}

#[derive(Debug)]
struct Entry {
    source: u64,
    channel: Channel,
    print: Print,
    finished: bool,
}

/// A set that forgets its oldest members.
#[derive(Debug, Default)]
struct Recent {
    set: HashSet<u64, State>,
    order: VecDeque<u64>,
}

impl Recent {
    /// False if it was there already.
    fn insert(&mut self, hash: u64, max: usize) -> bool {
        if !self.set.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }
}

/// How often something was said; the oldest times are forgotten.
#[derive(Debug, Default)]
struct Counted {
    counts: HashMap<u64, u32, State>,
    order: VecDeque<u64>,
}

impl Counted {
    fn insert(&mut self, hash: u64, max: usize) {
        *self.counts.entry(hash).or_default() += 1;
        self.order.push_back(hash);
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
    }
}

/// The memory of one run.
#[derive(Debug, Default)]
pub(super) struct Said {
    messages: HashMap<u64, Entry, State>,
    order: VecDeque<u64>,
    texts: Counted,
    customs: Recent,
    calls: Recent,
    max: usize,
}

impl Said {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Takes note of a streamed fragment.
    pub(super) fn push(&mut self, source: &Source, channel: Channel, message_id: Option<&str>, text: &str) {
        let entry = self.entry(source, channel, message_id);
        if entry.finished {
            // The source uses the id again: a new message.
            entry.finished = false;
            entry.print = Print::default();
        }
        entry.print.push(text);
    }

    /// Takes note that the text of a message is that, whatever was said before.
    pub(super) fn replace(
        &mut self,
        source: &Source,
        channel: Channel,
        message_id: Option<&str>,
        text: &str,
    ) {
        let entry = self.entry(source, channel, message_id);
        entry.print = Print::of(text);
        entry.finished = true;
        let print = entry.print;
        self.remember(source, channel, print);
    }

    /// A message is over: its text is whole now.
    pub(super) fn finish(&mut self, source: &Source, channel: Channel, message_id: Option<&str>) {
        if let Some(entry) = self.messages.get_mut(&key(source, channel, message_id))
            && !entry.finished
        {
            entry.finished = true;
            let print = entry.print;
            self.remember(source, channel, print);
        }
    }

    /// All messages of an agent are over.
    pub(super) fn finish_all(&mut self, source: &Source) {
        let path = hash(source.path());
        for entry in self.messages.values_mut().filter(|entry| entry.source == path && !entry.finished) {
            entry.finished = true;
            if entry.print.len > 0 {
                self.texts.insert(hash((path, entry.channel, entry.print)), self.max);
            }
        }
    }

    /// True if an agent has ended that message.
    pub(super) fn is_over(&self, source: &Source, channel: Channel, message_id: Option<&str>) -> bool {
        self.messages.get(&key(source, channel, message_id)).is_some_and(|entry| entry.finished)
    }

    /// True if an agent has begun that message and not ended it.
    pub(super) fn is_open(&self, source: &Source, channel: Channel, message_id: Option<&str>) -> bool {
        self.messages.get(&key(source, channel, message_id)).is_some_and(|entry| !entry.finished)
    }

    /// True if a fragment is the whole text of a message that is over: a repetition, not an addition.
    pub(super) fn restates(&self, source: &Source, channel: Channel, message_id: &str, text: &str) -> bool {
        let entry = self.messages.get(&key(source, channel, Some(message_id)));
        entry.is_some_and(|entry| entry.finished && entry.print.len > 0 && entry.print == Print::of(text))
    }

    /// True if an agent has said exactly that in a message that is over, under whatever id.
    pub(super) fn has_text(&self, source: &Source, channel: Channel, text: &str) -> bool {
        self.times(Self::text_key(source, channel, text)) > 0
    }

    /// What stands for a text of an agent.
    pub(super) fn text_key(source: &Source, channel: Channel, text: &str) -> u64 {
        hash((hash(source.path()), channel, Print::of(text)))
    }

    /// How often that text was said in messages that are over.
    pub(super) fn times(&self, text_key: u64) -> u32 {
        self.texts.counts.get(&text_key).copied().unwrap_or(0)
    }

    /// Takes note of a custom block; false if the agent has shown the same before.
    pub(super) fn custom(&mut self, source: &Source, channel: Channel, name: &str, value: &str) -> bool {
        self.customs.insert(hash((source.path(), channel, name, value)), self.max)
    }

    /// Takes note of a call.
    pub(super) fn call(&mut self, source: &Source, id: &str) {
        self.calls.insert(hash((source.path(), id)), self.max);
    }

    /// True if an agent has made that call.
    pub(super) fn has_called(&self, source: &Source, id: &str) -> bool {
        self.calls.set.contains(&hash((source.path(), id)))
    }

    fn entry(&mut self, source: &Source, channel: Channel, message_id: Option<&str>) -> &mut Entry {
        let key = key(source, channel, message_id);
        if !self.messages.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > self.max.max(1)
                && let Some(oldest) = self.order.pop_front()
            {
                self.messages.remove(&oldest);
            }
        }
        self.messages.entry(key).or_insert_with(|| Entry {
            source: hash(source.path()),
            channel,
            print: Print::default(),
            finished: false,
        })
    }

    fn remember(&mut self, source: &Source, channel: Channel, print: Print) {
        if print.len > 0 {
            self.texts.insert(hash((hash(source.path()), channel, print)), self.max);
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    State::default().hash_one(value)
}

fn key(source: &Source, channel: Channel, message_id: Option<&str>) -> u64 {
    hash((source.path(), channel, message_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_text_restates_its_fragments_only_when_the_message_is_over() {
        let (mut said, source) = (Said::new(8), Source::root().child("a"));
        said.push(&source, Channel::Answer, Some("m"), "Yes");
        assert!(!said.restates(&source, Channel::Answer, "m", "Yes"));
        said.push(&source, Channel::Answer, Some("m"), ", sir. ");
        said.finish(&source, Channel::Answer, Some("m"));
        assert!(said.restates(&source, Channel::Answer, "m", "Yes, sir."));
        assert!(!said.restates(&source, Channel::Intermediate, "m", "Yes, sir."));
        assert!(!said.restates(&source, Channel::Answer, "m", "Yes"));
        assert!(said.has_text(&source, Channel::Answer, "Yes, sir."));
    }

    #[test]
    fn an_id_that_is_used_again_is_a_new_message() {
        let (mut said, source) = (Said::new(8), Source::root());
        said.push(&source, Channel::Answer, Some("m"), "one");
        said.finish(&source, Channel::Answer, Some("m"));
        said.push(&source, Channel::Answer, Some("m"), "two");
        said.finish_all(&source);
        assert!(said.restates(&source, Channel::Answer, "m", "two"));
        assert!(said.has_text(&source, Channel::Answer, "one"));
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let (mut said, source) = (Said::new(2), Source::root());
        for id in ["1", "2", "3"] {
            said.push(&source, Channel::Answer, Some(id), id);
        }
        assert!(!said.is_open(&source, Channel::Answer, Some("1")));
        assert!(said.is_open(&source, Channel::Answer, Some("3")));
        assert!(said.custom(&source, Channel::Answer, "n", "v"));
        assert!(!said.custom(&source, Channel::Answer, "n", "v"));
    }
}
