//! The block to which the tool calls of a source message are attached, and the id of the message's text.

use super::TextSpans;
use crate::event::{BlockHead, SpanKind};
use crate::id::{BlockId, MessageId, ToolCallId};
use crate::stream::outlet::Outlet;
use crate::update::{Channel, Update};

/// The block to which the tool calls of a source message are attached.
#[derive(Debug, Clone)]
pub(super) enum CallParent {
    /// The latest answer text of the message.
    Text(BlockId),
    /// The message's own id: the message has calls and no text yet. A later text may take the id.
    Reserved(BlockId),
    /// The first call of a message without text, or the message's own id once a call has a result. A later text gets
    /// another id.
    Call(BlockId),
}

impl CallParent {
    pub(super) fn id(&self) -> &BlockId {
        match self {
            Self::Text(id) | Self::Reserved(id) | Self::Call(id) => id,
        }
    }
}

impl TextSpans {
    /// Returns the block to which a tool call of a source message is attached, on any track. For a message without text the
    /// message's own id is reserved, where message ids are kept.
    pub(in crate::stream) fn parent_of_call(
        &mut self,
        call: Option<&ToolCallId>,
        update: &Update,
        out: &mut Outlet,
    ) -> Option<BlockId> {
        let message = update.message_id.as_ref()?;
        if let Some(parent) = self.messages.get(message) {
            return Some(parent.id().clone());
        }
        // A frontend creates such a message itself for a call without parent, so it must not be the parent.
        let is_own = call.is_some_and(|id| id.as_bytes() == message.as_bytes());
        let id = if is_own { None } else { out.claim_message(message) }?;
        let max = out.limits.remembered_blocks;
        self.messages.insert(message.detached(), CallParent::Reserved(id.clone()), max);
        Some(id)
    }

    /// Records that a call of the message has a result: a text that follows under the message's id is another message.
    pub(in crate::stream) fn record_answer(&mut self, message: &MessageId) {
        if let Some(parent) = self.messages.get_mut(message)
            && let CallParent::Reserved(id) = parent
        {
            *parent = CallParent::Call(id.clone());
        }
    }

    /// Returns the block that was emitted last for a source message.
    pub(in crate::stream) fn emitted(&self, message: &str) -> Option<BlockId> {
        self.messages.get(&MessageId::from(message)).map(|parent| parent.id().clone())
    }

    /// Records a started call. Where message ids are kept, further calls of the message are attached to it if the message
    /// has no other block.
    pub(in crate::stream) fn record_call(&mut self, head: &BlockHead, out: &Outlet) {
        let message = head.origin.message_id.as_ref().filter(|_| out.keeps_messages());
        if let Some(message) = message.filter(|id| !self.messages.contains(id)) {
            let parent = CallParent::Call(head.id.clone());
            self.messages.insert(message.clone(), parent, out.limits.remembered_blocks);
        }
    }

    /// Returns the id of a new block: the reserved id of its message, the message's own id, or a minted one.
    pub(super) fn fresh_id(
        &self,
        kind: SpanKind,
        channel: Channel,
        message: Option<&MessageId>,
        out: &mut Outlet,
    ) -> BlockId {
        match message.and_then(|message| self.messages.get(message)) {
            Some(CallParent::Reserved(id)) if (kind, channel) == (SpanKind::Text, Channel::Answer) => {
                id.clone()
            }
            _ => out.block_id(message),
        }
    }
}
