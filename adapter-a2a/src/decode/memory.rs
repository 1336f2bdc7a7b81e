//! The content that one task has shown so far: sufficient to show nothing twice when it is sent again.
//!
//! A snapshot repeats artifacts and messages; a follow-up turn repeats those of earlier turns. Memory consists of
//! fingerprints and ids, never texts, and is bounded ([`DecodeLimits`]).

use std::sync::Arc;

use aqueduct_core::fingerprint::{Fingerprint, Relation, hash_text};
use aqueduct_core::recent::RecentMap;
use aqueduct_core::{ByteString, Channel, InterruptId, Source, Track};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::marked::Marked;
use super::parts::part_number;
use super::question::Asked;
use super::speech::Tail;
use crate::config::DecodeLimits;
use crate::wire::{Artifact, Message, Part};

type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// The content that one task has shown so far. Pass it to the decoder of the next turn of the same task.
#[derive(Debug, Clone, Default)]
pub struct TaskMemory {
    /// The id of the task; empty until an item names it.
    pub(crate) task_id: Arc<str>,
    /// The id of the context; empty until an item names it.
    pub(crate) context_id: ByteString,
    /// Records of artifacts by key, oldest first. Bounded by `DecodeLimits::artifacts`. Boxed: a map has room for at
    /// least three, and most tasks have one artifact.
    pub(crate) artifacts: IndexMap<ByteString, Box<Record>, RandomState>,
    /// Fingerprints of status messages. Bounded by `DecodeLimits::messages`.
    pub(crate) messages: Messages,
    /// Interrupts that the task waits for.
    pub(crate) interrupts: Vec<InterruptId>,
    /// Progress cards of this turn.
    pub(crate) cards: RecentMap<ByteString, ()>,
    /// The content of the artifact that streamed last.
    pub(crate) tail: Tail,
    /// The last interrupt.
    pub(crate) asked: Option<Asked>,
    /// Hashes of events whose tokens were counted.
    pub(crate) spent: RecentMap<u64, ()>,
    /// The agent's own name, if its events name the speaker.
    pub(crate) own_name: Option<String>,
    /// The state of what Aqueduct's own server sent.
    pub(crate) marked: Marked,
    /// Artifacts of earlier turns and their length, from an attachment.
    pub(crate) earlier: HashMap<ByteString, usize>,
    /// The number of the turn: only artifacts of this turn are its answer.
    pub(crate) turn: u32,
    /// The last number that was assigned to an item without an id.
    pub(crate) counter: u64,
}

/// The kind of an artifact, as decided when it first arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, on that channel.
    Words(Channel),
    /// A restatement of the answer; later chunks belong to that artifact.
    Restated(ByteString),
    /// Text that restates status texts.
    Echo,
    /// A notice, a plan, a failure or a form: emitted as a whole.
    Sign,
}

/// The state of an artifact.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The track of its text.
    pub(crate) track: Track,
    /// How later chunks are decoded.
    pub(crate) kind: Kind,
    /// The turn in which the artifact began or was last replaced.
    turn: u32,
    /// The last turn that began, replaced or appended to the artifact.
    pub(crate) touched: u32,
    /// The sub-agent that it belongs to, if any.
    pub(crate) agent: Option<Source>,
    /// The complete text so far.
    pub(crate) text: Fingerprint,
    /// The text since the artifact was last restated, if it was, and its number of chunks. Before that it is the
    /// complete text, which is not hashed twice.
    segment: Option<Fingerprint>,
    /// The number of chunks since the artifact was last restated.
    pub(crate) chunks: u32,
    /// Hashes of files and data that were shown.
    pub(crate) others: Vec<u64>,
}

/// A restatement of fewer than two chunks and this many bytes may be an intended repetition ("ha", "ha").
const RESTATED_CHUNKS: u32 = 2;
pub(super) const RESTATED_BYTES: usize = 8;
/// A single chunk counts as restated only if it is a sentence rather than a token.
const RESTATED_SINGLE_BYTES: usize = 32;

