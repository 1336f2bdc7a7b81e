//! Text and thinking of a [`History`](super::History): the logged text of each message against the text that the source
//! sends again.
//!
//! Invariant: for each message the source's updates are reduced to the part that the log lacks. Texts are held whole, for
//! the duration of one takeover.

use std::collections::HashMap;

use crate::event::SpanKind;
use crate::{
    BlockEvent, BlockHead, BlockId, ByteString, Channel, ContentBlock, MessageId, Mode, SourceEvent, Track,
    Update,
};

/// The identity of a message's text: updates with equal keys belong to the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    path: String,
    kind: SpanKind,
    channel: Channel,
    track: Track,
    message: Option<MessageId>,
}

/// The logged text of all messages.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: HashMap<Key, String>,
    /// The message of each block. A block that continues or replaces another belongs to the message of that block.
    blocks: HashMap<BlockId, Key>,
}

/// The part of a message's text that the log lacks.
#[derive(Debug)]
enum Rest {
    /// The text after this many bytes of the repeated text.
    After(usize),
    /// The whole text replaces the logged one, with the last update of the message.
    Instead(String),
    /// The suffix of a text that was not sent by appending updates alone. Emitted with the last update.
    Suffix(String),
}

/// The missing part of each message's text, and the updates still expected for it.
#[derive(Debug)]
pub(super) struct Compared {
    rests: HashMap<Key, (Rest, usize)>,
}

/// Returns `true` for text and thinking.
pub(super) fn is_text(update: &Update) -> bool {
    matches!(update.block, ContentBlock::Text(_) | ContentBlock::Thinking(_))
}

fn text_of(update: &Update) -> ByteString {
    match &update.block {
        ContentBlock::Thinking(thinking) => thinking.text.clone(),
        ContentBlock::Text(text) => text.text.clone(),
        _ => ByteString::new(),
    }
}

fn key_of(update: &Update) -> Key {
    let kind =
        if matches!(update.block, ContentBlock::Thinking(_)) { SpanKind::Thinking } else { SpanKind::Text };
    Key {
        path: update.source.path().to_owned(),
        kind,
        channel: update.channel,
        track: update.track.clone(),
        message: update.message_id.clone(),
    }
}

impl Texts {
    pub(super) fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::BlockStarted(head) => self.begin(head),
            BlockEvent::BlockDelta { block, delta } => {
                if let Some(text) = self.blocks.get(&block.id).and_then(|key| self.known.get_mut(key)) {
                    text.push_str(delta);
                }
            }
            _ => {}
        }
    }

    /// Assigns a block to the message of the block that it continues or replaces, or to its own.
    fn begin(&mut self, head: &BlockHead) {
        let earlier = head.continues.as_ref().or(head.replaces.as_ref()).and_then(|id| self.blocks.get(id));
        let key = earlier.cloned().unwrap_or_else(|| Key {
            path: head.lane.source.path().to_owned(),
            kind: head.kind,
            channel: head.channel,
            track: head.origin.track.clone(),
            message: head.origin.message_id.clone(),
        });
        let text = self.known.entry(key.clone()).or_default();
        if head.replaces.is_some() {
            text.clear();
        }
        self.blocks.insert(head.id.clone(), key);
    }

    /// Compares the logged texts with the repeated ones.
    pub(super) fn compare(self, events: &[SourceEvent], is_generated: fn(&str) -> bool) -> Compared {
        let restated = Restated::of(events);
        let mut free: Vec<(&Key, &String)> = self
            .known
            .iter()
            .filter(|(key, _)| key.is_generated(is_generated) && !restated.0.contains_key(*key))
            .collect();
        let mut rests = HashMap::new();
        for (key, (whole, is_appended, updates)) in restated.0 {
            let known = match self.known.get(&key) {
                Some(known) => known.as_str(),
                None if key.is_generated(is_generated) => {
                    let like =
                        |(other, text): &(&Key, &String)| other.matches_without_id(&key) && **text == whole;
                    free.iter().position(like).map_or("", |at| free.swap_remove(at).1.as_str())
                }
                None => "",
            };
            let rest = match whole.strip_prefix(known) {
                Some(_) if is_appended => Rest::After(known.len()),
                Some(rest) => Rest::Suffix(rest.to_owned()),
                // The agent's record is shorter than the text that it already sent.
                None if known.trim_end().starts_with(whole.trim_end()) => Rest::Suffix(String::new()),
                None => Rest::Instead(whole),
            };
            rests.insert(key, (rest, updates));
        }
        Compared { rests }
    }
}

impl Key {
    fn is_generated(&self, is_generated: fn(&str) -> bool) -> bool {
        self.message.as_ref().is_some_and(|id| is_generated(id.as_str()))
    }

    /// Returns `true` if both keys differ at most in track and message id.
    fn matches_without_id(&self, other: &Self) -> bool {
        self.path == other.path && self.kind == other.kind && self.channel == other.channel
    }
}

/// Repeated messages: the whole text, whether all of it was appended, and the number of updates.
struct Restated(HashMap<Key, (String, bool, usize)>);

impl Restated {
    /// Concatenates the text of each message in `events`.
    fn of(events: &[SourceEvent]) -> Self {
        let mut restated: HashMap<Key, (String, bool, usize)> = HashMap::new();
        for event in events {
            let SourceEvent::Update(update) = event else { continue };
            if !is_text(update) {
                continue;
            }
            let (whole, is_appended, updates) =
                restated.entry(key_of(update)).or_insert_with(|| (String::new(), true, 0));
            *updates += 1;
            if update.mode != Mode::Append && !text_of(update).is_empty() {
                *is_appended = false;
                whole.clear();
            }
            whole.push_str(&text_of(update));
        }
        Self(restated)
    }
}

impl Compared {
    /// Returns the part of an update that the log lacks. Returns `None` if the log holds all of it.
    pub(super) fn rest(&mut self, mut update: Update) -> Option<Update> {
        let (rest, updates) = self.rests.get_mut(&key_of(&update))?;
        *updates -= 1;
        let is_last = *updates == 0;
        let (text, mode) = match rest {
            Rest::After(known) => {
                let text = text_of(&update);
                let skipped = text.len().min(*known);
                *known -= skipped;
                (text.get(skipped..).map(|new| text.slice_ref(new)).unwrap_or_default(), Mode::Append)
            }
            Rest::Suffix(suffix) if is_last => (std::mem::take(suffix).into(), Mode::Append),
            Rest::Instead(whole) if is_last => (std::mem::take(whole).into(), Mode::Replace),
            Rest::Suffix(_) | Rest::Instead(_) => (ByteString::new(), Mode::Append),
        };
        let mut seal = None;
        match &mut update.block {
            ContentBlock::Text(part) => part.text = text,
            ContentBlock::Thinking(part) => {
                seal.clone_from(&part.encrypted);
                part.text = text;
            }
            _ => {}
        }
        update.mode = mode;
        let has_content = !text_of(&update).is_empty() || update.last || seal.is_some();
        has_content.then_some(update)
    }
}
