//! Marked artifacts that are emitted part by part: tool results and custom content.
//!
//! ```text
//! mark {"kind": "tool-result"}
//! part {"type": "tool-result", "toolCallId": "c1", "name": "weather", "payload": "21 degrees"}
//!
//! mark {"kind": "custom", "name": "chart"}
//! part {"points": [1, 2]}
//! ```
//!
//! Each part is one canonical block and complete in itself, so a part is emitted or known, never compared. The mark
//! determines the kind of a part; recognisers are not applied.

use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::{ByteString, ContentBlock, MessageId, wellknown};
use serde_json::{Map, Value};

use super::super::Decoder;
use super::super::artifact::Arrival;
use super::super::parts::file_value;
use super::super::sink::Sink;
use super::blocks::attach;
use super::{What, data_of};
use crate::mark::{Mark, kind};
use crate::wire::{Content, Dialect, Part};

impl Decoder {
    /// Emits each part of a result or of custom content that was not emitted before.
    ///
    /// The parts of a live chunk are new. A snapshot contains all parts in the order of their chunks, so as many as
    /// were emitted are skipped. The message id is that of the source, or none: these blocks belong to no message.
    pub(super) fn emit_marked_parts(
        &mut self,
        id: &ByteString,
        mark: &Mark,
        parts: &[Part<'_>],
        arrival: Arrival,
        sink: &mut Sink<'_>,
    ) {
        let emitted_parts = self.memory.marked.blocks.get(id).map_or(0, |block| block.emitted_parts);
        let skipped = if arrival.live { 0 } else { emitted_parts };
        let mut block = self.new_block(What::Parts, id, mark);
        block.emitted_parts = if arrival.append { emitted_parts + parts.len() } else { parts.len() };
        for part in parts.iter().skip(skipped) {
            let content = match mark.kind() {
                kind::TOOL_RESULT => self.result_of(part, mark),
                _ => self.custom_of(part, mark),
            };
            let mut update = self.block_update(&block, content);
            update.message_id = mark.bytes("message").map(MessageId::new);
            attach(&mut update, block.origin.clone());
            self.answer_shown = true;
            sink.push(update);
        }
        self.memory.marked.keep(id.clone(), block, self.config.limits.artifacts);
    }

    /// Returns the result of a tool call from one part.
    ///
    /// A payload that is a string is text, unless the mark has `json`: then the tool returned a JSON string. A part
    /// that is not an object gives an empty result, because the mark has already determined its kind.
    fn result_of(&self, part: &Part<'_>, mark: &Mark) -> ContentBlock {
        let mut data = match data_of(part) {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let id = text("toolCallId").map(|id| self.memory.marked.call(id).into());
        let name = text("name").filter(|name| !name.is_empty()).map(ByteString::from);
        let is_error = data.get("isError") == Some(&Value::Bool(true));
        let output = match data.remove("payload").unwrap_or_default() {
            Value::String(text) if !mark.flag("json") => ToolOutput::Text(text.into()),
            value => ToolOutput::Json(value),
        };
        ContentBlock::from(ToolResult { id, name, output, is_error })
    }

    /// Returns custom content from one part: the value of a data part, unwrapped if the mark has `wrapped` (only
    /// objects can be sent in every dialect), or the value of a file. Content without a name is `aqueduct.data`.
    fn custom_of(&self, part: &Part<'_>, mark: &Mark) -> ContentBlock {
        let name = mark.bytes("name").unwrap_or_else(|| ByteString::from_static(wellknown::DATA));
        let value = match &part.content {
            Content::Data(raw) if mark.flag("wrapped") => match raw.to_value() {
                Value::Object(mut data) => data.remove("value").unwrap_or_default(),
                other => other,
            },
            Content::Data(raw) => raw.to_value(),
            Content::Bytes(text) => file_value("data", text, part),
            Content::Url(text) => file_value("url", text, part),
            _ => part.to_json(Dialect::V1),
        };
        self.progress_of(&name, &value).unwrap_or_else(|| ContentBlock::custom(name, value))
    }

    /// Rebuilds the progress of a tool if its call has another id in this stream, so that it is attributed to that
    /// call. Returns `None` for all other custom content, which is passed on unchanged.
    fn progress_of(&self, name: &str, value: &Value) -> Option<ContentBlock> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let given = text("toolCallId").filter(|_| name == wellknown::TOOL_PROGRESS)?;
        let call = Some(self.memory.marked.call(given)).filter(|call| *call != given)?;
        Some(ContentBlock::from(ToolResult {
            id: Some(call.into()),
            name: text("toolName").map(ByteString::from),
            output: ToolOutput::Progress(text("text").unwrap_or_default().into()),
            is_error: false,
        }))
    }
}
