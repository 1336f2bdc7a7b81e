//! Tool calls of one lane: lazy starts, parallel calls, calls without id, results, repeats.
//!
//! ```text
//!            name known      `last`, a result or the end of the lane
//!   unnamed ────────────► open ───────────────────────────────────────► ended ──────► answered ─┐ repeated call or result:
//!      │                                                                  ▲   result       ▲    │ suppressed
//!      └────────────── a result, or the end of the lane ──────────────────┘                └────┘
//! ```
//!
//! Calls never end each other: parallel calls stay open together. Invariants: a call starts before its arguments and ends
//! before its result; an aggregate that repeats an answered call does not start it again.

mod restore;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytestring::ByteString;

use super::call::{Call, emit_replacing};
use super::outlet::Outlet;
use super::text::{TextSpans, origin};
use crate::block::{ToolOutput, ToolResult, ToolUse};
use crate::error::Error;
use crate::event::{BlockEvent, BlockHead, EndReason, Lane, Origin, ToolResultEvent};
use crate::fingerprint::{JsonFingerprint, Relation, hash_bytes};
use crate::id::{BlockId, MessageId, ToolCallId};
use crate::recent::RecentMap;
use crate::update::{Mode, Update};

/// The identity of a call in its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CallKey {
    /// The source's id.
    Given(ToolCallId),
    /// The number of a call without id in its lane.
    Counted(u64),
}

/// A call with a result, kept for the comparison with repeated calls and results.
#[derive(Debug)]
struct Answered {
    call_id: ToolCallId,
    /// The block of the call; `None` for a call of an earlier run.
    head: Option<Arc<BlockHead>>,
    name: ByteString,
    fingerprint: JsonFingerprint,
    result_hash: u64,
}

/// The tool calls of one lane.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    /// The calls without result: open, ended, and those that wait for their name.
    unanswered: HashMap<CallKey, Call, foldhash::fast::RandomState>,
    /// The keys of `unanswered` in the order of arrival.
    by_arrival: BTreeMap<u64, CallKey>,
    answered: RecentMap<CallKey, Answered>,
    /// The emitted result of each source message.
    results: RecentMap<MessageId, BlockId>,
    /// The number of calls that have not ended: open ones, and those that wait for their name.
    open: usize,
    /// The call that fragments without id belong to.
    current_counted: Option<u64>,
    /// The last number given to a call without id.
    counter: u64,
    /// The corrected block of an answered call that another machine started and did not end, and its position in the order of
    /// opening.
    unended: Option<(u64, Arc<BlockHead>)>,
    /// A call whose block another machine ended as replaced, and its position in the order of opening, until its next block.
    replaced: Option<(u64, CallKey)>,
}

impl ToolCalls {
    /// Returns the key of the call that a fragment belongs to; a new key if it starts a call.
    pub(super) fn key_of_use(&mut self, tool: &ToolUse) -> CallKey {
        if let Some(id) = &tool.id {
            return CallKey::Given(id.detached());
        }
        if let Some(current) = self.current_counted
            && let Some(call) = self.unanswered.get(&CallKey::Counted(current))
            && (call.head.is_none() || call.opened.is_some())
            && tool
                .name
                .as_ref()
                .is_none_or(|name| name.is_empty() || call.name.is_empty() || *name == call.name)
        {
            return CallKey::Counted(current);
        }
        self.counter += 1;
        self.current_counted = Some(self.counter);
        CallKey::Counted(self.counter)
    }

