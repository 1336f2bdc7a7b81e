//! Microsoft Agent Framework: workflow events as a payload format of publishers.
//!
//! Each payload of a publisher is one line of JSON, as `sdk/python` writes them.

use aqueduct_adapter_magentic::Decoder;
use aqueduct_core::{ByteString, InterruptId, SourceEvent, ToolCallId};
use aqueduct_runs::LineDecoder;
use serde_json::Value;

/// Returns a decoder of workflow events, for
/// [`RunsBuilder::ingest_format`](aqueduct_runs::RunsBuilder::ingest_format).
pub fn decoder() -> Box<dyn LineDecoder> {
    Box::new(Lines(Decoder::default()))
}

/// Adapts the decoder of the adapter to the engine.
struct Lines(Decoder);

impl LineDecoder for Lines {
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

    fn replies_taken(&self, line: &str) -> Vec<InterruptId> {
        // Most lines contain no replies, and parsing each twice would double the cost of a publication.
        if !line.contains("\"responses\"") {
            return Vec::new();
        }
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let taken = value.get("responses").and_then(Value::as_object);
        taken.into_iter().flat_map(|taken| taken.keys()).map(|id| InterruptId::from(id.as_str())).collect()
    }
}
