//! Words: what a message has said so far against the whole of it.

use std::collections::HashMap;

use crate::event::SpanKind;
use crate::{
    BlockEvent, BlockHead, BlockId, ByteString, Channel, ContentBlock, MessageId, Mode, SourceEvent, Track,
    Update,
};

/// What a source means by "the same text".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    path: String,
    kind: SpanKind,
    channel: Channel,
    track: Track,
    message: Option<MessageId>,
}

/// The words of all messages in the log.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: HashMap<Key, String>,
    /// Blocks that go on or replace others belong to the message of those.
    blocks: HashMap<BlockId, Key>,
}

/// How much of a message is left to say.
#[derive(Debug)]
enum Rest {
    /// What follows that many bytes of what is told.
    After(usize),
    /// All, instead of what is known; with the last update of the message.
    Instead(String),
    /// What was told by others than appended words: its rest, with the last update.
    Suffix(String),
}

/// What is left to say of each message.
#[derive(Debug)]
pub(super) struct Compared {
    rests: HashMap<Key, (Rest, usize)>,
}

/// True for text and thinking.
pub(super) fn is_words(update: &Update) -> bool {
    matches!(update.block, ContentBlock::Text(_) | ContentBlock::Thinking(_))
}

fn words(update: &Update) -> ByteString {
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

    /// Compares with everything that is told again.
    pub(super) fn compare(self, events: &[SourceEvent], is_made: fn(&str) -> bool) -> Compared {
        let told = Told::of(events);
        let mut free: Vec<(&Key, &String)> =
            self.known.iter().filter(|(key, _)| key.is_made(is_made) && !told.0.contains_key(*key)).collect();
        let mut rests = HashMap::new();
        for (key, (whole, is_appended, updates)) in told.0 {
            let known = match self.known.get(&key) {
                Some(known) => known.as_str(),
                None if key.is_made(is_made) => {
                    let like = |(other, text): &(&Key, &String)| other.is_like(&key) && **text == whole;
                    free.iter().position(like).map_or("", |at| free.swap_remove(at).1.as_str())
                }
                None => "",
            };
            let rest = match whole.strip_prefix(known) {
                Some(_) if is_appended => Rest::After(known.len()),
                Some(rest) => Rest::Suffix(rest.to_owned()),
                // The agent's own record is behind what it has sent.
                None if known.trim_end().starts_with(whole.trim_end()) => Rest::Suffix(String::new()),
                None => Rest::Instead(whole),
            };
            rests.insert(key, (rest, updates));
        }
        Compared { rests }
    }
}

impl Key {
    fn is_made(&self, is_made: fn(&str) -> bool) -> bool {
        self.message.as_ref().is_some_and(|id| is_made(id.as_str()))
    }

    fn is_like(&self, other: &Self) -> bool {
        self.path == other.path && self.kind == other.kind && self.channel == other.channel
    }
}

/// Messages as they are told again: the whole text, whether it is all appended, and in how many updates.
struct Told(HashMap<Key, (String, bool, usize)>);

impl Told {
    fn of(events: &[SourceEvent]) -> Self {
        let mut told: HashMap<Key, (String, bool, usize)> = HashMap::new();
        for event in events {
            let SourceEvent::Update(update) = event else { continue };
            if !is_words(update) {
                continue;
            }
            let (whole, is_appended, updates) =
                told.entry(key_of(update)).or_insert_with(|| (String::new(), true, 0));
            *updates += 1;
            if update.mode != Mode::Append && !words(update).is_empty() {
                *is_appended = false;
                whole.clear();
            }
            whole.push_str(&words(update));
        }
        Self(told)
    }
}

impl Compared {
    /// What an update says that is not known; none if it says nothing else either.
    pub(super) fn rest(&mut self, mut update: Update) -> Option<Update> {
        let (rest, updates) = self.rests.get_mut(&key_of(&update))?;
        *updates -= 1;
        let is_last = *updates == 0;
        let (text, mode) = match rest {
            Rest::After(known) => {
                let said = words(&update);
                let skipped = said.len().min(*known);
                *known -= skipped;
                (said.get(skipped..).map(|new| said.slice_ref(new)).unwrap_or_default(), Mode::Append)
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
        let says = !words(&update).is_empty() || update.last || seal.is_some();
        says.then_some(update)
    }
}
