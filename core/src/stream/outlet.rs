//! State that all lanes share: the queue of events that wait to be polled, the ids, the order of opening, the limits.

use std::collections::{HashSet, VecDeque};

use bytestring::ByteString;

use super::limits::Limits;
use crate::error::Error;
use crate::event::BlockEvent;
use crate::fingerprint::hash_text;
use crate::id::{BlockId, IdMint, MessageId, RunId, ToolCallId};

/// Ids of a source that a run emits unchanged. Beyond that every block gets a minted id, so memory is bounded (8 bytes an
/// id) and ids stay unique.
const KEPT_IDS: usize = 1 << 16;

/// The longest id, in bytes, that is emitted unchanged. Every event of a block carries its id; ids of real frameworks have
/// at most about 80 bytes.
const KEPT_ID_BYTES: usize = 256;

/// The queue keeps room for so many events; the room of a burst is freed once it is polled, because a silent run would
/// hold it for hours.
const KEPT_EVENTS: usize = 16;

/// The shared output of all lanes.
#[derive(Debug)]
pub(super) struct Outlet {
    events: VecDeque<BlockEvent>,
    mint: IdMint,
    opened: u64,
    pub(super) limits: Limits,
    /// Hashes of ids that must not be emitted again: those of this run and of the thread's history. A collision only causes
    /// a minted id.
    taken: HashSet<u64, foldhash::fast::RandomState>,
    /// Set if message ids are emitted unchanged where they are unique in the thread.
    keeps_messages: bool,
    known_calls: HashSet<ToolCallId, foldhash::fast::RandomState>,
}

impl Outlet {
    pub(super) fn new(run: &RunId, limits: Limits) -> Self {
        Self {
            events: VecDeque::new(),
            mint: IdMint::new(run),
            opened: 0,
            limits,
            taken: HashSet::default(),
            keeps_messages: false,
            known_calls: HashSet::default(),
        }
    }

    pub(super) fn emit(&mut self, event: BlockEvent) {
        self.events.push_back(event);
    }

    pub(super) fn poll(&mut self) -> Option<BlockEvent> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > KEPT_EVENTS {
            self.events = VecDeque::new();
        }
        event
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns a new id for a block, result or lane.
    pub(super) fn mint(&mut self) -> ByteString {
        ByteString::from(self.mint.mint())
    }

    /// Excludes an id that the run already emitted.
    pub(super) fn skip(&mut self, id: &str) {
        self.mint.skip(id);
    }

    /// Returns `true` if `id` has the form of a minted id of this run.
    pub(super) fn is_minted(&self, id: &str) -> bool {
        self.mint.could_mint(id)
    }

    /// Marks an id as used, so that it is not emitted again.
    pub(super) fn take(&mut self, id: &str) {
        self.taken.insert(hash_text(id));
    }

    /// Emits message ids unchanged from now on.
    pub(super) fn keep_messages(&mut self) {
        self.keeps_messages = true;
    }

    /// Drops the queued events: they have already been emitted.
    pub(super) fn discard(&mut self) {
        self.events.clear();
    }

    /// Returns the next position in the order of opening.
    pub(super) fn next_opened(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// Declares a tool call of an earlier run of the thread.
    pub(super) fn know_call(&mut self, call: &ToolCallId) {
        self.take(call.as_str());
        self.known_calls.insert(call.detached());
    }

    pub(super) fn is_known_call(&self, call: &ToolCallId) -> bool {
        self.known_calls.contains(call)
    }

    /// Returns the emitted id of a new tool call: the source's id if it is unique in the thread, otherwise a minted one.
    pub(super) fn call_id(&mut self, given: Option<&ToolCallId>) -> BlockId {
        let kept = given.and_then(|id| self.claim(id.as_bytes()));
        kept.unwrap_or_else(|| BlockId::new(self.mint()))
    }

    /// Returns the emitted id of a new block of a source message: the message's id if message ids are kept and it is unique
    /// in the thread, otherwise a minted one.
    pub(super) fn block_id(&mut self, given: Option<&MessageId>) -> BlockId {
        let kept = given.and_then(|id| self.claim_message(id));
        kept.unwrap_or_else(|| BlockId::new(self.mint()))
    }

    pub(super) fn keeps_messages(&self) -> bool {
        self.keeps_messages
    }

    /// Marks the message's id as used and returns it. Returns `None` if message ids are not kept or the id is used already.
    pub(super) fn claim_message(&mut self, given: &MessageId) -> Option<BlockId> {
        if self.keeps_messages { self.claim(given.as_bytes()) } else { None }
    }

    /// Returns the source's id if it is short enough, not of the form of a minted id, and unused.
    fn claim(&mut self, given: &ByteString) -> Option<BlockId> {
        let free = !given.is_empty()
            && given.len() <= KEPT_ID_BYTES
            && self.taken.len() < KEPT_IDS
            && !self.mint.could_mint(given)
            && self.taken.insert(hash_text(given));
        free.then(|| BlockId::new(crate::id::detach(given)))
    }

    /// Returns an error if `count` exceeds `max`.
    pub(super) fn check(
        count: usize,
        max: usize,
        limit: &'static str,
        what: &'static str,
        lane: &str,
    ) -> Result<(), Error> {
        if count > max {
            let lane = lane.to_owned();
            return Err(Error::LimitExceeded { limit, what, max, lane });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_ids_are_kept_as_can_be_remembered() {
        let mut out = Outlet::new(&RunId::from("run"), Limits::default());
        out.keep_messages();
        let id = |n: usize| MessageId::from(format!("m{n}"));
        for n in 0..KEPT_IDS {
            assert!(out.claim_message(&id(n)).is_some(), "{n}");
        }
        assert_eq!(out.claim_message(&id(KEPT_IDS)), None);
        assert_eq!(out.block_id(Some(&id(KEPT_IDS))).as_str(), "run/1");
    }

    #[test]
    fn the_memory_of_many_events_is_released_and_that_of_few_is_kept() {
        let mut out = Outlet::new(&RunId::from("run"), Limits::default());
        for (capacity, is_kept) in [(KEPT_EVENTS, true), (KEPT_EVENTS + 1, false)] {
            out.events = VecDeque::with_capacity(capacity);
            assert_eq!(out.events.capacity(), capacity);
            assert_eq!(out.poll(), None);
            assert_eq!(out.events.capacity() == capacity, is_kept, "{capacity}");
        }
    }
}
