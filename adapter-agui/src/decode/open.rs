//! What the stream has open, and on which track each goes.
//!
//! AG-UI lets the messages of one agent interleave freely; canonical tracks are how that is said. The first
//! message that is open in a lane goes on the main track, and what is opened beside it on a track of its own, so
//! that neither ends the other: only the source ends what it began.

use std::collections::HashMap;

use aqueduct_core::update::Details;
use aqueduct_core::{ByteString, MessageId, Role, Source, Timestamp, Track};
use foldhash::fast::RandomState;

use super::repeat::{Thought, Thoughts};

/// An agent of the stream.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) source: Source,
    /// What is open on the main track.
    main: Option<Key>,
    /// Open reasoning spans.
    pub(super) spans: usize,
    /// Reasoning messages that ended inside an open span: their sealed form may still come.
    pub(super) held: Vec<ByteString>,
    /// The thoughts since the last tool call.
    pub(super) thoughts: Thoughts,
}

/// A kind of message and its id.
pub(super) type Key = (Kind, ByteString);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Text,
    Thought,
}

impl Lane {
    pub(super) fn new(source: Source) -> Self {
        Self { source, main: None, spans: 0, held: Vec::new(), thoughts: Thoughts::default() }
    }

    /// The track for a message that opens now.
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

    /// The message has ended.
    pub(super) fn release(&mut self, key: &Key) {
        self.main.take_if(|open| open == key);
    }

    /// True if a tool call on the main track would end nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.main.is_none()
    }
}

/// An open message.
#[derive(Debug)]
pub(super) struct Message {
    /// The tag of its lane.
    pub(super) tag: Option<ByteString>,
    pub(super) source: Source,
    pub(super) track: Track,
    pub(super) id: MessageId,
    pub(super) role: Role,
    pub(super) created_at: Option<Timestamp>,
    /// What its start said beside it, until its first content takes it along.
    pub(super) details: Option<Box<Details>>,
    pub(super) has_content: bool,
    /// What it says since the last tool call, if it is a thought.
    pub(super) thought: Thought,
}

/// A tool call that was seen.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) source: Source,
    pub(super) track: Track,
    pub(super) parent: Option<MessageId>,
}

/// The lanes, by tag.
#[derive(Debug)]
pub(super) struct Lanes {
    root: Lane,
    tagged: HashMap<ByteString, Lane, RandomState>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { root: Lane::new(Source::root()), tagged: HashMap::default() }
    }
}

impl Lanes {
    /// The lane of a tag. One that was never started is an agent all the same; `name` is what its first event calls it.
    pub(super) fn get(&mut self, tag: Option<&ByteString>, name: Option<&ByteString>) -> &mut Lane {
        let Some(tag) = tag else { return &mut self.root };
        if !self.tagged.contains_key(tag) {
            let tag = super::seen::detached(tag);
            let mut source = Source::root().child(tag.clone());
            if let Some(name) = name {
                source = source.named(super::seen::detached(name));
            }
            self.tagged.insert(tag, Lane::new(source));
        }
        self.tagged.get_mut(tag).unwrap_or(&mut self.root)
    }

    /// The lane of a tag, if anything was heard of it.
    pub(super) fn find(&mut self, tag: Option<&ByteString>) -> Option<&mut Lane> {
        match tag {
            Some(tag) => self.tagged.get_mut(tag),
            None => Some(&mut self.root),
        }
    }

    /// The source of a tag.
    pub(super) fn source(&mut self, tag: Option<&ByteString>) -> Source {
        self.get(tag, None).source.clone()
    }

    /// A sub-agent has started.
    pub(super) fn start(&mut self, tag: &ByteString, source: Source) {
        self.tagged.insert(super::seen::detached(tag), Lane::new(source));
    }
}
