//! The tool-call and tool-result data parts.
//!
//! ```text
//! {"type": "tool-call",   "id": "c1", "name": "search", "arguments": {…}}
//! {"type": "tool-result", "toolCallId": "c1", "payload": …, "isError"?: true}
//! ```
//!
//! The type may also be in the part's metadata (`type`, or `adk_type` and `kagent_type` with `function_call` and
//! `function_response`), and the members may have the names that other frameworks use. A part without such a type is
//! data, however much it resembles a call.

use aqueduct_core::block::ToolOutput;
use serde_json::{Map, Value};

use super::{Recogniser, Sign, ToolEnd, ToolStart};
use crate::wire::{Content, Part};

/// Recognises tool calls and results in data parts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolDataParts;

impl Recogniser for ToolDataParts {
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        // Most data parts are neither; the text is searched for these words before anything is parsed.
        let named = |text: &str| text.contains("tool") || text.contains("function");
        if !named(raw.as_str()) && !part.metadata.as_ref().is_some_and(|raw| named(raw.as_str())) {
            return None;
        }
        let Value::Object(data) = raw.to_value() else { return None };
        let metadata = part.metadata.as_ref().and_then(crate::wire::Raw::to_object);
        match kind(&data, metadata.as_ref())?.as_str() {
            "tool-call" | "tool-use" | "function-call" => start(data).map(Sign::ToolStarted),
            "tool-result" | "tool-response" | "function-response" | "function-result" => {
                Some(Sign::ToolEnded(end(data)))
            }
            _ => None,
        }
    }
}

/// Returns the type of a part in lower case with hyphens, so that `function_call` and `Tool-Call` are one spelling.
/// The data take precedence over the metadata.
fn kind(data: &Map<String, Value>, metadata: Option<&Map<String, Value>>) -> Option<String> {
    let in_data = ["type", "kind"].iter().find_map(|key| data.get(*key)?.as_str());
    let in_metadata = || {
        let metadata = metadata?;
        ["adk_type", "kagent_type", "type", "kind"].iter().find_map(|key| metadata.get(*key)?.as_str())
    };
    Some(in_data.or_else(in_metadata)?.to_ascii_lowercase().replace('_', "-"))
}

/// Returns the first of these members that is text, not empty, or a number: ids may be numbers.
fn take_text(data: &mut Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match data.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Returns a call. Returns `None` without a name: the part is then data. Arguments that are text are taken to be JSON
/// text already.
fn start(mut data: Map<String, Value>) -> Option<ToolStart> {
    let name = take_text(&mut data, &["name", "toolName", "tool_name"])?;
    let call_id = take_text(&mut data, &["toolCallId", "tool_call_id", "callId", "call_id", "id"]);
    let arguments = ["arguments", "args", "input", "parameters"].iter().find_map(|key| data.remove(*key));
    let arguments = match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
    };
    Some(ToolStart { name, agent: None, call_id, arguments })
}

/// Returns a result. It failed if it has an error flag, an error, or an output that consists of an error; without any
/// other output, the error is the output.
fn end(mut data: Map<String, Value>) -> ToolEnd {
    let call_id = take_text(&mut data, &["toolCallId", "tool_call_id", "callId", "call_id", "id"]);
    let name = take_text(&mut data, &["name", "toolName", "tool_name"]);
    let flag = ["isError", "is_error"].iter().any(|key| data.get(*key) == Some(&Value::Bool(true)));
    let error = data.remove("error").filter(|error| !error.is_null() && *error != Value::Bool(false));
    let output =
        ["payload", "output", "result", "response", "content"].iter().find_map(|key| data.remove(*key));
    // Google ADK reports an exception as a response that contains only an error.
    let says_error =
        |output: &Value| output.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("error"));
    let failed = flag || error.is_some() || output.as_ref().is_some_and(says_error);
    let output = match output.or(error) {
        None | Some(Value::Null) => ToolOutput::default(),
        Some(Value::String(text)) => ToolOutput::Text(text.into()),
        Some(value) => ToolOutput::Json(value),
    };
    ToolEnd { name, agent: None, call_id, failed, output: Some(output), uncertain: false }
}