    /// Returns the key of the call that a result belongs to: the call with the result's id; for a result without id the
    /// oldest unanswered call of the same name, calls without id first. Returns `None` if the lane has no such call.
    pub(super) fn key_of_result(&self, result: &ToolResult) -> Option<CallKey> {
        if let Some(id) = &result.id {
            let key = CallKey::Given(id.clone());
            return (self.unanswered.contains_key(&key) || self.answered.contains(&key)).then_some(key);
        }
        let named = result.name.as_ref().filter(|name| !name.is_empty());
        let fits = |key: &&CallKey| match (named, self.unanswered.get(*key)) {
            (Some(name), Some(call)) => call.name == *name || call.name.is_empty(),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let mut oldest = self.by_arrival.values().filter(fits);
        let counted = oldest.clone().find(|key| matches!(key, CallKey::Counted(_)));
        counted.or_else(|| oldest.next()).cloned()
    }

    /// Returns `true` if a fragment only repeats a call that has ended.
    pub(super) fn is_repeat(&self, key: &CallKey, tool: &ToolUse, update: &Update) -> bool {
        let fingerprint = match (self.unanswered.get(key), self.answered.get(key)) {
            (Some(call), _) if call.has_ended() => &call.fingerprint,
            (None, Some(answered)) => &answered.fingerprint,
            _ => return false,
        };
        let whole = update.last || update.mode != Mode::Append;
        tool.arguments.is_empty() || whole && fingerprint.relation(&tool.arguments) == Relation::Same
    }

    /// Returns `true` if a whole call without id repeats one that has ended, by name and arguments.
    pub(super) fn is_repeat_without_id(&self, tool: &ToolUse, update: &Update) -> bool {
        let Some(name) = tool.name.as_ref().filter(|_| update.mode != Mode::Append) else { return false };
        let same = |fingerprint: &JsonFingerprint| {
            tool.arguments.is_empty() || fingerprint.relation(&tool.arguments) == Relation::Same
        };
        let counted = |key: &CallKey| matches!(key, CallKey::Counted(_));
        self.unanswered
            .iter()
            .any(|(k, c)| counted(k) && c.has_ended() && c.name == *name && same(&c.fingerprint))
            || self.answered.iter().any(|(k, a)| counted(k) && a.name == *name && same(&a.fingerprint))
    }

    /// Handles a fragment of a call.
    pub(super) fn handle_use(
        &mut self,
        key: &CallKey,
        tool: ToolUse,
        lane: &Arc<Lane>,
        update: &Update,
        texts: &mut TextSpans,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        self.end_correction(out);
        let ended = self.unanswered.get(key).is_some_and(Call::has_ended);
        if update.mode == Mode::Replace && !tool.arguments.is_empty() && self.correct(key, &tool, lane, out) {
            return Ok(());
        }
        if ended || self.answered.contains(key) {
            // The source reuses an id for a second call: the first call is forgotten, the second is emitted under a minted
            // id.
            self.forget(key);
        }
        if !self.unanswered.contains_key(key) {
            self.admit(key.clone(), &tool, lane, update, texts, out)?;
        }
        let Some(call) = self.unanswered.get_mut(key) else { return Ok(()) };
        if call.name.is_empty()
            && let Some(name) = &tool.name
        {
            call.name = crate::id::detach(name);
        }
        call.take_arguments(tool.arguments, lane, update, out)?;
        if !call.name.is_empty() && call.head.is_none() {
            texts.end_open(&update.track, EndReason::Interrupted, out);
            if call.parent.is_none() {
                call.parent = texts.parent_of_call(tool.id.as_ref(), update, out);
            }
            call.start(lane, out);
            if let Some(head) = &call.head {
                texts.record_call(head, out);
            }
        }
        if update.last {
            call.end(EndReason::Complete, out);
        }
        // Only a call that had not ended gets here: an ended one was forgotten above.
        self.open -= usize::from(call.has_ended());
        Ok(())
    }

    /// Emits the corrected arguments of an ended call as a new block, which replaces the call's earlier block. Returns
    /// `false` if no call of this key has ended, or if an earlier run made the call.
    fn correct(&mut self, key: &CallKey, tool: &ToolUse, lane: &Arc<Lane>, out: &mut Outlet) -> bool {
        if let Some(call) = self.unanswered.get_mut(key).filter(|call| call.has_ended()) {
            call.replace_ended(lane, tool.arguments.clone(), out);
            return true;
        }
        let Some(answered) = self.answered.get_mut(key) else { return false };
        let Some(head) = &answered.head else { return false };
        answered.fingerprint = JsonFingerprint::default();
        answered.fingerprint.push(&tool.arguments);
        let corrected = emit_replacing(head, lane, tool.arguments.clone(), out);
        out.emit(BlockEvent::BlockEnded { block: Arc::clone(&corrected), reason: EndReason::Complete });
        answered.head = Some(corrected);
        true
    }

    /// Handles a whole result. If `key` is `None`, the call is unknown, and a substitute call is emitted first, unless an
    /// earlier run of the thread made the call.
    pub(super) fn handle_result(
        &mut self,
        key: Option<CallKey>,
        result: ToolResult,
        lane: &Arc<Lane>,
        update: &Update,
        out: &mut Outlet,
    ) {
        self.end_correction(out);
        let name = result.name.clone().filter(|name| !name.is_empty());
        let result_hash = result_hash(&result.output, result.is_error);
        let (call_id, tool_name, fingerprint, head, key) = match key {
            Some(key) if self.unanswered.contains_key(&key) => {
                let Some(mut call) = self.remove_unanswered(&key) else { return };
                call.name_or(name);
                call.start_if_needed(lane, out);
                call.end(EndReason::Complete, out);
                (call.outgoing(), call.name.clone(), call.fingerprint, call.head, key)
            }
            Some(key) => match self.answered.remove(&key) {
                Some(earlier) => (earlier.call_id, earlier.name, earlier.fingerprint, earlier.head, key),
                None => return,
            },
            None => self.emit_substitute(&result, name, lane, update, out),
        };
        let event = ToolResultEvent {
            id: out.block_id(update.message_id.as_ref()),
            lane: Arc::clone(lane),
            call_id: call_id.clone(),
            tool_name: tool_name.clone(),
            output: result.output,
            is_error: result.is_error,
            origin: Origin { tool_call_id: result.id.map(|id| id.detached()), ..origin(update) },
        };
        self.record_result(&event, out.limits.remembered_blocks);
        out.emit(BlockEvent::ToolResult(Box::new(event)));
        let answered = Answered { call_id, head, name: tool_name, fingerprint, result_hash };
        self.answered.insert(key, answered, out.limits.remembered_blocks);
    }

    fn record_result(&mut self, event: &ToolResultEvent, max: usize) {
        if let Some(message) = &event.origin.message_id {
            self.results.insert(message.clone(), event.id.clone(), max);
        }
    }

    /// Returns the source message of a call without result.
    pub(super) fn message_of(&self, key: &CallKey) -> Option<&MessageId> {
        self.unanswered.get(key)?.origin.message_id.as_ref()
    }

    /// Returns the emitted id of the result with source message id `id`, or of the call with id `id`. Returns `None` if the
    /// block does not belong to `lane`.
    pub(super) fn emitted(&self, id: &str, lane: &Lane) -> Option<BlockId> {
        if let Some(result) = self.results.get(&MessageId::from(id)) {
            return Some(result.clone());
        }
        let key = CallKey::Given(ToolCallId::from(id));
        let head = match self.unanswered.get(&key) {
            Some(call) => call.head.as_ref(),
            None => self.answered.get(&key)?.head.as_ref(),
        };
        head.filter(|head| head.lane.id == lane.id).map(|head| head.id.clone())
    }

    /// Called when the lane is opened again: earlier results no longer belong to the lane.
    pub(super) fn reopen(&mut self) {
        self.results = RecentMap::default();
    }

    /// Returns `true` if an equal result was emitted before.
    pub(super) fn is_repeated_result(&self, key: Option<&CallKey>, result: &ToolResult, mode: Mode) -> bool {
        let result_hash = result_hash(&result.output, result.is_error);
        match key {
            Some(key) => self.answered.get(key).is_some_and(|answered| answered.result_hash == result_hash),
            // A result without id may be a second call's equal result. Only a whole-text update is known to be a repeat.
            None if result.id.is_none() && mode != Mode::Append => {
                self.answered.iter().any(|(_, answered)| answered.result_hash == result_hash)
            }
            None => false,
        }
    }

    /// Returns the emitted id of a call. Returns `None` if the call is unknown or its block has not started.
    pub(super) fn outgoing(&self, id: &ToolCallId) -> Option<ToolCallId> {
        let key = CallKey::Given(id.clone());
        if let Some(call) = self.unanswered.get(&key) {
            return call.head.as_ref().map(|head| head.tool_call_id());
        }
        self.answered.get(&key).map(|answered| answered.call_id.clone())
    }

    /// Returns the emitted id and name of a call without result. Returns `None` if its block has not started.
    pub(super) fn waiting(&self, key: &CallKey) -> Option<(ToolCallId, ByteString)> {
        let call = self.unanswered.get(key)?;
        call.head.as_ref().map(|head| (head.tool_call_id(), call.name.clone()))
    }

    /// Starts the calls that wait for their name, under [`UNKNOWN_TOOL`](super::UNKNOWN_TOOL), and returns the end events
    /// of all open calls with their positions in the order of opening. The lane emits them in that order.
    pub(super) fn drain(&mut self, lane: &Arc<Lane>, out: &mut Outlet) -> Vec<(u64, BlockEvent)> {
        let mut ends = Vec::new();
        for key in self.by_arrival.values() {
            let Some(call) = self.unanswered.get_mut(key) else { continue };
            call.start_if_needed(lane, out);
            if let (Some(opened), Some(head)) = (call.opened.take(), &call.head) {
                let end = BlockEvent::BlockEnded { block: Arc::clone(head), reason: EndReason::Closed };
                ends.push((opened, end));
            }
        }
        let unended = self.unended.take();
        ends.extend(
            unended
                .map(|(opened, block)| (opened, BlockEvent::BlockEnded { block, reason: EndReason::Closed })),
        );
        self.open = 0;
        ends
    }

    /// Ends a correction that another machine started, before other input of the lane's calls.
    fn end_correction(&mut self, out: &mut Outlet) {
        if let Some((_, block)) = self.unended.take() {
            out.emit(BlockEvent::BlockEnded { block, reason: EndReason::Complete });
        }
    }

    /// Returns the emitted ids of the calls without result, in the order of arrival.
    pub(super) fn pending(&self) -> impl Iterator<Item = ToolCallId> + '_ {
        self.by_arrival.values().filter_map(|key| self.waiting(key)).map(|(id, _)| id)
    }

    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    /// Adds a call, within the limits of open blocks and of bytes per block.
    fn admit(
        &mut self,
        key: CallKey,
        tool: &ToolUse,
        lane: &Arc<Lane>,
        update: &Update,
        texts: &mut TextSpans,
        out: &mut Outlet,
    ) -> Result<(), Error> {
        // Starting the call ends the open span of its track.
        let open = self.open + 1 + texts.open_count() - usize::from(texts.is_open(&update.track));
        let path = lane.source.path();
        Outlet::check(open, out.limits.open_blocks, "open_blocks", "open blocks", path)?;
        let bytes =
            tool.id.as_ref().map_or(0, |id| id.as_str().len()) + tool.name.as_ref().map_or(0, |n| n.len());
        let max = out.limits.bytes_per_block;
        Outlet::check(bytes, max, "bytes_per_block", "bytes of ids in one block", path)?;
        let arrival = out.next_opened();
        let origin = Origin { tool_call_id: tool.id.as_ref().map(ToolCallId::detached), ..origin(update) };
        let call = Call::new(origin, texts.parent_of_call(tool.id.as_ref(), update, out), arrival);
        self.unanswered.insert(key.clone(), call);
        self.by_arrival.insert(arrival, key);
        self.open += 1;
        self.drop_oldest_ended(out.limits.remembered_blocks);
        Ok(())
    }

