//! Tool calls and their results.
//!
//! | sub-agents shown as | call of a sub-agent | its `parentMessageId` |
//! |---|---|---|
//! | `Attributed`, `Inline` | under the tool's name, with the tag of the lane | kept |
//! | `Tool` | as `agent › tool`, without a tag | omitted: the text may be hidden |
//! | `Hidden` | not at all, and no result | |
//!
//! AG-UI has no member for a failed tool result. The failure is recorded in the metadata
//! (`aqueduct.isError`), which the decoder of this crate reads back, and added as a text where the
//! settings ask for it.

use aqueduct_core::block::ToolOutput;
use aqueduct_core::{BlockEvent, BlockEventConverter, BlockHead, ByteString, Lane};
use serde_json::Value;

use super::run::push_failure_text;
use super::show::{META_IS_ERROR, converter, head_base, origin_base, tool_prefix};
use crate::config::{Dialect, Settings, Subagents};
use crate::wire::object::{At, FromWire as _};
use crate::wire::{
    Content, ContentPart, Event, PartSource, Strictness, ToolCallArgs, ToolCallEnd, ToolCallResult,
    ToolCallStart, ToolRole,
};

converter! {
    /// `TOOL_CALL_START`, `_ARGS`, `_END`.
    ToolUseConverter
}

impl BlockEventConverter<Event> for ToolUseConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            // Deltas first: most events of a call are fragments of its arguments.
            BlockEvent::BlockDelta { block, delta } if !self.settings.hides(&block.lane) => {
                out.push(Event::ToolCallArgs(ToolCallArgs {
                    tool_call_id: block.id.as_bytes().clone(),
                    delta: delta.clone(),
                    subagent_run_id: self.settings.tag(&block.lane),
                    ..ToolCallArgs::default()
                }));
            }
            BlockEvent::BlockStarted(block) if !self.settings.hides(&block.lane) => {
                out.push(Event::ToolCallStart(ToolCallStart {
                    base: head_base(block),
                    tool_call_id: block.id.as_bytes().clone(),
                    tool_call_name: shown_name(self.settings, &block.lane, &block.tool_name),
                    // Where sub-agents are tool calls, a client may not have the sub-agent's text message.
                    parent_message_id: parent(block).filter(|_| self.settings.label(&block.lane).is_none()),
                    subagent_run_id: self.settings.tag(&block.lane),
                }));
            }
            BlockEvent::BlockEnded { block, .. } if !self.settings.hides(&block.lane) => {
                out.push(Event::ToolCallEnd(ToolCallEnd {
                    tool_call_id: block.id.as_bytes().clone(),
                    subagent_run_id: self.settings.tag(&block.lane),
                    ..ToolCallEnd::default()
                }));
            }
            _ => {}
        }
    }
}

/// Returns the message that a call is part of: a text of the answer in the same lane, so a client that receives the call has
/// received the text message under the same tag.
fn parent(block: &BlockHead) -> Option<ByteString> {
    block.parent.as_ref().map(|parent| parent.as_bytes().clone())
}

/// Returns the tool's name, prefixed with that of its agent where nothing else attributes the call.
fn shown_name(settings: Settings, lane: &Lane, name: &ByteString) -> ByteString {
    let prefix = settings.label(lane).and_then(|_| tool_prefix(lane));
    prefix.map_or_else(|| name.clone(), |prefix| ByteString::from(prefix + name))
}

converter! {
    /// `TOOL_CALL_RESULT`, and a text if failures are shown as text.
    ToolResultConverter
}

impl BlockEventConverter<Event> for ToolResultConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        let BlockEvent::ToolResult(result) = event else { return };
        if self.settings.hides(&result.lane) {
            return;
        }
        let mut base = origin_base(&result.origin);
        if result.is_error {
            base.metadata_mut().insert(META_IS_ERROR.to_owned(), Value::Bool(true));
        }
        out.push(Event::from(ToolCallResult {
            base,
            subagent_run_id: self.settings.tag(&result.lane),
            message_id: result.id.as_bytes().clone(),
            tool_call_id: result.call_id.as_bytes().clone(),
            content: result_content(&result.output, self.settings.dialect),
            role: Some(ToolRole::Tool),
        }));
        // A client of attributed events shows failures itself.
        if result.is_error && (result.lane.is_root() || self.settings.subagents != Subagents::Attributed) {
            let name = shown_name(self.settings, &result.lane, &result.tool_name);
            push_failure_text(self.settings, result.id.as_str(), &name, &result.output.to_text(), out);
        }
    }
}

/// Returns content parts if the result consists of parts that a peer of the dialect can read; otherwise text.
///
/// ```text
/// [{"type":"text","text":"Hi"}]      1.0: one text part        0.0.59: the JSON as text
/// [{"type":"text","text":"Hi"}, 3]   the JSON as text: not all elements are parts
/// {"a":1}                            the JSON as text
/// []                                 the JSON as text
/// ```
///
/// A list is taken for parts only if every element is a valid 1.0 part: the peer rejects the event or input otherwise.
pub(crate) fn result_content(output: &ToolOutput, dialect: Dialect) -> Content {
    let parts = match output {
        ToolOutput::Json(Value::Array(parts)) if dialect == Dialect::V1_0 => parts,
        output => return Content::Text(output.to_text()),
    };
    let at = At::root("content", Strictness::Strict);
    let read = |value: &Value| ContentPart::from_wire(value.clone(), &at).ok().filter(is_modern);
    let read: Option<Vec<_>> = parts.iter().map(read).collect();
    match read {
        Some(parts) if !parts.is_empty() => Content::Parts(parts),
        _ => Content::Text(output.to_text()),
    }
}

/// Returns `true` for a part that 1.0 defines: a text, or a media part with a source of a known
/// type. Binary parts are retired.
pub(super) fn is_modern(part: &ContentPart) -> bool {
    match part {
        ContentPart::Text(_) => true,
        ContentPart::Image(part)
        | ContentPart::Audio(part)
        | ContentPart::Video(part)
        | ContentPart::Document(part) => !matches!(part.source, PartSource::Unknown(_)),
        ContentPart::Binary(_) | ContentPart::Unknown(_) => false,
    }
}
