//! `LangGraph`'s A2A endpoint: tool results in a data part, and interrupts in an artifact named `Interrupt`.
//!
//! ```text
//! {"tool_results": [{"toolCallId": "c1", "name": "weather", "content": "21 degrees", "status": "success"}]}
//! Interrupt: {"id": "i1", "value": {"question": "Deploy?"}, "response_schema"?: {…}}
//! ```

use aqueduct_core::block::ToolOutput;
use serde_json::Value;

use super::{Recogniser, Sign, ToolEnd};
use crate::wire::{Artifact, Content, Part};

/// Recognises `LangGraph`'s data.
#[derive(Debug, Clone, Copy, Default)]
pub struct LangGraphData;

impl Recogniser for LangGraphData {
    fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
        if *artifact.name != *"Interrupt" {
            return None;
        }
        let questions: Vec<Value> = artifact.parts.iter().filter_map(Part::data_value).collect();
        // An artifact of that name with other data is the agent's own, and stays content.
        let are_questions = questions.iter().all(|data| data.get("value").is_some());
        (!questions.is_empty() && are_questions).then(|| Sign::InputForm(Value::Array(questions)))
    }

    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        // Most data parts are something else, and are not parsed.
        if !raw.as_str().contains("tool_results") {
            return None;
        }
        let data = raw.to_value();
        let results = data.get("tool_results")?.as_array()?;
        let ends: Option<Vec<Sign>> = results.iter().map(|result| end(result).map(Sign::ToolEnded)).collect();
        ends.map(Sign::Several)
    }
}

/// Returns the end of a call. Returns `None` for an entry without a call id; the whole part is then data, so that
/// nothing of it is lost.
fn end(result: &Value) -> Option<ToolEnd> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
    let output = match result.get("content") {
        None | Some(Value::Null) => ToolOutput::default(),
        Some(Value::String(text)) => ToolOutput::Text(text.clone().into()),
        Some(value) => ToolOutput::Json(value.clone()),
    };
    Some(ToolEnd {
        call_id: Some(text("toolCallId")?),
        name: text("name"),
        failed: text("status").as_deref() == Some("error"),
        output: Some(output),
        ..ToolEnd::default()
    })
}
