//! The identity of a text, and the origin data of its blocks.

use crate::event::{Origin, SpanKind};
use crate::id::MessageId;
use crate::update::{Channel, Track, Update};

/// The identity of a text: updates with equal keys belong to the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: SpanKind,
    pub(super) channel: Channel,
    pub(super) track: Track,
    pub(super) message_id: Option<MessageId>,
}

impl Key {
    pub(super) fn matches(&self, kind: SpanKind, update: &Update) -> bool {
        self.kind == kind && self.channel == update.channel && self.message_id == update.message_id
    }

    /// Returns the key of an update, for lookups. It keeps the buffer alive from which the update was read.
    pub(super) fn of(kind: SpanKind, update: &Update) -> Self {
        let Update { channel, track, message_id, .. } = update;
        Self { kind, channel: *channel, track: track.clone(), message_id: message_id.clone() }
    }

    /// Returns a copy for storage, without reference to the buffer.
    pub(super) fn detached(&self) -> Self {
        let message_id = self.message_id.as_ref().map(MessageId::detached);
        Self { kind: self.kind, channel: self.channel, track: self.track.clone(), message_id }
    }

    /// Returns the origin of a block of this key. Ids that equal those of the key share its memory.
    pub(super) fn origin(&self, update: &Update) -> Origin {
        if self.message_id == update.message_id && self.track == update.track {
            return origin_under(self.message_id.clone(), self.track.clone(), update);
        }
        origin(update)
    }
}

/// Returns the origin of a block, detached from the buffer from which the update was read.
pub(in crate::stream) fn origin(update: &Update) -> Origin {
    origin_under(update.message_id.as_ref().map(MessageId::detached), update.track.clone(), update)
}

fn origin_under(message_id: Option<MessageId>, track: Track, update: &Update) -> Origin {
    Origin {
        message_id,
        response_id: update.response_id.clone(),
        tool_call_id: None,
        track,
        created_at: update.created_at,
        metadata: update.metadata().cloned(),
    }
}
