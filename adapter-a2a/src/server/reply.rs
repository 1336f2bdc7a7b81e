//! Responses without a task: an agent whose first content is [`MESSAGE_REPLY`] responds with one message.
//!
//! ```text
//! Custom("a2a.message"), text "Hi", RunFinished  ►  {"message": {"role": "ROLE_AGENT", "parts": [{"text": "Hi"}]}}
//! text "Hi", RunFinished                         ►  {"task": {…}}
//! ```
//!
//! Until the first content the form is undecided; the server waits `ServerConfig::reply_window` for it.

use aqueduct_core::block::Custom;
use aqueduct_core::{BlockEvent, Channel, ContentBlock, RunOutcome, SpanKind};
use serde_json::Value;

use super::ServerError;
use super::task::MessageDraft;
use crate::input;
use crate::wire::{Content, ErrorKind, Part};

/// The name of the custom block with which an agent declares, before any other content, that its response is a message
/// and not a task. The text and files of the run are the message; a string value, or the `text` of an object, is its
/// first part.
pub const MESSAGE_REPLY: &str = "a2a.message";

/// What an event shows about the form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    /// Nothing.
    None,
    /// The response is a message.
    Message,
    /// The response is a task.
    Task,
}

/// Returns what an event shows about the form of the response. Any content but [`MESSAGE_REPLY`] shows that it is
/// a task; so does the end of the run.
pub(super) fn hint(event: &BlockEvent) -> Hint {
    match event {
        BlockEvent::Custom(custom) if &*custom.name == MESSAGE_REPLY => Hint::Message,
        // The input of a run is not part of the response.
        BlockEvent::Custom(custom) if aqueduct_core::wellknown::is_internal(&custom.name) => Hint::None,
        // Events beside the content show nothing.
        BlockEvent::RunStarted(_)
        | BlockEvent::LaneOpened(_)
        | BlockEvent::LaneClosed { .. }
        | BlockEvent::StepStarted { .. }
        | BlockEvent::StepFinished { .. }
        | BlockEvent::StateSnapshot { .. }
        | BlockEvent::StateDelta { .. }
        | BlockEvent::Usage { .. } => Hint::None,
        _ => Hint::Task,
    }
}

impl MessageDraft {
    /// Adds the content of an event. The end of the run is the end of the message.
    pub(super) fn handle(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::BlockStarted(block)
                if block.kind == SpanKind::Text && block.channel == Channel::Answer =>
            {
                self.message.parts.push(Part::text(String::new()));
            }
            BlockEvent::BlockDelta { block, delta }
                if block.kind == SpanKind::Text && block.channel == Channel::Answer =>
            {
                self.append(delta);
            }
            BlockEvent::Custom(custom) if &*custom.name == MESSAGE_REPLY => {
                let text = custom.value.as_str().or_else(|| custom.value.get("text").and_then(Value::as_str));
                self.message.parts.extend(text.map(|text| Part::text(text.to_owned())));
            }
            BlockEvent::Custom(custom) if aqueduct_core::wellknown::is_internal(&custom.name) => {}
            BlockEvent::Custom(custom) => {
                let block = Custom { name: custom.name.clone(), value: custom.value.clone() };
                self.message.parts.extend(input::parts(&[ContentBlock::from(block)]));
            }
            BlockEvent::RunFinished(finished) => self.finish(finished.outcome),
            BlockEvent::RunFailed(failed) => {
                let words = failed.failure.message.to_string();
                self.outcome = Some(Err(ServerError::new(ErrorKind::InvalidAgentResponse, words)));
            }
            _ => {}
        }
    }

    /// Appends to the last text of the message, or begins one.
    fn append(&mut self, words: &str) {
        match self.message.parts.last_mut().map(|part| &mut part.content) {
            Some(Content::Text(text)) => text.0.to_mut().push_str(words),
            _ => self.message.parts.push(Part::text(words.to_owned())),
        }
    }

    /// Ends the message. A run that was interrupted or cancelled, or that produced no content, has no valid
    /// message.
    fn finish(&mut self, outcome: RunOutcome) {
        self.message.parts.retain(|part| !matches!(&part.content, Content::Text(text) if text.is_empty()));
        self.outcome = Some(match outcome {
            RunOutcome::Success if self.message.parts.is_empty() => Err(ServerError::new(
                ErrorKind::InvalidAgentResponse,
                "the agent said that it answers with a message, and said nothing",
            )),
            RunOutcome::Success => Ok(()),
            _ => Err(ServerError::new(
                ErrorKind::InvalidAgentResponse,
                "the agent said that it answers with a message, and did not finish it",
            )),
        });
    }
}
