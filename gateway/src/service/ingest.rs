//! The formats in which frameworks publish runs, as the run engine reads them.

use aqueduct_adapter_magentic::Decoder;
use aqueduct_core::{ByteString, InterruptId, SourceEvent, ToolCallId};
use aqueduct_runs::LineDecoder;
use serde_json::Value;

/// Lines of `adapter-magentic`.
#[derive(Debug, Default)]
pub(super) struct MagenticLines(Decoder);

impl LineDecoder for MagenticLines {
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String> {
        self.0.handle_line(line).map_err(|error| error.to_string())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        self.0.handle_eof().map_err(|error| error.to_string())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.0.poll_event()
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        self.0.waiting_calls().cloned().collect()
    }

    /// A `responses` line names the replies that have reached the workflow.
    fn replies_taken(&self, line: &str) -> Vec<InterruptId> {
        // Most lines are no such line, and parsing each twice would double the cost of a publication.
        if !line.contains("\"responses\"") {
            return Vec::new();
        }
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let taken = value.get("responses").and_then(Value::as_object).into_iter().flatten();
        taken.map(|(id, _)| InterruptId::new(id.clone())).collect()
    }
}
