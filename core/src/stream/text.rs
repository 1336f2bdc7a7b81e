//! Text and thinking of one lane: lazy starts, interruptions, deferred ends, snapshots and replacements.
//!
//! Within a track at most one text or thinking block is open: a new one ends the other.
//!
//! ```text
//!               first content                      `last`
//!   (nothing) ───────────────► open ─────────────────────────► complete
//!                               │ ▲                              │
//!      other content of the     │ │ more content under           │ more content under the same id:
//!      track, or a tool use     ▼ │ the same id (a new block     │ a new message (a new block)
//!                          interrupted  that `continues`)        ▼
//!                                                               open
//! ```
//!
//! Invariants: an end is emitted exactly once; a block is never started twice; a [`Fingerprint`] of the text that a message
//! emitted over all its blocks is kept, also after the blocks ended, until the limit of remembered blocks drops it.

mod key;
mod owner;
mod restore;

use std::collections::HashMap;
use std::sync::Arc;

use bytestring::ByteString;

use super::outlet::Outlet;
use crate::error::Error;
use crate::event::{BlockEvent, BlockHead, EndReason, Lane, SpanKind};
use crate::fingerprint::{Fingerprint, Relation, hash_text};
use crate::id::{BlockId, MessageId};
use crate::recent::RecentMap;
use crate::update::{Channel, Mode, Track, Update};
use key::Key;
pub(super) use key::origin;
use owner::Owner;

/// The emitted text or thinking of a message, over all its blocks.
#[derive(Debug, Clone, Default)]
struct EmittedText {
    print: Fingerprint,
    sealed: Option<u64>,
    /// The last block of the message.
    block: Option<BlockId>,
    complete: bool,
}

/// An open text or thinking block.
#[derive(Debug)]
struct Span {
    key: Key,
    head: Arc<BlockHead>,
    opened: u64,
    emitted: EmittedText,
}

/// A fragment with the state that [`TextSpans::plan`] needs.
#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) kind: SpanKind,
    pub(super) text: ByteString,
    pub(super) encrypted: Option<ByteString>,
    pub(super) update: &'a Update,
}

/// The effect of a fragment.
#[derive(Debug)]
pub(super) enum Plan {
    /// No new text. If the fragment was the last of its message, the end is recorded.
    Nothing,
    /// Appends to the open block.
    Continue { text: ByteString, encrypted: Option<ByteString> },
    /// Opens a new block.
    Open { text: ByteString, encrypted: Option<ByteString>, opening: Opening },
}

/// The relation of a new block to the earlier blocks of its message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opening {
    /// The first block of a message.
    Fresh,
    /// Continues the message after an interruption.
    Continues,
    /// Replaces the earlier text.
    Replaces,
}

/// The text and thinking of one lane.
#[derive(Debug, Default)]
pub(super) struct TextSpans {
    /// The open span of the main track. Separate from the others because nearly all streams have only this one.
    main: Option<Span>,
    /// Boxed: a table has room for at least four entries, and most lanes have one track.
    others: HashMap<Track, Box<Span>, foldhash::fast::RandomState>,
    memory: RecentMap<Key, EmittedText>,
    /// The block or id that represents each source message, for the tool calls that belong to it.
    messages: RecentMap<MessageId, Owner>,
    /// The key of the span that ended last: an aggregate without id restates it.
    latest: Option<Key>,
}

impl TextSpans {
    /// Decides the effect of a fragment without changing state.
    pub(super) fn plan(&self, fragment: Fragment<'_>) -> Plan {
        let Fragment { kind, text, encrypted, update } = fragment;
        let open = self.open_on(&update.track).filter(|span| span.key.matches(kind, update));
        match (open, update.mode) {
            // A message that ended stays ended; only its encrypted form may still arrive.
            (Some(span), Mode::Append) if span.emitted.complete && !text.is_empty() => {
                Plan::Open { text, encrypted, opening: Opening::Fresh }
            }
            (Some(span), Mode::Append) => match new_seal(encrypted, &span.emitted) {
                None if text.is_empty() => Plan::Nothing,
                encrypted => Plan::Continue { text, encrypted },
            },
            (None, Mode::Append) => self.plan_append(kind, text, encrypted, update),
            _ => self.plan_whole(kind, &text, encrypted, update),
        }
    }

    /// The hot path: appends to the open block with one lookup, with the same effect as [`plan`](Self::plan) and
    /// [`apply`](Self::apply). Returns the text if the update has any other effect.
    pub(super) fn try_append(
        &mut self,
        kind: SpanKind,
        text: ByteString,
        update: &Update,
        out: &mut Outlet,
    ) -> Result<(), ByteString> {
        let is_plain = update.mode == Mode::Append && !update.last && !text.is_empty();
        match self.open_on_mut(&update.track) {
            Some(span) if is_plain && !span.emitted.complete && span.key.matches(kind, update) => {
                span.append(text, None, out);
                Ok(())
            }
            _ => Err(text),
        }
    }