impl Record {
    /// Returns the record of an artifact without text.
    fn new(track: Track, kind: Kind, turn: u32) -> Self {
        Self {
            track,
            kind,
            turn,
            touched: turn,
            agent: None,
            text: Fingerprint::default(),
            segment: None,
            chunks: 0,
            others: Vec::new(),
        }
    }

    /// Sets the turn in which the artifact was replaced.
    pub(crate) fn begin_turn(&mut self, turn: u32) {
        (self.turn, self.touched) = (turn, turn);
    }

    /// Appends a chunk of text.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push(text);
        if let Some(segment) = &mut self.segment {
            segment.push(text);
        }
        self.chunks = self.chunks.saturating_add(1);
    }

    /// Records a chunk.
    pub(crate) fn note(&mut self, text: &str, parts: &[Part<'_>]) {
        if !text.is_empty() {
            self.push(text);
        }
        for part in parts.iter().filter(|part| part.as_text().is_none()) {
            self.note_other(part_number(part));
        }
    }

    /// Records a complete artifact, whose text parts are its chunks, and removes those that restate the others. The
    /// remaining text becomes that of the artifact.
    pub(crate) fn replay(&mut self, parts: &mut Vec<Part<'_>>, drop_restated: bool) {
        self.text = Fingerprint::default();
        (self.segment, self.chunks) = (None, 0);
        parts.retain(|part| {
            let Some(text) = part.as_text() else { return true };
            let is_restated = drop_restated && self.is_restated_by(text);
            if is_restated {
                self.begin_segment();
            } else if !text.is_empty() {
                self.push(text);
            }
            !is_restated
        });
    }

    /// Replaces the text.
    pub(crate) fn set(&mut self, text: &str) {
        self.text = Fingerprint::of(text);
        (self.segment, self.chunks) = (None, 1);
    }

    /// Returns `true` if a chunk repeats everything since the last restatement.
    pub(crate) fn is_restated_by(&self, chunk: &str) -> bool {
        let long = match self.chunks {
            0 => return false,
            1 => RESTATED_SINGLE_BYTES,
            RESTATED_CHUNKS.. => RESTATED_BYTES,
        };
        let segment = self.segment.as_ref().unwrap_or(&self.text);
        segment.len() >= long && segment.relation_of_whole(chunk) == Relation::Same
    }

    /// Begins the next segment for the detection of restatements.
    pub(crate) fn begin_segment(&mut self) {
        (self.segment, self.chunks) = (Some(Fingerprint::default()), 0);
    }

    /// Records a file or data. Returns `false` if it was shown before.
    pub(crate) fn note_other(&mut self, number: u64) -> bool {
        let new = !self.others.contains(&number);
        if new {
            self.others.push(number);
        }
        new
    }
}

impl TaskMemory {
    /// Returns the interrupts that the task waits for, for [`answering`](crate::input::answering).
    pub fn interrupts(&self) -> &[InterruptId] {
        &self.interrupts
    }

    /// Records the task that a follow-up names before the first event does.
    pub(crate) fn expect_task(&mut self, message: &Message<'_>) {
        if !message.task_id.is_empty() {
            self.task_id = Arc::from(message.task_id.as_str());
            self.context_id = ByteString::from(message.context_id.as_str());
        }
    }

    /// Returns the artifacts of earlier turns, and the length of their text.
    pub(crate) fn left_by_earlier_turns(&self) -> impl Iterator<Item = (&ByteString, usize)> {
        let earlier = self.artifacts.iter().filter(|(_, record)| record.turn < self.turn);
        earlier.map(|(id, record)| (id, record.text.len()))
    }

    /// Returns `true` if an artifact is unchanged since an earlier turn that another client decoded.
    pub(crate) fn is_left_by_earlier_turn(&self, artifact: &Artifact<'_>) -> bool {
        let Some(length) = self.earlier.get(artifact.artifact_id.as_str()) else { return false };
        *length == artifact.parts.iter().filter_map(Part::as_text).map(|text| text.len()).sum::<usize>()
    }

