//! [`History`]: the dedup index of a run, which detects whole messages that repeat earlier ones.
//!
//! The stream machine suppresses repetitions under one id on one channel. This index detects the other ones: a message
//! *without* id that repeats a streamed one (the Responses client sets no message id), an update that repeats a finished
//! message instead of continuing it, a file or citation that was emitted before.
//!
//! Content is stored as hashes, so a streamed fragment allocates nothing. Texts are hashed without white space, because
//! aggregates are trimmed and joined again. The hash is not collision resistant: a source can only suppress its own text.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use aqueduct_core::fingerprint::hash_bytes;
use aqueduct_core::recent::RecentMap;
use aqueduct_core::{Channel, Source};

/// A fixed seed: hashes are compared within one process, and equal input gives equal output.
type State = foldhash::fast::FixedState;

/// A length and a hash of a text without white space, independent of how the text was split.
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

    /// Appends a text. Words are hashed without the white space between them.
    fn push(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            self.len += word.len();
            self.hash = hash_bytes(self.hash, word.as_bytes());
        }
    }
}

/// The text of one message.
#[derive(Debug)]
struct Entry {
    source: u64,
    channel: Channel,
    print: Print,
    finished: bool,
}

/// Counts occurrences; the oldest ones are dropped.
#[derive(Debug, Default)]
struct Counted {
    counts: HashMap<u64, u32, State>,
    order: VecDeque<u64>,
}

impl Counted {
    /// Counts an occurrence. Beyond `max` the oldest occurrence is subtracted again.
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

/// The emitted content of one run.
#[derive(Debug, Default)]
pub(super) struct History {
    messages: RecentMap<u64, Entry>,
    texts: Counted,
    customs: RecentMap<u64, ()>,
    calls: RecentMap<u64, ()>,
    max: usize,
}

impl History {
    /// Returns an empty index that keeps at most `max` entries of each kind.
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Adds a streamed fragment.
    pub(super) fn push(&mut self, source: &Source, channel: Channel, message_id: Option<&str>, text: &str) {
        let entry = self.entry(source, channel, message_id);
        if entry.finished {
            // The source reuses the id for a new message.
            entry.finished = false;
            entry.print = Print::default();
        }
        entry.print.push(text);
    }

    /// Sets the text of a message.
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

    /// Marks a message as finished: its text is complete.
    pub(super) fn finish(&mut self, source: &Source, channel: Channel, message_id: Option<&str>) {
        if let Some(entry) = self.messages.get_mut(&key(source, channel, message_id))
            && !entry.finished
        {
            entry.finished = true;
            let print = entry.print;
            self.remember(source, channel, print);
        }
    }

    /// Marks all messages of an agent as finished.
    pub(super) fn finish_all(&mut self, source: &Source) {
        let path = hash(source.path());
        for entry in self.messages.values_mut().filter(|entry| entry.source == path && !entry.finished) {
            entry.finished = true;
            if entry.print.len > 0 {
                self.texts.insert(hash((path, entry.channel, entry.print)), self.max);
            }
        }
    }

    /// Returns `true` if the message is finished.
    pub(super) fn is_over(&self, source: &Source, channel: Channel, message_id: Option<&str>) -> bool {
        self.messages.get(&key(source, channel, message_id)).is_some_and(|entry| entry.finished)
    }

    /// Returns `true` if the message has been started and is not finished.
    pub(super) fn is_open(&self, source: &Source, channel: Channel, message_id: Option<&str>) -> bool {
        self.messages.get(&key(source, channel, message_id)).is_some_and(|entry| !entry.finished)
    }

    /// Returns `true` if a fragment is the whole text of a finished message: a repetition, not a continuation.
    pub(super) fn restates(&self, source: &Source, channel: Channel, message_id: &str, text: &str) -> bool {
        let entry = self.messages.get(&key(source, channel, Some(message_id)));
        entry.is_some_and(|entry| entry.finished && entry.print.len > 0 && entry.print == Print::of(text))
    }

