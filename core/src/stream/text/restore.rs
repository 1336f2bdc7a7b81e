//! Restores text and thinking from emitted events.

use std::sync::Arc;

use super::{EmittedText, Key, Owner, Span, TextSpans};
use crate::event::{BlockEvent, BlockHead, EndReason, SpanKind};
use crate::fingerprint::hash_text;
use crate::stream::outlet::Outlet;
use crate::update::Channel;

impl TextSpans {
    /// Restores the state after an event of a text or thinking block.
    pub(in crate::stream) fn restore(&mut self, event: &BlockEvent, out: &mut Outlet) {
        match event {
            BlockEvent::BlockStarted(head) => self.restore_start(head, out),
            BlockEvent::BlockDelta { block, delta } => {
                if let Some(span) = self.span_of(block) {
                    span.emitted.complete = false;
                    span.emitted.print.push(delta);
                }
            }
            BlockEvent::ThinkingEncrypted { block, value } => {
                if let Some(span) = self.span_of(block) {
                    span.emitted.sealed = Some(hash_text(value));
                }
            }
            BlockEvent::BlockEnded { block, reason } => self.restore_end(block, *reason, out),
            _ => {}
        }
    }

    /// Restores the parent of an emitted call.
    pub(in crate::stream) fn restore_owner(&mut self, head: &BlockHead, out: &Outlet) {
        let Some(message) = head.origin.message_id.as_ref() else { return };
        match &head.parent {
            Some(parent) if parent.as_bytes() == message.as_bytes() && !self.messages.contains(message) => {
                self.messages.insert(
                    message.clone(),
                    Owner::Reserved(parent.clone()),
                    out.limits.remembered_blocks,
                );
            }
            _ => self.note_call(head, out),
        }
    }

    fn restore_start(&mut self, head: &Arc<BlockHead>, out: &mut Outlet) {
        let key = self.key_of(head);
        let earlier = self.memory.remove(&key).filter(|_| head.continues.is_some());
        let emitted = EmittedText { block: Some(head.id.clone()), ..earlier.unwrap_or_default() };
        if let (SpanKind::Text, Channel::Answer, Some(message)) = (head.kind, head.channel, &key.message_id) {
            let owner = Owner::Text(head.id.clone());
            self.messages.insert(message.clone(), owner, out.limits.remembered_blocks);
        }
        let span = Span { head: Arc::clone(head), opened: out.next_opened(), emitted, key };
        if span.key.track.as_str().is_empty() {
            self.main = Some(span);
        } else {
            self.others.insert(span.key.track.clone(), Box::new(span));
        }
    }

    fn restore_end(&mut self, head: &BlockHead, reason: EndReason, out: &Outlet) {
        if self.span_of(head).is_none() {
            return;
        }
        let track = &head.origin.track;
        let span = if track.as_str().is_empty() { self.main.take() } else { self.take_other(track) };
        if let Some(mut span) = span {
            span.emitted.complete |= reason == EndReason::Complete;
            self.remember(span, out.limits.remembered_blocks);
        }
    }

    /// Returns the source's key of a block. A whole text without id had the key of the text that it restated.
    fn key_of(&self, head: &BlockHead) -> Key {
        let own = Key {
            kind: head.kind,
            channel: head.channel,
            track: head.origin.track.clone(),
            message_id: head.origin.message_id.clone(),
        };
        let Some(earlier) = head.continues.as_ref().or(head.replaces.as_ref()) else { return own };
        let known = self.memory.iter().find(|(_, emitted)| emitted.block.as_ref() == Some(earlier));
        known.map_or(own, |(key, _)| key.clone())
    }

    fn span_of(&mut self, head: &BlockHead) -> Option<&mut Span> {
        self.open_on_mut(&head.origin.track).filter(|span| span.head.id == head.id)
    }
}
