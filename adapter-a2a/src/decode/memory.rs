//! What one task has shown so far: enough to show nothing twice when it is told again.
//!
//! A snapshot repeats artifacts and messages; a follow-up turn repeats those of earlier turns. Memory is prints
//! and ids, never texts, and bounded ([`DecodeLimits`]).

use std::collections::VecDeque;

use aqueduct_core::{ByteString, Channel, Source};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::marked::Marked;
use super::parts::part_number;
use super::print::{Print, Relation};
use super::question::Asked;
use super::speech::Tail;
use crate::config::DecodeLimits;
use crate::wire::{Artifact, Message, Part};

type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// What one task has shown so far. Hand it to the decoder of the next turn of the same task.
#[derive(Debug, Clone, Default)]
pub struct TaskMemory {
    pub(crate) task_id: ByteString,
    pub(crate) context_id: ByteString,
    pub(crate) artifacts: IndexMap<ByteString, Record, RandomState>,
    pub(crate) messages: Messages,
    /// Progress cards of this turn.
    pub(crate) cards: Vec<ByteString>,
    /// What the artifact that spoke last has shown.
    pub(crate) tail: Tail,
    /// The last question that was asked.
    pub(crate) asked: Option<Asked>,
    /// Events whose tokens were counted, as numbers.
    pub(crate) spent: std::collections::HashSet<u64, RandomState>,
    /// The agent's own name, where its events say who speaks.
    pub(crate) own_name: Option<String>,
    /// What Aqueduct's own server sent.
    pub(crate) marked: Marked,
    /// Artifacts that earlier turns left, and their length, as told by whoever read them.
    pub(crate) earlier: HashMap<ByteString, usize>,
    /// Counts turns: only artifacts of this turn are its answer.
    pub(crate) turn: u32,
    pub(crate) counter: u64,
}

/// What an artifact is, as decided when it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words, on that channel.
    Words(Channel),
    /// The answer once more; chunks that follow belong to that artifact.
    Restated(ByteString),
    /// Words that restate what statuses have shown.
    Echo,
    /// A notice, a plan, a failure or a form: told as a whole.
    Sign,
}

/// What is remembered of an artifact.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) turn: u32,
    /// The agent whose it is, if not the task's own.
    pub(crate) agent: Option<Source>,
    pub(crate) text: Print,
    /// The text since the artifact was last restated whole, if it was, and in how many chunks it came. Until then it
    /// is all of the text, which is not hashed twice.
    segment: Option<Print>,
    pub(crate) chunks: u32,
    /// Files and data that were shown, as numbers.
    pub(crate) others: Vec<u64>,
}

/// A restatement of less than two chunks and so many bytes may be a repetition that is meant ("ha", "ha").
const RESTATED_CHUNKS: u32 = 2;
const RESTATED_BYTES: usize = 8;
/// A single chunk is taken for restated only if it is a sentence rather than a token.
const RESTATED_SINGLE_BYTES: usize = 32;

impl Record {
    fn new(kind: Kind, turn: u32) -> Self {
        Self { kind, turn, agent: None, text: Print::default(), segment: None, chunks: 0, others: Vec::new() }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push(text);
        if let Some(segment) = &mut self.segment {
            segment.push(text);
        }
        self.chunks = self.chunks.saturating_add(1);
    }