    /// Forgets the oldest ended call without result if there are more than `max` calls without result.
    fn drop_oldest_ended(&mut self, max: usize) {
        if self.unanswered.len() > max {
            let ended = |key: &&CallKey| self.unanswered.get(*key).is_some_and(Call::has_ended);
            if let Some(oldest) = self.by_arrival.values().find(ended).cloned() {
                self.remove_unanswered(&oldest);
            }
        }
    }

    /// Removes a call, with or without result.
    fn forget(&mut self, key: &CallKey) {
        self.answered.remove(key);
        self.remove_unanswered(key);
    }

    fn remove_unanswered(&mut self, key: &CallKey) -> Option<Call> {
        let call = self.unanswered.remove(key)?;
        self.by_arrival.remove(&call.arrival);
        self.open -= usize::from(!call.has_ended());
        Some(call)
    }

    /// Emits a substitute call for a result whose call is unknown, and returns its emitted id, name, arguments, block and
    /// key. A call of an earlier run needs no substitute: it has no block here.
    fn emit_substitute(
        &mut self,
        result: &ToolResult,
        name: Option<ByteString>,
        lane: &Arc<Lane>,
        update: &Update,
        out: &mut Outlet,
    ) -> (ToolCallId, ByteString, JsonFingerprint, Option<Arc<BlockHead>>, CallKey) {
        let given = result.id.clone();
        self.counter += 1;
        let key = given.clone().map_or(CallKey::Counted(self.counter), |id| CallKey::Given(id.detached()));
        if let Some(id) = given.as_ref().filter(|id| out.is_known_call(id)) {
            let name = name.unwrap_or_default();
            return (id.detached(), name, JsonFingerprint::default(), None, key);
        }
        let origin = Origin { tool_call_id: given.map(|id| id.detached()), ..origin(update) };
        let mut call = Call::new(origin, None, 0);
        call.name_or(name);
        call.start(lane, out);
        call.end(EndReason::Complete, out);
        (call.outgoing(), call.name.clone(), call.fingerprint, call.head, key)
    }
}

/// Returns the hash by which repeated results are recognised, without regard to white space at both ends.
fn result_hash(output: &ToolOutput, is_error: bool) -> u64 {
    let text = match output {
        ToolOutput::Text(text) | ToolOutput::Progress(text) => text.clone(),
        ToolOutput::Json(_) => output.to_text(),
    };
    hash_bytes(u64::from(is_error), text.trim().as_bytes())
}