    /// Returns the key of an artifact, which is also its track. An artifact without an id has its name as key; each one
    /// that is not appended to is then a new one.
    pub(crate) fn place(&mut self, artifact: &Artifact<'_>, append: bool, live: bool) -> ByteString {
        if let Some(id) = artifact.artifact_id.set() {
            return match self.artifacts.get_key_value(id) {
                Some((known, _)) => known.clone(),
                None => ByteString::from(id),
            };
        }
        let name = artifact.name.set().unwrap_or("artifact");
        let latest =
            self.artifacts.keys().rev().find(|key| {
                key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
            });
        match latest {
            Some(latest) if append || !live => latest.clone(),
            Some(_) => {
                self.counter += 1;
                ByteString::from(format!("{name}#{}", self.counter))
            }
            None => ByteString::from(name),
        }
    }

    /// Returns the record of an artifact, created if it is new.
    pub(crate) fn record(&mut self, place: &ByteString, kind: Kind, limits: &DecodeLimits) -> &mut Record {
        if !self.artifacts.contains_key(&**place) && self.artifacts.len() >= limits.artifacts.max(1) {
            self.artifacts.shift_remove_index(0);
        }
        let turn = self.turn;
        let record = || Box::new(Record::new(Track::new(place), kind, turn));
        self.artifacts.entry(place.clone()).or_insert_with(record)
    }

    /// Returns the answers that this turn has begun or appended to, if they have text, in the order they began.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&ByteString, &Record)> {
        let records = self.artifacts.iter().map(|(id, record)| (id, &**record));
        records.filter(|(_, record)| {
            record.kind == Kind::Words(Channel::Answer)
                && record.touched == self.turn
                && !record.text.is_blank()
        })
    }

    /// Records a progress card. Returns `true` if it is new. Beyond the limit of artifacts the oldest is dropped and
    /// would begin again.
    pub(crate) fn note_card(&mut self, id: &ByteString, limits: &DecodeLimits) -> bool {
        self.cards.insert_new(id.clone(), (), limits.artifacts)
    }

    /// Returns a number that was not used before, for items without an id.
    pub(crate) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}

/// How a message relates to earlier messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// The message is new.
    New,
    /// The message was received before, with the same text.
    Repeated,
    /// The message was received before, and is longer now.
    Extended,
    /// Another text under an id that was used before.
    Changed,
}

/// Status messages that were shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages(RecentMap<u64, Fingerprint>);

/// Returns the key of a message: its id, or its text if it has none.
fn message_key(message: &Message<'_>, text: &str) -> u64 {
    message.message_id.set().map_or_else(|| !hash_text(text), hash_text)
}

impl Messages {
    /// Returns `true` if a message with that id (or, without an id, with that text) was shown.
    pub(crate) fn knows(&self, message: &Message<'_>, text: &str) -> bool {
        self.0.contains(&message_key(message, text))
    }

    /// Records a message. `live` is unset if it is part of a snapshot: then one without an id is identified by its
    /// text; a live one is always new, because agents may send the same text twice.
    pub(crate) fn note(
        &mut self,
        message: &Message<'_>,
        text: &str,
        live: bool,
        limits: &DecodeLimits,
    ) -> Novelty {
        self.note_print(message, text, Fingerprint::of(text), live, limits)
    }

    /// As [`note`](Self::note), for a caller that has the fingerprint of the text.
    pub(crate) fn note_print(
        &mut self,
        message: &Message<'_>,
        text: &str,
        print: Fingerprint,
        live: bool,
        limits: &DecodeLimits,
    ) -> Novelty {
        let key = message_key(message, text);
        let Some(earlier) = self.0.get_mut(&key) else {
            self.0.insert(key, print, limits.messages);
            return Novelty::New;
        };
        let earlier = std::mem::replace(earlier, print);
        if message.message_id.is_empty() {
            return if live { Novelty::New } else { Novelty::Repeated };
        }
        // Both texts are blank, or equal.
        if earlier.is_blank() && text.trim().is_empty() {
            return Novelty::Repeated;
        }
        match earlier.relation_of_whole(text) {
            Relation::Same => Novelty::Repeated,
            Relation::Extends(_) => Novelty::Extended,
            Relation::First | Relation::Different => Novelty::Changed,
        }
    }
}
