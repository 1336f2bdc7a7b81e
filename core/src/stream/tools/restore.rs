//! Restores tool calls and results from emitted events.

use std::sync::Arc;

use super::{Answered, CallKey, ToolCalls, result_hash};
use crate::event::{BlockEvent, BlockHead, EndReason, ToolResultEvent};
use crate::fingerprint::JsonFingerprint;
use crate::id::{MessageId, ToolCallId};
use crate::stream::call::Call;
use crate::stream::outlet::Outlet;

impl ToolCalls {
    /// Restores the state after an event of a tool use block.
    pub(in crate::stream) fn restore(&mut self, event: &BlockEvent, out: &mut Outlet) {
        match event {
            BlockEvent::BlockStarted(head) => self.restore_start(head, out),
            BlockEvent::BlockDelta { block, delta } => {
                if let Some(call) = self.call_of(&block.tool_call_id()) {
                    call.fingerprint.push(delta);
                } else if let Some(answered) = self.answered_of(block) {
                    answered.fingerprint.push(delta);
                }
            }
            // The call has no block until the next one starts. One that replaces it has the same position in the order of opening.
            BlockEvent::BlockEnded { block, reason: EndReason::Replaced } => {
                self.replaced = self.key_by_call(&block.tool_call_id()).and_then(|key| {
                    let call = self.unanswered.get_mut(&key)?;
                    call.head = None;
                    call.fingerprint = JsonFingerprint::default();
                    Some((call.opened.take()?, key))
                });
            }
            BlockEvent::BlockEnded { block, .. } => {
                self.unended.take_if(|(_, unended)| unended.id == block.id);
                let call = self.call_of(&block.tool_call_id());
                if call.is_some_and(|call| call.opened.take().is_some()) {
                    self.open -= 1;
                }
            }
            _ => {}
        }
    }

    /// Restores an emitted result.
    pub(in crate::stream) fn restore_result(&mut self, result: &ToolResultEvent, out: &Outlet) {
        self.record_result(result, out.limits.remembered_blocks);
        let unanswered = self.key_by_call(&result.call_id);
        let call = unanswered.as_ref().and_then(|key| self.remove_unanswered(key));
        let earlier = || self.answered.iter().find(|(_, answered)| answered.call_id == result.call_id);
        let (key, fingerprint, head) = if let (Some(key), Some(call)) = (unanswered, call) {
            (key, call.fingerprint, call.head)
        } else if let Some((key, earlier)) = earlier() {
            (key.clone(), earlier.fingerprint.clone(), earlier.head.clone())
        } else {
            let given = result.origin.tool_call_id.clone();
            let key = CallKey::Given(given.unwrap_or_else(|| result.call_id.clone()));
            (key, JsonFingerprint::default(), None)
        };
        let answered = Answered {
            call_id: result.call_id.clone(),
            head,
            name: result.tool_name.clone(),
            fingerprint,
            result_hash: result_hash(&result.output, result.is_error),
        };
        self.answered.insert(key, answered, out.limits.remembered_blocks);
    }

    fn restore_start(&mut self, head: &Arc<BlockHead>, out: &mut Outlet) {
        let replaced = head.replaces.as_ref().map(|id| ToolCallId::new(id.as_bytes().clone()));
        let given = head.origin.tool_call_id.clone().map(CallKey::Given);
        // Without `replaces` the block was started by a machine that restored the call; another call may come before it.
        let is_next = |key: &CallKey| head.replaces.is_some() || given.as_ref() == Some(key);
        if let Some((opened, key)) = self.replaced.take_if(|(_, key)| is_next(key))
            && let Some(call) = self.unanswered.get_mut(&key)
        {
            // A block that replaces another one has its position; one that was started after a takeover has its own.
            let opened = if head.replaces.is_some() { opened } else { out.next_opened() };
            (call.head, call.opened) = (Some(Arc::clone(head)), Some(opened));
            return;
        }
        if let Some(call) = replaced.and_then(|id| self.call_of(&id)) {
            call.fingerprint = JsonFingerprint::default();
            // The block of a correction is open until its own end.
            (call.head, call.opened) = (Some(Arc::clone(head)), Some(out.next_opened()));
            self.open += 1;
            return;
        }
        let given = head.origin.tool_call_id.clone().filter(|_| head.replaces.is_some());
        if let Some(answered) = given.and_then(|id| self.answered.get_mut(&CallKey::Given(id))) {
            answered.fingerprint = JsonFingerprint::default();
            answered.head = Some(Arc::clone(head));
            self.unended = Some((out.next_opened(), Arc::clone(head)));
            return;
        }
        let key = if let Some(id) = &head.origin.tool_call_id {
            CallKey::Given(id.clone())
        } else {
            self.counter += 1;
            self.current_counted = Some(self.counter);
            CallKey::Counted(self.counter)
        };
        self.forget(&key);
        let mut call = Call::new(head.origin.clone(), None, out.next_opened());
        call.name = head.tool_name.clone();
        call.head = Some(Arc::clone(head));
        call.opened = Some(out.next_opened());
        self.by_arrival.insert(call.arrival, key.clone());
        self.unanswered.insert(key, call);
        self.open += 1;
        self.drop_oldest_ended(out.limits.remembered_blocks);
    }

    /// Returns the answered call whose latest block is `head`.
    fn answered_of(&mut self, head: &BlockHead) -> Option<&mut Answered> {
        let key = CallKey::Given(head.origin.tool_call_id.clone()?);
        let is_it = |held: &Arc<BlockHead>| held.id == head.id;
        self.answered.get_mut(&key).filter(|answered| answered.head.as_ref().is_some_and(is_it))
    }

    /// Returns the source message of a call without result, by the emitted id of the call.
    pub(in crate::stream) fn message_by_call(&self, id: &ToolCallId) -> Option<&MessageId> {
        self.key_by_call(id).and_then(|key| self.message_of(&key))
    }

    fn key_by_call(&self, id: &ToolCallId) -> Option<CallKey> {
        let is_it = |call: &Call| call.head.as_ref().is_some_and(|head| head.id.as_bytes() == id.as_bytes());
        self.unanswered.iter().find(|(_, call)| is_it(call)).map(|(key, _)| key.clone())
    }

    fn call_of(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        let key = self.key_by_call(id)?;
        self.unanswered.get_mut(&key)
    }
}
