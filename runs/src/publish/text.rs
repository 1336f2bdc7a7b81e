//! The payload format `text`: every payload is a JSON string, the next fragment of one answer.
//!
//! The smallest format, for programs that publish text only. The end of the publication is the success of the run.

use std::collections::VecDeque;

use aqueduct_core::{ByteString, InterruptId, SourceEvent, ToolCallId, Update};

use super::LineDecoder;

/// The name of the format.
pub(crate) const NAME: &str = "text";

/// Decodes JSON strings.
#[derive(Debug, Default)]
pub(crate) struct TextLines(VecDeque<SourceEvent>);

impl LineDecoder for TextLines {
    fn handle_line(&mut self, line: &ByteString) -> Result<(), String> {
        let text: String = serde_json::from_str(line)
            .map_err(|error| format!("a payload of the format `{NAME}` is a JSON string: {error}"))?;
        self.0.push_back(Update::text(text).into());
        Ok(())
    }

    fn handle_eof(&mut self) -> Result<(), String> {
        self.0.push_back(SourceEvent::finished());
        Ok(())
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.0.pop_front()
    }

    fn waiting_calls(&self) -> Vec<ToolCallId> {
        Vec::new()
    }

    fn replies_taken(&self, _line: &str) -> Vec<InterruptId> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_pieces_and_the_end_is_success() {
        let mut lines = TextLines::default();
        lines.handle_line(&ByteString::from("\"a \"")).unwrap();
        assert!(lines.handle_line(&ByteString::from("{}")).unwrap_err().contains("JSON string"));
        lines.handle_eof().unwrap();
        let events: Vec<SourceEvent> = std::iter::from_fn(|| lines.poll_event()).collect();
        assert_eq!(events, [Update::text("a ").into(), SourceEvent::finished()]);
    }
}
