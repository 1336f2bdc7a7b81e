//! The retired events of 0.0.x: `THINKING_*` (reasoning without ids), upgraded to the events that
//! replaced them.
//!
//! ```text
//! THINKING_START {"title":"Plan"}              -> REASONING_START thinking-1
//! THINKING_TEXT_MESSAGE_START                  -> REASONING_MESSAGE_START thinking-2, metadata {"title":"Plan"}
//! THINKING_TEXT_MESSAGE_CONTENT {"delta":"…"}  -> REASONING_MESSAGE_CONTENT thinking-2
//! THINKING_TEXT_MESSAGE_END                    -> REASONING_MESSAGE_END thinking-2
//! THINKING_END                                 -> REASONING_END thinking-1
//! ```
//!
//! The wire types read these events as `Event::Unknown`. The upgrade happens before all other steps
//! of the decoder, so that no other module knows them. The old events have no ids and no tags: one
//! span and one message are open at a time, and both belong to the root agent.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use crate::error::{Problem, WireError};
use crate::wire::{
    Event, ReasoningEnd, ReasoningMessageContent, ReasoningMessageEnd, ReasoningMessageStart, ReasoningStart,
};

/// Generates the ids that old reasoning events lack, and remembers which are open.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    count: u64,
    span: Option<ByteString>,
    message: Option<ByteString>,
    /// The title of the span, which the new events do not have: it becomes metadata of the message.
    title: Option<Value>,
}

impl Thinking {
    /// Returns a retired event in its new form, and any other event unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the content event has no textual `delta`.
    pub(super) fn upgrade(&mut self, event: Event) -> Result<Event, WireError> {
        let Event::Unknown { kind, value } = &event else { return Ok(event) };
        let upgraded = match &**kind {
            "THINKING_START" => {
                self.title = value.get("title").filter(|title| !title.is_null()).cloned();
                let message_id = self.mint();
                self.span = Some(message_id.clone());
                Event::ReasoningStart(ReasoningStart { message_id, ..ReasoningStart::default() })
            }
            "THINKING_END" => {
                // An end without a start still becomes an event; the decoder ignores ends of unknown spans.
                let message_id = self.span.take().unwrap_or_else(|| self.mint());
                Event::ReasoningEnd(ReasoningEnd { message_id, ..ReasoningEnd::default() })
            }
            "THINKING_TEXT_MESSAGE_START" => {
                let message_id = self.mint();
                self.message = Some(message_id.clone());
                let mut start = ReasoningMessageStart { message_id, ..ReasoningMessageStart::default() };
                if let Some(title) = self.title.take() {
                    start.base.metadata_mut().insert("title".to_owned(), title);
                }
                Event::ReasoningMessageStart(start)
            }
            "THINKING_TEXT_MESSAGE_CONTENT" => {
                let delta = delta(value)?;
                let message_id = self.current();
                let base = crate::wire::Base::default();
                let content = ReasoningMessageContent { base, subagent_run_id: None, message_id, delta };
                Event::ReasoningMessageContent(content)
            }
            "THINKING_TEXT_MESSAGE_END" => {
                let message_id = self.current();
                self.message = None;
                Event::ReasoningMessageEnd(ReasoningMessageEnd {
                    message_id,
                    ..ReasoningMessageEnd::default()
                })
            }
            _ => return Ok(event),
        };
        Ok(upgraded)
    }

    /// Returns the id of the open thinking message. Content without a start opens a message, so that no
    /// content is lost.
    fn current(&mut self) -> ByteString {
        if self.message.is_none() {
            self.message = Some(self.mint());
        }
        self.message.clone().unwrap_or_default()
    }

    /// Returns a new id. It is unique among these ids of the run; the stream machine makes it unique in
    /// the thread.
    fn mint(&mut self) -> ByteString {
        self.count += 1;
        ByteString::from(format!("thinking-{}", self.count))
    }
}

/// Returns the member `delta`, with the same errors as a declared member would have.
fn delta(value: &Metadata) -> Result<ByteString, WireError> {
    let expected = "a string";
    let place = "THINKING_TEXT_MESSAGE_CONTENT.delta".to_owned();
    match value.get("delta") {
        Some(Value::String(delta)) => Ok(ByteString::from(delta.as_str())),
        Some(other) => {
            Err(WireError { place, problem: Problem::Wrong { expected, found: other.to_string() } })
        }
        None => Err(WireError { place, problem: Problem::Missing { expected } }),
    }
}
