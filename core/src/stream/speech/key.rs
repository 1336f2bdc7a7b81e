//! What makes two fragments the same text, and what is told of it beside the words.

use crate::event::{Origin, SpanKind};
use crate::id::{MessageId, ResponseId};
use crate::update::{Channel, Track, Update};

/// What a source means by "the same text".
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

    /// To look something up with: it keeps the buffer alive that the update was read from.
    pub(super) fn of(kind: SpanKind, update: &Update) -> Self {
        let Update { channel, track, message_id, .. } = update;
        Self { kind, channel: *channel, track: track.clone(), message_id: message_id.clone() }
    }

    /// To be kept.
    pub(super) fn detached(&self) -> Self {
        let message_id = self.message_id.as_ref().map(MessageId::detached);
        Self { kind: self.kind, channel: self.channel, track: self.track.detached(), message_id }
    }

    /// What the source said about a block of this key. Ids that the key has too are shared with it.
    pub(super) fn origin(&self, update: &Update) -> Origin {
        if self.message_id == update.message_id && self.track == update.track {
            return origin_under(self.message_id.clone(), self.track.clone(), update);
        }
        origin(update)
    }
}

/// What the source said about a block, detached from the buffer it was read from.
pub(in crate::stream) fn origin(update: &Update) -> Origin {
    origin_under(update.message_id.as_ref().map(MessageId::detached), update.track.detached(), update)
}

fn origin_under(message_id: Option<MessageId>, track: Track, update: &Update) -> Origin {
    Origin {
        message_id,
        response_id: update.response_id.as_ref().map(ResponseId::detached),
        tool_call_id: None,
        track,
        created_at: update.created_at,
        metadata: update.metadata().cloned(),
    }
}
