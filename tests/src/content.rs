//! The content of a stream without ids: texts, calls, results and reasoning in order, and the outcome of the run.
//!
//! The content is folded from canonical events and from AG-UI events independently, so that every output of one
//! recording can be held to one expectation. Ids, lanes and timing are not part of it.

use std::collections::HashMap;

use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, BlockId, SpanKind};
use serde_json::Value;

/// The content of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Content {
    /// Texts that are not empty, trimmed.
    pub texts: Vec<String>,
    /// Tool calls: name and arguments.
    pub calls: Vec<(String, Value)>,
    /// Tool results, as text.
    pub results: Vec<String>,
    /// Reasoning that is not empty, trimmed.
    pub reasoning: Vec<String>,
    /// `success`, `interrupted`, `cancelled` or `failed`.
    pub outcome: String,
}

/// Pieces that grow, in the order of their start.
#[derive(Default)]
struct Pieces {
    order: Vec<(SpanKind, String, String)>,
    places: HashMap<String, usize>,
}

impl Pieces {
    fn start(&mut self, kind: SpanKind, id: &str, name: &str, continues: Option<&str>) {
        let place = continues.and_then(|earlier| self.places.get(earlier).copied()).unwrap_or_else(|| {
            self.order.push((kind, name.to_owned(), String::new()));
            self.order.len() - 1
        });
        self.places.insert(id.to_owned(), place);
    }

    fn append(&mut self, id: &str, delta: &str) {
        let place = *self.places.get(id).unwrap_or_else(|| panic!("`{id}` grows before it starts"));
        self.order[place].2.push_str(delta);
    }

    fn clear(&mut self, id: &str) {
        if let Some(place) = self.places.get(id) {
            self.order[*place].2.clear();
        }
    }

    fn into_content(self, results: Vec<String>, outcome: String) -> Content {
        let mut content = Content { results, outcome, ..Content::default() };
        for (kind, name, text) in self.order {
            match kind {
                SpanKind::Text if !text.trim().is_empty() => content.texts.push(text.trim().to_owned()),
                SpanKind::Thinking if !text.trim().is_empty() => {
                    content.reasoning.push(text.trim().to_owned());
                }
                SpanKind::ToolUse => {
                    let arguments = serde_json::from_str(&text).unwrap_or(Value::String(text));
                    content.calls.push((name, arguments));
                }
                _ => {}
            }
        }
        content
    }
}

impl Content {
    /// The content of canonical events.
    pub fn of_blocks(events: &[BlockEvent]) -> Self {
        let (mut pieces, mut results, mut outcome) = (Pieces::default(), Vec::new(), String::new());
        for event in events {
            match event {
                BlockEvent::BlockStarted(block) => {
                    if let Some(replaced) = &block.replaces {
                        pieces.clear(replaced.as_str());
                    }
                    let continues = block.continues.as_ref().map(BlockId::as_str);
                    pieces.start(block.kind, block.id.as_str(), &block.tool_name, continues);
                }
                BlockEvent::BlockDelta { block, delta } => pieces.append(block.id.as_str(), delta),
                BlockEvent::ToolResult(result) => results.push(result.output.to_text().to_string()),
                BlockEvent::RunFinished(end) => outcome = format!("{:?}", end.outcome).to_lowercase(),
                BlockEvent::RunFailed(_) => "failed".clone_into(&mut outcome),
                _ => {}
            }
        }
        pieces.into_content(results, outcome)
    }

    /// The content of AG-UI events, as a client reads them.
    pub fn of_agui(events: &[Event]) -> Self {
        let (mut pieces, mut results, mut outcome) = (Pieces::default(), Vec::new(), String::new());
        for event in events.iter().map(|event| serde_json::to_value(event).unwrap()) {
            let member = |key: &str| event[key].as_str().unwrap_or_default();
            let continues = event["metadata"]["aqueduct.continues"].as_str();
            match member("type") {
                "TEXT_MESSAGE_START" => pieces.start(SpanKind::Text, member("messageId"), "", continues),
                "REASONING_MESSAGE_START" => {
                    pieces.start(SpanKind::Thinking, member("messageId"), "", continues);
                }
                "TOOL_CALL_START" => {
                    pieces.start(SpanKind::ToolUse, member("toolCallId"), member("toolCallName"), None);
                }
                "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                    pieces.append(member("messageId"), member("delta"));
                }
                "TOOL_CALL_ARGS" => pieces.append(member("toolCallId"), member("delta")),
                "TOOL_CALL_RESULT" => results.push(text_of(&event["content"])),
                "RUN_FINISHED" => {
                    let kind = event["outcome"]["type"].as_str().unwrap_or("success");
                    if kind == "interrupt" { "interrupted" } else { kind }.clone_into(&mut outcome);
                }
                "RUN_ERROR" => "failed".clone_into(&mut outcome),
                _ => {}
            }
        }
        pieces.into_content(results, outcome)
    }
}

fn text_of(content: &Value) -> String {
    content.as_str().map_or_else(|| content.to_string(), ToOwned::to_owned)
}
