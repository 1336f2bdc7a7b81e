//! What one turn left in a reader, and how canonical events fold to it.

use std::collections::HashMap;

use aqueduct_core::{BlockEvent, Channel, RunOutcome, SpanKind};

/// What one turn left in a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Texts in their order; those that are not the answer (progress, thoughts) are marked `false`.
    pub texts: Vec<(bool, String)>,
    /// Names and arguments of calls.
    pub calls: Vec<(String, String)>,
    /// Results, with the name of the tool.
    pub results: Vec<(String, String)>,
    /// `success`, `interrupt`, `error` or `cancelled`.
    pub outcome: String,
    /// The words of questions that wait.
    pub questions: Vec<String>,
    /// The words of the failure.
    pub cause: String,
}

impl Turn {
    /// Folds the canonical events of a run.
    pub fn of_blocks(events: &[BlockEvent]) -> Self {
        let mut turn = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        for event in events {
            match event {
                BlockEvent::BlockStarted(block) if block.kind == SpanKind::ToolUse => {
                    places.insert(block.id.to_string(), turn.calls.len());
                    turn.calls.push((block.tool_name.to_string(), String::new()));
                }
                BlockEvent::BlockStarted(block) => {
                    let is_answer = block.kind == SpanKind::Text && block.channel == Channel::Answer;
                    places.insert(block.id.to_string(), turn.texts.len());
                    turn.texts.push((is_answer, String::new()));
                }
                BlockEvent::BlockDelta { block, delta } => {
                    let place = places[block.id.as_str()];
                    let is_call = block.kind == SpanKind::ToolUse;
                    let text = if is_call { &mut turn.calls[place].1 } else { &mut turn.texts[place].1 };
                    text.push_str(delta);
                }
                BlockEvent::ToolResult(result) => {
                    turn.results.push((result.tool_name.to_string(), result.output.to_text().to_string()));
                }
                _ => turn.end(event),
            }
        }
        turn
    }

    fn end(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::RunFinished(end) => {
                let outcome = match end.outcome {
                    RunOutcome::Success => "success",
                    RunOutcome::Interrupted => "interrupt",
                    RunOutcome::Cancelled => "cancelled",
                    _ => "unknown",
                };
                outcome.clone_into(&mut self.outcome);
                let questions =
                    end.interrupts.iter().filter_map(|pending| pending.interrupt.message.as_ref());
                self.questions = questions.map(ToString::to_string).collect();
            }
            BlockEvent::RunFailed(end) => {
                "error".clone_into(&mut self.outcome);
                self.cause = end.failure.message.to_string();
            }
            _ => {}
        }
    }

    /// The texts of one kind, or of both, without white space.
    pub(super) fn said(&self, answers: Option<bool>) -> String {
        let chosen =
            self.texts.iter().filter(|(is_answer, _)| answers.is_none_or(|wanted| wanted == *is_answer));
        bare(&chosen.map(|(_, text)| text.as_str()).collect::<String>())
    }
}

pub(super) fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}