    /// Takes note of a chunk.
    pub(crate) fn note(&mut self, text: &str, parts: &[Part<'_>]) {
        if !text.is_empty() {
            self.push(text);
        }
        for part in parts.iter().filter(|part| part.as_text().is_none()) {
            self.note_other(part_number(part));
        }
    }

    /// Takes note of a whole artifact, whose text parts are the chunks it was made of, and leaves out those that
    /// restate the others. The words that are left are the artifact's from now on.
    pub(crate) fn replay(&mut self, parts: &mut Vec<Part<'_>>, drop_restated: bool) {
        self.text = Print::default();
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

    /// Takes the whole text anew.
    pub(crate) fn set(&mut self, text: &str) {
        self.text = Print::of(text);
        (self.segment, self.chunks) = (None, 1);
    }

    /// True if a chunk repeats everything since the last restatement.
    pub(crate) fn is_restated_by(&self, chunk: &str) -> bool {
        let long = match self.chunks {
            0 => return false,
            1 => RESTATED_SINGLE_BYTES,
            RESTATED_CHUNKS.. => RESTATED_BYTES,
        };
        let segment = self.segment.as_ref().unwrap_or(&self.text);
        segment.len() >= long && segment.relation(chunk) == Relation::Same
    }

    /// The next restatement begins here.
    pub(crate) fn begin_segment(&mut self) {
        (self.segment, self.chunks) = (Some(Print::default()), 0);
    }

    /// Notes a file or data; false if it was shown before.
    pub(crate) fn note_other(&mut self, number: u64) -> bool {
        let new = !self.others.contains(&number);
        if new {
            self.others.push(number);
        }
        new
    }
}

impl TaskMemory {
    /// A follow-up names its task before the first event does.
    pub(crate) fn expect_task(&mut self, message: &Message<'_>) {
        if !message.task_id.is_empty() {
            self.task_id = ByteString::from(message.task_id.as_str());
            self.context_id = ByteString::from(message.context_id.as_str());
        }
    }

    /// The artifacts that earlier turns left, and the length of their words.
    pub(crate) fn left_by_earlier_turns(&self) -> impl Iterator<Item = (&ByteString, usize)> {
        let earlier = self.artifacts.iter().filter(|(_, record)| record.turn < self.turn);
        earlier.map(|(id, record)| (id, record.text.len()))
    }

    /// True if an artifact is as an earlier turn left it, which somebody else has read.
    pub(crate) fn is_left_by_earlier_turn(&self, artifact: &Artifact<'_>) -> bool {
        let Some(length) = self.earlier.get(artifact.artifact_id.as_str()) else { return false };
        *length == artifact.parts.iter().filter_map(Part::as_text).map(|text| text.len()).sum::<usize>()
    }

    /// The name under which an artifact is remembered, which is also its track. An artifact without id goes by
    /// its name; each that is not appended to is then a new one.
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

    /// The record of an artifact, made if it is new.
    pub(crate) fn record(&mut self, place: &ByteString, kind: Kind, limits: &DecodeLimits) -> &mut Record {
        if !self.artifacts.contains_key(&**place) && self.artifacts.len() >= limits.artifacts.max(1) {
            self.artifacts.shift_remove_index(0);
        }
        let turn = self.turn;
        self.artifacts.entry(place.clone()).or_insert_with(|| Record::new(kind, turn))
    }

    /// The answers of this turn that have words, in the order they began.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&ByteString, &Record)> {
        self.artifacts.iter().filter(|(_, record)| {
            record.kind == Kind::Words(Channel::Answer) && record.turn == self.turn && !record.text.is_blank()
        })
    }

    /// Notes a progress card; true if it is new. Past the limit of artifacts the oldest is forgotten and begins anew.
    pub(crate) fn note_card(&mut self, id: &ByteString, limits: &DecodeLimits) -> bool {
        let is_new = !self.cards.contains(id);
        if is_new {
            if self.cards.len() >= limits.artifacts.max(1) {
                self.cards.remove(0);
            }
            self.cards.push(id.clone());
        }
        is_new
    }

    /// A number that was not used before, for things without id.
    pub(crate) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}

/// How new a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// Not heard before.
    New,
    /// Heard before, word by word.
    Repeated,
    /// Heard before, and now longer.
    Extended,
    /// Other words under an id that was used before.
    Changed,
}

/// Status messages that were shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    seen: HashMap<u64, Print>,
    order: VecDeque<u64>,
}

/// A message is known by its id, or by its words if it has none.
fn message_key(message: &Message<'_>, text: &str) -> u64 {
    message.message_id.set().map_or_else(|| !Print::number(text), Print::number)
}

impl Messages {
    /// True if a message of that id (or, without id, of those words) was shown.
    pub(crate) fn knows(&self, message: &Message<'_>, text: &str) -> bool {
        self.seen.contains_key(&message_key(message, text))
    }

    /// Takes note of a message. `live` is false if it comes out of a snapshot: then one without id is known by its
    /// words; a live one is always new, because agents may say a thing twice.
    pub(crate) fn note(
        &mut self,
        message: &Message<'_>,
        text: &str,
        live: bool,
        limits: &DecodeLimits,
    ) -> Novelty {
        let id = message.message_id.set();
        let key = message_key(message, text);
        let novelty = match self.seen.get(&key) {
            None => Novelty::New,
            Some(_) if id.is_none() => {
                if live {
                    Novelty::New
                } else {
                    Novelty::Repeated
                }
            }
            // No words before and none now, or the same.
            Some(earlier) if earlier.is_blank() && text.trim().is_empty() => Novelty::Repeated,
            Some(earlier) => match earlier.relation(text) {
                Relation::Same => Novelty::Repeated,
                Relation::Extends(_) => Novelty::Extended,
                Relation::Different => Novelty::Changed,
            },
        };
        if self.seen.insert(key, Print::of(text)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > limits.messages.max(1)
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        novelty
    }
}
