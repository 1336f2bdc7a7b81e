//! Text parts that are thinking, by their metadata:
//!
//! ```text
//! {"text": "Hm", "metadata": {"adk_thought": true}}    Google ADK; also `thought`, `is_thought`
//! {"text": "Hm", "metadata": {"type": "reasoning"}}    also `thinking`, `thought`; also under `kind`
//! ```
//!
//! A flag counts only if it is `true`, a type only if it equals one of the words: `{"thoughtful": true}` is metadata
//! like any other.

use serde_json::Value;

use super::{Recogniser, Sign};
use crate::wire::Part;

/// Recognises thinking.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThoughtParts;

impl Recogniser for ThoughtParts {
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        part.as_text()?;
        let metadata = part.metadata.as_ref()?;
        // Every text part with metadata is asked for: the words are searched before anything is parsed.
        if !["thought", "thinking", "reasoning"].iter().any(|word| metadata.as_str().contains(word)) {
            return None;
        }
        let metadata = metadata.to_object()?;
        let flagged = ["adk_thought", "thought", "is_thought"]
            .iter()
            .any(|key| metadata.get(*key) == Some(&Value::Bool(true)));
        let typed = ["type", "kind"].iter().any(|key| {
            matches!(metadata.get(*key).and_then(Value::as_str), Some("thinking" | "reasoning" | "thought"))
        });
        (flagged || typed).then_some(Sign::Thinking)
    }
}
