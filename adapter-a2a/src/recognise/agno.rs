//! Agno: tool calls in the metadata of statuses without a message, and thinking in messages of the category
//! `reasoning`.
//!
//! ```text
//! status metadata   {"agno_event_type": "tool_call_started", "tool_name": "weather", "tool_call_id": "c1",
//!                    "tool_args": "{\"city\": \"Paris\"}"}
//!                   {"agno_event_type": "tool_call_completed", "tool_name": "weather", "tool_call_id": "c1"}
//! message metadata  {"agno_content_category": "reasoning"}, or "content" for the answer
//! ```
//!
//! Agno does not report results of tools here: the end of a call has no output. How messages of the category
//! `content` are joined is decided by the profiles of the decoder.

use aqueduct_core::Metadata;
use serde_json::Value;

use super::{Recogniser, Sign, ToolEnd, ToolStart};
use crate::wire::Message;

/// Recognises Agno's metadata.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgnoEvents;

impl Recogniser for AgnoEvents {
    fn status_text(&self, _: &str, metadata: Option<&Metadata>) -> Vec<Sign> {
        metadata.and_then(tool_call).into_iter().collect()
    }

    fn message(&self, message: &Message<'_>) -> Option<Sign> {
        let metadata = message.metadata.as_ref()?;
        // Called for every text: the value is searched before anything is parsed.
        if !metadata.as_str().contains("reasoning") {
            return None;
        }
        let is_thought =
            metadata.to_object()?.get("agno_content_category").and_then(Value::as_str) == Some("reasoning");
        is_thought.then_some(Sign::Thinking)
    }
}

/// Returns the start or the end of a call. Returns `None` for other events, and for a start without a name, which
/// could not be shown.
fn tool_call(metadata: &Metadata) -> Option<Sign> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let (name, call_id) = (text("tool_name"), text("tool_call_id"));
    match text("agno_event_type")?.as_str() {
        "tool_call_started" => {
            let arguments = text("tool_args").unwrap_or_default();
            Some(Sign::ToolStarted(ToolStart { name: name?, call_id, arguments, ..ToolStart::default() }))
        }
        kind @ ("tool_call_completed" | "tool_call_error") => {
            let failed = kind == "tool_call_error";
            Some(Sign::ToolEnded(ToolEnd { name, call_id, failed, ..ToolEnd::default() }))
        }
        _ => None,
    }
}
