//! The format in which the workflows of a world publish: one JSON object per line.

use std::collections::VecDeque;

use aqueduct_core::{ByteString, Interrupt, InterruptId, RunOutcome, SourceEvent, ToolCallId, Update};
use aqueduct_runs::LineDecoder;
use serde_json::{Value, json};

/// The name of the format.
pub const FORMAT: &str = "simulated";

/// A line of text.
pub fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// A line that asks a human.
pub fn ask(id: &str) -> Value {
    json!({ "ask": id })
}

/// A line that shows that the reply has come.
pub fn taken(id: &str) -> Value {
    json!({ "taken": id })
}

/// Decodes lines.
#[derive(Debug, Default)]
pub struct Lines {
    events: VecDeque<SourceEvent>,
    is_waiting: bool,
}

/// Returns a decoder for one publisher.
pub fn decoder() -> Box<dyn LineDecoder> {
    Box::new(Lines::default())
}

impl LineDecoder for Lines {
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String> {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let word = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(text) = word("text") {
            self.events.push_back(Update::text(text).in_message("m").into());
        }
        if let Some(id) = word("ask") {
            self.is_waiting = true;
            self.events.push_back(SourceEvent::interrupt(Interrupt::new(id, "input_required")));
            self.events.push_back(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None });
        }
        self.is_waiting &= word("taken").is_none();
        Ok(())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        if !self.is_waiting {
            self.events.push_back(SourceEvent::finished());
        }
        Ok(())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        Vec::new()
    }

    fn replies_taken(&self, line: &str) -> Vec<InterruptId> {
        let line: Option<Value> = serde_json::from_str(line).ok();
        let id = line.as_ref().and_then(|line| line.get("taken")?.as_str());
        id.map(|id| InterruptId::new(id.to_owned())).into_iter().collect()
    }
}