    /// Plans an appended fragment: continues the open block of its key, or opens one.
    fn plan_append(
        &self,
        kind: SpanKind,
        text: ByteString,
        encrypted: Option<ByteString>,
        update: &Update,
    ) -> Plan {
        let earlier = self.memory.get(&Key::of(kind, update));
        let encrypted = match earlier {
            Some(emitted) => new_seal(encrypted, emitted),
            None => encrypted,
        };
        if text.is_empty() && encrypted.is_none() {
            return Plan::Nothing;
        }
        let opening = match earlier {
            Some(emitted) if !emitted.complete || text.is_empty() => Opening::Continues,
            _ => Opening::Fresh,
        };
        Plan::Open { text, encrypted, opening }
    }

    /// Plans a whole text (`Snapshot`, `Replace`): only its new part is emitted.
    fn plan_whole(
        &self,
        kind: SpanKind,
        text: &ByteString,
        encrypted: Option<ByteString>,
        update: &Update,
    ) -> Plan {
        let (emitted, is_open) = self.restated(kind, update);
        let Some(emitted) = emitted else {
            return match encrypted {
                None if text.is_empty() => Plan::Nothing,
                encrypted => Plan::Open { text: text.clone(), encrypted, opening: Opening::Fresh },
            };
        };
        let encrypted = new_seal(encrypted, emitted);
        let missing = match emitted.print.relation(text) {
            _ if text.is_empty() => ByteString::new(),
            Relation::Same => ByteString::new(),
            Relation::First => text.clone(),
            // White space alone extends an open block but opens none.
            Relation::Extends(rest) if !is_open && rest.trim().is_empty() => ByteString::new(),
            Relation::Extends(rest) => text.slice_ref(rest),
            Relation::Different => {
                let replaces = update.mode == Mode::Replace || !emitted.complete;
                let opening = if replaces { Opening::Replaces } else { Opening::Fresh };
                return Plan::Open { text: text.clone(), encrypted, opening };
            }
        };
        match (missing.is_empty() && encrypted.is_none(), is_open) {
            (true, _) => Plan::Nothing,
            (false, true) => Plan::Continue { text: missing, encrypted },
            (false, false) => Plan::Open { text: missing, encrypted, opening: Opening::Continues },
        }
    }

    /// Applies a plan.
    pub(super) fn apply(
        &mut self,
        plan: Plan,
        kind: SpanKind,
        lane: &Arc<Lane>,
        update: &Update,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        match plan {
            Plan::Nothing => {}
            Plan::Continue { text, encrypted } => {
                if let Some(span) = self.open_on_mut(&update.track) {
                    span.append(text, encrypted, out);
                }
            }
            Plan::Open { text, encrypted, opening } => {
                self.open(kind, lane, update, opening, out)?.append(text, encrypted, out);
            }
        }
        if update.last {
            self.handle_last(kind, update, out);
        }
        Ok(())
    }

    /// Ends the open span of a track because other content starts there.
    pub(super) fn interrupt(&mut self, track: &Track, reason: EndReason, out: &mut Outlet) {
        let span = if track.as_str().is_empty() { self.main.take() } else { self.take_other(track) };
        if let Some(span) = span {
            self.end(span, reason, out);
        }
    }

    /// Removes all open spans and returns their end events, which the caller emits in the order of opening.
    pub(super) fn drain(&mut self, out: &mut Outlet) -> Vec<(u64, BlockEvent)> {
        let mut ends = Vec::new();
        let others = std::mem::take(&mut self.others).into_values().map(|span| *span);
        for span in self.main.take().into_iter().chain(others) {
            ends.push((span.opened, span.end_event(EndReason::Closed)));
            self.remember(span, out.limits.remembered_blocks);
        }
        ends
    }

    pub(super) fn is_open(&self, track: &Track) -> bool {
        self.open_on(track).is_some()
    }

    pub(super) fn open_count(&self) -> usize {
        usize::from(self.main.is_some()) + self.others.len()
    }

    /// Called when the lane is opened again: earlier texts stay remembered, but their blocks no longer belong to the lane.
    pub(super) fn reopen(&mut self) {
        self.messages = RecentMap::default();
    }

