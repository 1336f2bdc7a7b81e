//! Thinking blocks, and intermediate text that is shown as thinking, as reasoning messages in a
//! span.
//!
//! ```text
//! block started    REASONING_START, REASONING_MESSAGE_START   (and the label of a sub-agent as first content)
//! delta            REASONING_MESSAGE_CONTENT
//! encrypted form   REASONING_ENCRYPTED_VALUE, inside the span
//! block ended      REASONING_MESSAGE_END, REASONING_END
//! ```
//!
//! Where sub-agents are shown as tool calls, the thinking of a sub-agent starts with its name, its
//! only attribution.

use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString, SpanKind};

use super::show::{converter, head_base, thought_prefix};
use crate::wire::{
    EncryptedSubtype, Event, ReasoningEncryptedValue, ReasoningEnd, ReasoningMessageContent,
    ReasoningMessageEnd, ReasoningMessageStart, ReasoningRole, ReasoningStart,
};

converter! {
    /// `REASONING_START`, `REASONING_MESSAGE_*`, `REASONING_ENCRYPTED_VALUE`, `REASONING_END`. Span and message share one id:
    /// clients keep them apart.
    ThinkingConverter
}

impl BlockEventConverter<Event> for ThinkingConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        let (BlockEvent::BlockStarted(block)
        | BlockEvent::BlockDelta { block, .. }
        | BlockEvent::ThinkingEncrypted { block, .. }
        | BlockEvent::BlockEnded { block, .. }) = event
        else {
            return;
        };
        // A text block arrives here if intermediate text is shown as reasoning. The rules for hidden texts
        // then apply, too.
        let is_text = block.kind == SpanKind::Text;
        if self.settings.hides(&block.lane) || (is_text && self.settings.hides_text(block)) {
            return;
        }
        let message_id = block.id.as_bytes().clone();
        let subagent_run_id = self.settings.tag(&block.lane);
        match event {
            BlockEvent::BlockDelta { delta, .. } => {
                let delta = delta.clone();
                out.push(Event::ReasoningMessageContent(ReasoningMessageContent {
                    subagent_run_id,
                    message_id,
                    delta,
                    ..ReasoningMessageContent::default()
                }));
            }
            BlockEvent::BlockStarted(block) => {
                out.push(Event::ReasoningStart(ReasoningStart {
                    message_id: message_id.clone(),
                    subagent_run_id: subagent_run_id.clone(),
                    ..ReasoningStart::default()
                }));
                let (base, role) = (head_base(block), ReasoningRole::Reasoning);
                // `label` returns a value only where sub-agents are shown as tool calls; elsewhere the tag
                // attributes the block.
                let prefix = self.settings.label(&block.lane).and_then(|_| thought_prefix(&block.lane));
                let start =
                    ReasoningMessageStart { base, subagent_run_id, message_id: message_id.clone(), role };
                out.push(Event::ReasoningMessageStart(start));
                out.extend(prefix.map(|prefix| {
                    let delta = ByteString::from(prefix);
                    let base = crate::wire::Base::default();
                    let subagent_run_id = None;
                    let content = ReasoningMessageContent { base, subagent_run_id, message_id, delta };
                    Event::ReasoningMessageContent(content)
                }));
            }
            BlockEvent::ThinkingEncrypted { value, .. } => {
                out.push(Event::ReasoningEncryptedValue(ReasoningEncryptedValue {
                    subagent_run_id,
                    subtype: EncryptedSubtype::Message,
                    entity_id: message_id,
                    encrypted_value: value.clone(),
                    ..ReasoningEncryptedValue::default()
                }));
            }
            // Only the end of the block is left: the match above admits four kinds of event.
            _ => {
                out.push(Event::ReasoningMessageEnd(ReasoningMessageEnd {
                    message_id: message_id.clone(),
                    subagent_run_id: subagent_run_id.clone(),
                    ..ReasoningMessageEnd::default()
                }));
                let end = ReasoningEnd { subagent_run_id, message_id, ..ReasoningEnd::default() };
                out.push(Event::ReasoningEnd(end));
            }
        }
    }
}
