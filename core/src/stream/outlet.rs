//! What all lanes share: the queue of events that wait to be polled, the ids, the order of opening, the limits.

use std::collections::{HashSet, VecDeque};

use bytestring::ByteString;

use super::error::StreamError;
use super::limits::Limits;
use crate::event::BlockEvent;
use crate::fingerprint::hash_bytes;
use crate::id::{BlockId, IdMint, RunId, ToolCallId};

/// Ids a run may let out as the source spelled them. Past that every call gets a minted id, so memory is bounded
/// (8 bytes an id) and ids stay unique.
const KEPT_CALL_IDS: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Outlet {
    events: VecDeque<BlockEvent>,
    mint: IdMint,
    opened: u64,
    pub(super) limits: Limits,
    /// Hashes of tool call ids that must not leave again: those of this run and of the thread's history. A
    /// collision costs a kept spelling and nothing else.
    taken_calls: HashSet<u64, foldhash::fast::RandomState>,
    known_calls: HashSet<ToolCallId, foldhash::fast::RandomState>,
}

impl Outlet {
    pub(super) fn new(run: &RunId, limits: Limits) -> Self {
        Self {
            events: VecDeque::new(),
            mint: IdMint::new(run),
            opened: 0,
            limits,
            taken_calls: HashSet::default(),
            known_calls: HashSet::default(),
        }
    }

    pub(super) fn emit(&mut self, event: BlockEvent) {
        self.events.push_back(event);
    }

    pub(super) fn poll(&mut self) -> Option<BlockEvent> {
        self.events.pop_front()
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// A new id for a block, result or lane.
    pub(super) fn mint(&mut self) -> ByteString {
        ByteString::from(self.mint.mint())
    }

    /// Takes note of an id that left before.
    pub(super) fn skip(&mut self, id: &str) {
        self.mint.skip(id);
    }

    /// Takes note of a tool call that left before, under the source's own id for it.
    pub(super) fn skip_call(&mut self, given: &ToolCallId) {
        self.taken_calls.insert(hash_bytes(0, given.as_str().as_bytes()));
    }

    /// Drops what waits: it left before.
    pub(super) fn discard(&mut self) {
        self.events.clear();
    }

    /// The place of the next thing to open in the order of opening.
    pub(super) fn next_opened(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// Declares a tool call of an earlier run of the thread.
    pub(super) fn know_call(&mut self, call: &ToolCallId) {
        self.taken_calls.insert(hash_bytes(0, call.as_str().as_bytes()));
        self.known_calls.insert(call.detached());
    }

    pub(super) fn is_known_call(&self, call: &ToolCallId) -> bool {
        self.known_calls.contains(call)
    }

    /// The outgoing id of a new tool call: the source's own spelling if nothing in the thread has it yet.
    pub(super) fn call_id(&mut self, given: Option<&ToolCallId>) -> BlockId {
        if let Some(id) = given
            && self.taken_calls.len() < KEPT_CALL_IDS
            && !self.mint.could_mint(id.as_str())
            && self.taken_calls.insert(hash_bytes(0, id.as_str().as_bytes()))
        {
            return BlockId::new(crate::id::detach(id.as_bytes()));
        }
        BlockId::new(self.mint())
    }

    /// Refuses what passes a limit.
    pub(super) fn check(
        count: usize,
        max: usize,
        limit: &'static str,
        what: &'static str,
        lane: &str,
    ) -> Result<(), StreamError> {
        if count > max {
            let lane = lane.to_owned();
            return Err(StreamError::LimitExceeded { limit, what, max, lane });
        }
        Ok(())
    }
}
