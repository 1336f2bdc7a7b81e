//! Tool calls and results as data parts.
//!
//! ```text
//! {"type": "tool-call", "id": "c1", "name": "search"}                                first chunk of an artifact
//! {"type": "tool-call-arguments", "id": "c1", "delta": "{\"q\":"}                    a fragment of the arguments
//! {"type": "tool-call-end", "id": "c1"}                                              last chunk
//! {"type": "tool-result", "toolCallId": "c1", "name": "search", "payload": "found"}  another artifact; "isError"?
//! ```
//!
//! Arguments are sent as they stream, so a fragment is not JSON by itself. Other agents may send `tool-call` (with
//! `arguments`) and `tool-result` too: `recognise::ToolDataParts` reads them.

use aqueduct_core::block::ToolOutput;
use aqueduct_core::{BlockEvent, BlockEventConverter};
use serde_json::{Value, json};

use super::show::{Chunk, Piece, artifact, converter, data, head_mark, put_origin};
use super::words::end_mark;
use crate::mark::{Mark, kind};
use crate::wire::StreamItem;

converter! {
    /// Converts tool calls: one artifact each.
    ToolUseConverter
}

converter! {
    /// Converts tool results: one artifact each.
    ToolResultConverter
}

impl BlockEventConverter<StreamItem<'static>> for ToolUseConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let (block, value, mark, chunk) = match event {
            BlockEvent::BlockStarted(block) => {
                let value =
                    json!({"type": kind::TOOL_CALL, "id": block.id.as_str(), "name": &*block.tool_name});
                (block, value, Some(head_mark(kind::TOOL_CALL, block)), Chunk::First)
            }
            BlockEvent::BlockDelta { block, delta } => {
                let value =
                    json!({"type": "tool-call-arguments", "id": block.id.as_str(), "delta": &**delta});
                (block, value, None, Chunk::More)
            }
            BlockEvent::BlockEnded { block, reason } => {
                let value = json!({"type": "tool-call-end", "id": block.id.as_str()});
                (block, value, end_mark(*reason), Chunk::Last)
            }
            _ => return,
        };
        let name = if chunk == Chunk::First { &*block.tool_name } else { "" };
        let part = data(&value);
        out.push(artifact(&self.settings, Piece { id: block.id.as_str(), name, part, mark, chunk }));
    }
}

impl BlockEventConverter<StreamItem<'static>> for ToolResultConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        let BlockEvent::ToolResult(result) = event else { return };
        let mut mark = Mark::new(kind::TOOL_RESULT).of_lane(&result.lane);
        put_origin(&mut mark, &result.origin);
        let payload = match &result.output {
            ToolOutput::Json(value) => {
                // A payload that is a JSON string would be read as text without this.
                mark.put("json", true);
                value.clone()
            }
            other => Value::from(&*other.to_text()),
        };
        let mut value = json!({
            "type": kind::TOOL_RESULT, "toolCallId": result.call_id.as_str(), "name": &*result.tool_name, "payload": payload
        });
        if let (true, Some(value)) = (result.is_error, value.as_object_mut()) {
            value.insert("isError".to_owned(), true.into());
        }
        let (id, name, part) = (result.id.as_str(), &*result.tool_name, data(&value));
        out.push(artifact(&self.settings, Piece { id, name, part, mark: Some(mark), chunk: Chunk::Whole }));
    }
}
