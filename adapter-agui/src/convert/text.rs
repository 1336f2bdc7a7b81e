//! Text blocks as text messages.
//!
//! Where frontends do not show the tag of a sub-agent, its texts start with its name, by the setting
//! [`labels`](crate::config::Settings::labels).
//!
//! A text is hidden where its lane is hidden or shown as a tool call, unless it is on the answer
//! channel (`Settings::hides_text`). The three arms below apply the same rule, so a message is
//! shown completely or not at all.

use aqueduct_core::{BlockEvent, BlockEventConverter, BlockHead, ByteString, Role};
use serde_json::Value;

use super::show::{META_AUTHOR, agent_name, converter, head_base, text_prefix};
use crate::config::Subagents;
use crate::wire::{Event, TextMessageContent, TextMessageEnd, TextMessageStart, TextRole};

converter! {
    /// `TEXT_MESSAGE_START`, `_CONTENT`, `_END`.
    TextConverter
}

impl TextConverter {
    /// Returns the label of a sub-agent's text, where texts of several agents share one conversation.
    fn prefix(self, block: &BlockHead) -> Option<String> {
        let may_label = self.settings.labels && self.settings.subagents != Subagents::Attributed;
        text_prefix(&block.lane).filter(|_| may_label && !self.settings.hides(&block.lane))
    }

    /// Returns the event for a fragment of text.
    fn content(self, block: &BlockHead, delta: ByteString) -> Event {
        Event::TextMessageContent(TextMessageContent {
            message_id: block.id.as_bytes().clone(),
            delta,
            subagent_run_id: self.settings.tag(&block.lane),
            ..TextMessageContent::default()
        })
    }
}

impl BlockEventConverter<Event> for TextConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            BlockEvent::BlockDelta { block, delta } if !self.settings.hides_text(block) => {
                out.push(self.content(block, delta.clone()));
            }
            BlockEvent::BlockStarted(block) if !self.settings.hides_text(block) => {
                out.push(Event::TextMessageStart(TextMessageStart {
                    base: head_base(block),
                    message_id: block.id.as_bytes().clone(),
                    role: Some(role(block.role)),
                    name: author(block),
                    subagent_run_id: self.settings.tag(&block.lane),
                }));
                out.extend(self.prefix(block).map(|prefix| self.content(block, ByteString::from(prefix))));
            }
            BlockEvent::BlockEnded { block, .. } if !self.settings.hides_text(block) => {
                out.push(Event::TextMessageEnd(TextMessageEnd {
                    message_id: block.id.as_bytes().clone(),
                    subagent_run_id: self.settings.tag(&block.lane),
                    ..TextMessageEnd::default()
                }));
            }
            _ => {}
        }
    }
}

/// Returns the name of the author: the sub-agent's, or the one that the source sent.
fn author(block: &BlockHead) -> Option<ByteString> {
    agent_name(&block.lane).or_else(|| {
        let name = block.origin.metadata.as_ref()?.get(META_AUTHOR).and_then(Value::as_str)?;
        Some(ByteString::from(name))
    })
}

/// Returns the role of a text message. AG-UI has no text messages of tools, so a tool's text becomes the agent's.
fn role(role: Role) -> TextRole {
    match role {
        Role::User => TextRole::User,
        Role::System => TextRole::System,
        Role::Developer => TextRole::Developer,
        _ => TextRole::Assistant,
    }
}