    /// Returns `true` if the agent has sent exactly this text in a finished message, under any id.
    pub(super) fn has_text(&self, source: &Source, channel: Channel, text: &str) -> bool {
        self.times(Self::text_key(source, channel, text)) > 0
    }

    /// Returns the key of an agent's text.
    pub(super) fn text_key(source: &Source, channel: Channel, text: &str) -> u64 {
        hash((hash(source.path()), channel, Print::of(text)))
    }

    /// Returns the number of finished messages with that text.
    pub(super) fn times(&self, text_key: u64) -> u32 {
        self.texts.counts.get(&text_key).copied().unwrap_or(0)
    }

    /// Adds a custom block. Returns `false` if the agent has emitted an equal one before.
    pub(super) fn custom(&mut self, source: &Source, channel: Channel, name: &str, value: &str) -> bool {
        self.customs.insert_new(hash((source.path(), channel, name, value)), (), self.max)
    }

    /// Adds a call.
    pub(super) fn call(&mut self, source: &Source, id: &str) {
        self.calls.insert_new(hash((source.path(), id)), (), self.max);
    }

    /// Returns `true` if the agent has made that call.
    pub(super) fn has_called(&self, source: &Source, id: &str) -> bool {
        self.calls.contains(&hash((source.path(), id)))
    }

    /// Returns the entry of a message, created if there is none.
    fn entry(&mut self, source: &Source, channel: Channel, message_id: Option<&str>) -> &mut Entry {
        self.messages.get_or_insert_with(key(source, channel, message_id), self.max, || Entry {
            source: hash(source.path()),
            channel,
            print: Print::default(),
            finished: false,
        })
    }

    /// Counts the text of a finished message. Blank texts are not counted: they restate nothing.
    fn remember(&mut self, source: &Source, channel: Channel, print: Print) {
        if print.len > 0 {
            self.texts.insert(hash((hash(source.path()), channel, print)), self.max);
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    State::default().hash_one(value)
}

/// Returns the key of a message. Messages without id share one key for each agent and channel.
fn key(source: &Source, channel: Channel, message_id: Option<&str>) -> u64 {
    hash((source.path(), channel, message_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_text_restates_its_fragments_only_when_the_message_is_over() {
        let (mut history, source) = (History::new(8), Source::root().child("a"));
        history.push(&source, Channel::Answer, Some("m"), "Yes");
        assert!(!history.restates(&source, Channel::Answer, "m", "Yes"));
        history.push(&source, Channel::Answer, Some("m"), ", sir. ");
        history.finish(&source, Channel::Answer, Some("m"));
        assert!(history.restates(&source, Channel::Answer, "m", "Yes, sir."));
        assert!(!history.restates(&source, Channel::Intermediate, "m", "Yes, sir."));
        assert!(!history.restates(&source, Channel::Answer, "m", "Yes"));
        assert!(history.has_text(&source, Channel::Answer, "Yes, sir."));
    }

    #[test]
    fn an_id_that_is_used_again_is_a_new_message() {
        let (mut history, source) = (History::new(8), Source::root());
        history.push(&source, Channel::Answer, Some("m"), "one");
        history.finish(&source, Channel::Answer, Some("m"));
        history.push(&source, Channel::Answer, Some("m"), "two");
        history.finish_all(&source);
        assert!(history.restates(&source, Channel::Answer, "m", "two"));
        assert!(history.has_text(&source, Channel::Answer, "one"));
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let (mut history, source) = (History::new(2), Source::root());
        for id in ["1", "2", "3"] {
            history.push(&source, Channel::Answer, Some(id), id);
        }
        assert!(!history.is_open(&source, Channel::Answer, Some("1")));
        assert!(history.is_open(&source, Channel::Answer, Some("3")));
        assert!(history.custom(&source, Channel::Answer, "n", "v"));
        assert!(!history.custom(&source, Channel::Answer, "n", "v"));
    }
}
