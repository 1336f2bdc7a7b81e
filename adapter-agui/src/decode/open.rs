//! The open messages of the stream, and the track of each.
//!
//! AG-UI allows the messages of one agent to interleave; canonical tracks represent that. The first open message of a lane is
//! on the main track, and every message that opens meanwhile is on a track of its own, so that neither ends the other: only
//! the source ends its messages.

use aqueduct_core::recent::RecentMap;
use aqueduct_core::update::Details;
use aqueduct_core::{ByteString, MessageId, Role, Source, Timestamp, Track};

use super::repeat::{Thought, Thoughts};
use super::seen::{REMEMBERED, detached};

/// An agent of the stream.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) source: Source,
    /// The open message on the main track.
    main: Option<Key>,
    /// The number of open reasoning spans.
    pub(super) spans: usize,
    /// Reasoning messages that ended inside an open span: their encrypted form may still arrive. Each is an open message of
    /// the decoder, at most [`REMEMBERED`].
    pub(super) held: Vec<ByteString>,
    /// The thinking since the last tool call.
    pub(super) thoughts: Thoughts,
}

/// A kind of message and its id.
pub(super) type Key = (Kind, ByteString);

/// What a message of the agent contains. AG-UI has separate events for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Text,
    Thought,
}

impl Lane {
    /// Returns the state of a lane that has just opened.
    pub(super) fn new(source: Source) -> Self {
        Self { source, main: None, spans: 0, held: Vec::new(), thoughts: Thoughts::default() }
    }

    /// Returns the track for a message that opens now.
    pub(super) fn take_track(&mut self, key: &Key) -> Track {
        match &self.main {
            Some(open) if open != key => {
                let word = if key.0 == Kind::Text { "text" } else { "reasoning" };
                Track::new(format!("{word}:{}", key.1))
            }
            _ => {
                self.main = Some(key.clone());
                Track::MAIN
            }
        }
    }

    /// Releases the track of an ended message.
    pub(super) fn release(&mut self, key: &Key) {
        self.main.take_if(|open| open == key);
    }

    /// Returns `true` if a tool call on the main track ends no message.
    pub(super) fn is_quiet(&self) -> bool {
        self.main.is_none()
    }
}

/// An open message.
#[derive(Debug)]
pub(super) struct Message {
    /// The tag of the message's lane.
    pub(super) tag: Option<ByteString>,
    pub(super) source: Source,
    pub(super) track: Track,
    pub(super) id: MessageId,
    pub(super) role: Role,
    pub(super) created_at: Option<Timestamp>,
    /// The further data of its start event, until its first content carries it.
    pub(super) details: Option<Box<Details>>,
    pub(super) has_content: bool,
    /// Set once its end is held until its reasoning span ends.
    pub(super) is_held: bool,
    /// The text since the last tool call, for thinking.
    pub(super) thought: Thought,
}

/// The lane and the track of a text that has ended.
#[derive(Debug)]
pub(super) struct EndedText {
    /// The tag of the text's lane.
    pub(super) tag: Option<ByteString>,
    pub(super) track: Track,
}

/// A tool call that was seen.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) source: Source,
    pub(super) track: Track,
    pub(super) parent: Option<MessageId>,
}

/// The lanes by tag. Beyond [`REMEMBERED`] the lane that opened first is forgotten: an event with its tag then opens a lane of
/// that tag below the root.
#[derive(Debug)]
pub(super) struct Lanes {
    root: Lane,
    tagged: RecentMap<ByteString, Lane>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { root: Lane::new(Source::root()), tagged: RecentMap::default() }
    }
}

impl Lanes {
    /// Returns the lane of a tag, and creates it if it was not started. `name` is the agent's name in its first event.
    pub(super) fn get(&mut self, tag: Option<&ByteString>, name: Option<&ByteString>) -> &mut Lane {
        let Some(tag) = tag else { return &mut self.root };
        if !self.tagged.contains(tag) {
            let tag = detached(tag);
            let mut source = Source::root().child(tag.clone());
            if let Some(name) = name {
                source = source.named(detached(name));
            }
            self.tagged.insert(tag, Lane::new(source), REMEMBERED);
        }
        self.tagged.get_mut(tag).unwrap_or(&mut self.root)
    }

    /// Returns the lane of a tag, if it exists.
    pub(super) fn find(&mut self, tag: Option<&ByteString>) -> Option<&mut Lane> {
        match tag {
            Some(tag) => self.tagged.get_mut(tag),
            None => Some(&mut self.root),
        }
    }

    /// Returns the source of a tag.
    pub(super) fn source(&mut self, tag: Option<&ByteString>) -> Source {
        self.get(tag, None).source.clone()
    }

    /// Starts the lane of a sub-agent.
    pub(super) fn start(&mut self, tag: &ByteString, source: Source) {
        self.tagged.insert(detached(tag), Lane::new(source), REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_bounded_and_none_becomes_the_root() {
        let mut lanes = Lanes::default();
        let tag = |nth: usize| ByteString::from(nth.to_string());
        for nth in 0..REMEMBERED + 10 {
            assert_eq!(lanes.get(Some(&tag(nth)), None).source.key(), &*tag(nth));
        }
        assert_eq!(lanes.tagged.len(), REMEMBERED);
        assert!(lanes.find(Some(&tag(0))).is_none(), "the first one is forgotten");
        assert_eq!(lanes.source(Some(&tag(0))).key(), "0", "and opens again below its tag");
    }
}