    fn open(
        &mut self,
        kind: SpanKind,
        lane: &Arc<Lane>,
        update: &Update,
        opening: Opening,
        out: &mut Outlet,
    ) -> Result<&mut Span, Error> {
        let key = match opening {
            Opening::Fresh => Key::of(kind, update),
            _ => self.restated_key(kind, update),
        };
        let key = key.detached();
        let bytes = key.message_id.as_ref().map_or(0, |id| id.as_str().len()) + key.track.as_str().len();
        let max = out.limits.bytes_per_block;
        Outlet::check(bytes, max, "bytes_per_block", "bytes of ids in one block", lane.source.path())?;
        let replaced_on_track = matches!(opening, Opening::Replaces)
            && self.open_on(&update.track).is_some_and(|span| span.key == key);
        let reason = if replaced_on_track { EndReason::Replaced } else { EndReason::Interrupted };
        self.interrupt(&update.track, reason, out);

        let earlier = self.memory.remove(&key);
        let previous = earlier.as_ref().and_then(|emitted| emitted.block.clone());
        let id = match opening {
            Opening::Fresh => self.fresh_id(kind, update.channel, key.message_id.as_ref(), out),
            _ => BlockId::new(out.mint()),
        };
        let (continues, replaces, mut emitted) = match opening {
            Opening::Fresh => (None, None, EmittedText::default()),
            Opening::Continues => (previous, None, earlier.unwrap_or_default()),
            Opening::Replaces => (None, previous, EmittedText::default()),
        };
        emitted.block = Some(id.clone());
        let head = Arc::new(BlockHead {
            id,
            kind,
            lane: Arc::clone(lane),
            channel: update.channel,
            role: update.role,
            tool_name: ByteString::new(),
            parent: None,
            continues,
            replaces,
            origin: key.origin(update),
        });
        if let (SpanKind::Text, Channel::Answer, Some(message)) = (kind, update.channel, &key.message_id) {
            let owner = Owner::Text(head.id.clone());
            self.messages.insert(message.clone(), owner, out.limits.remembered_blocks);
        }
        out.emit(BlockEvent::BlockStarted(Arc::clone(&head)));
        let span = Span { key, head, opened: out.next_opened(), emitted };
        Ok(if update.track.as_str().is_empty() {
            self.main.insert(span)
        } else {
            self.others.entry(span.key.track.clone()).insert_entry(Box::new(span)).into_mut()
        })
    }

    /// Ends the open block of an update that is the last of its message.
    pub(super) fn handle_last(&mut self, kind: SpanKind, update: &Update, out: &mut Outlet) {
        let key = self.restated_key(kind, update);
        if self.open_on(&update.track).is_some_and(|span| span.key == key) {
            self.interrupt(&update.track, EndReason::Complete, out);
        } else if let Some(emitted) = self.memory.get_mut(&key) {
            emitted.complete = true;
        }
    }

    /// Returns the emitted text that a whole-text update restates, and whether its block is open.
    fn restated(&self, kind: SpanKind, update: &Update) -> (Option<&EmittedText>, bool) {
        let key = self.restated_key(kind, update);
        match self.open_on(&update.track).filter(|span| span.key == key) {
            Some(span) => (Some(&span.emitted), true),
            None => (self.memory.get(&key), false),
        }
    }

    /// Returns the key that an update belongs to: its own, unless it is a whole text without id, which restates the open span
    /// of its track, or the one that ended there last.
    fn restated_key(&self, kind: SpanKind, update: &Update) -> Key {
        let own = Key::of(kind, update);
        if update.message_id.is_some() || update.mode == Mode::Append || self.memory.contains(&own) {
            return own;
        }
        let open = self.open_on(&update.track).map(|span| &span.key);
        open.into_iter()
            .chain(self.latest.as_ref())
            .find(|key| key.kind == kind && key.channel == update.channel && key.track == update.track)
            .cloned()
            .unwrap_or(own)
    }

    fn open_on(&self, track: &Track) -> Option<&Span> {
        if track.as_str().is_empty() {
            self.main.as_ref()
        } else {
            self.others.get(track).map(|span| &**span)
        }
    }

    fn open_on_mut(&mut self, track: &Track) -> Option<&mut Span> {
        if track.as_str().is_empty() {
            self.main.as_mut()
        } else {
            self.others.get_mut(track).map(|span| &mut **span)
        }
    }

    fn take_other(&mut self, track: &Track) -> Option<Span> {
        self.others.remove(track).map(|span| *span)
    }

    fn end(&mut self, mut span: Span, reason: EndReason, out: &mut Outlet) {
        span.emitted.complete |= reason == EndReason::Complete;
        out.emit(span.end_event(reason));
        self.remember(span, out.limits.remembered_blocks);
    }

    /// Keeps the emitted text of an ended span for the comparison with later snapshots.
    fn remember(&mut self, span: Span, max: usize) {
        self.latest = Some(span.key.clone());
        self.memory.insert(span.key, span.emitted, max);
    }
}

impl Span {
    fn append(&mut self, text: ByteString, encrypted: Option<ByteString>, out: &mut Outlet) {
        if !text.is_empty() {
            self.emitted.complete = false;
            self.emitted.print.push(&text);
            out.emit(BlockEvent::BlockDelta { block: Arc::clone(&self.head), delta: text });
        }
        if let Some(value) = encrypted {
            self.emitted.sealed = Some(hash_text(&value));
            out.emit(BlockEvent::ThinkingEncrypted { block: Arc::clone(&self.head), value });
        }
    }

    fn end_event(&self, reason: EndReason) -> BlockEvent {
        BlockEvent::BlockEnded { block: Arc::clone(&self.head), reason }
    }
}

/// Returns the encrypted form, unless the message has already emitted it.
fn new_seal(encrypted: Option<ByteString>, emitted: &EmittedText) -> Option<ByteString> {
    encrypted.filter(|value| !value.is_empty() && emitted.sealed != Some(hash_text(value)))
}
