//! What the tool calls of a source message are attached to, and the id that its text gets.

use super::Speech;
use crate::event::{BlockHead, SpanKind};
use crate::id::{BlockId, MessageId, ToolCallId};
use crate::stream::outlet::Outlet;
use crate::update::{Channel, Update};

/// What the tool calls of a source message are attached to.
#[derive(Debug, Clone)]
pub(super) enum Owner {
    /// The latest answer text of the message.
    Text(BlockId),
    /// The message's own id: it has made calls and has no text yet, which may take the id when it comes.
    Reserved(BlockId),
    /// A message without text that gets none under its id: its first call, or its own id once a call is answered.
    Call(BlockId),
}

impl Owner {
    pub(super) fn id(&self) -> &BlockId {
        match self {
            Self::Text(id) | Self::Reserved(id) | Self::Call(id) => id,
        }
    }
}

impl Speech {
    /// The block that a tool call of a source message is attached to, on whatever track. A message without text gets
    /// its own id reserved, where message ids are kept.
    pub(in crate::stream) fn owner_of_call(
        &mut self,
        call: Option<&ToolCallId>,
        update: &Update,
        out: &mut Outlet,
    ) -> Option<BlockId> {
        let message = update.message_id.as_ref()?;
        if let Some(owner) = self.messages.get(message) {
            return Some(owner.id().clone());
        }
        // A message that shares the id of its call is what a frontend makes of a call without a parent.
        let is_own = call.is_some_and(|id| id.as_bytes() == message.as_bytes());
        let id = if is_own { None } else { out.claim_message(message) }?;
        let max = out.limits.remembered_blocks;
        self.messages.insert(message.detached(), Owner::Reserved(id.clone()), max);
        Some(id)
    }

    /// A call of the message is answered: a text that follows under its id is another message.
    pub(in crate::stream) fn note_answer(&mut self, message: &MessageId) {
        if let Some(owner) = self.messages.get_mut(message)
            && let Owner::Reserved(id) = owner
        {
            *owner = Owner::Call(id.clone());
        }
    }

    /// The block that was emitted last for a source message.
    pub(in crate::stream) fn emitted(&self, message: &str) -> Option<BlockId> {
        self.messages.get(&MessageId::from(message)).map(|owner| owner.id().clone())
    }

    /// Notes a call that has started: where message ids are kept, further calls of its message are attached to it if
    /// nothing else stands for the message.
    pub(in crate::stream) fn note_call(&mut self, head: &BlockHead, out: &Outlet) {
        let message = head.origin.message_id.as_ref().filter(|_| out.keeps_messages());
        if let Some(message) = message.filter(|id| !self.messages.contains(id)) {
            let owner = Owner::Call(head.id.clone());
            self.messages.insert(message.clone(), owner, out.limits.remembered_blocks);
        }
    }

    /// The id of a new block: the one its message has reserved, the message's own, or a minted one.
    pub(super) fn fresh_id(
        &self,
        kind: SpanKind,
        channel: Channel,
        message: Option<&MessageId>,
        out: &mut Outlet,
    ) -> BlockId {
        match message.and_then(|message| self.messages.get(message)) {
            Some(Owner::Reserved(id)) if (kind, channel) == (SpanKind::Text, Channel::Answer) => id.clone(),
            _ => out.block_id(message),
        }
    }
}
