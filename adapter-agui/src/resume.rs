//! Replies to interrupts: a user's text as `resume`.
//!
//! A frontend that shows interrupts as text ([`Interrupts::Text`](crate::Interrupts::Text)) replies with its next message,
//! but a waiting agent accepts only `resume`. Without this conversion the thread could not continue.
//!
//! This module determines neither the open interrupts of a thread ([`OpenInterrupts`](aqueduct_core::OpenInterrupts)) nor the
//! setting of the frontend.

mod payload;
#[cfg(test)]
mod tests;

use aqueduct_core::{ContentBlock, Interrupt, InterruptReply, Role, RunInput};
use serde_json::Value;

/// Creates `resume` from the last user message, if interrupts are open and the input does not reply
/// to them itself. Returns `true` if it did. The message is then removed, because to the agent it
/// is not a message; a message with files beside its text stays, so that the files are not lost.
///
/// Each interrupt gets the value that its schema requires: a boolean or `{"approved": …}` for yes
/// and no, JSON for an object, a number, a value of an `enum`, otherwise the text. A text that is
/// neither a clear yes nor a clear no never approves: it declines, with the text as reason if the
/// schema has a member for one. Several interrupts get one reply each from a JSON object with their
/// ids, a JSON array or as many lines; otherwise all get the same reply.
///
/// Returns `false` and changes nothing if no interrupt is open, if the last message is not of the
/// user, or if it has no text.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::resume::resume_from_text;
/// use aqueduct_core::{Interrupt, RunInput};
/// use serde_json::json;
///
/// let mut open = Interrupt::new("i1", "tool_call");
/// open.response_schema = Some(json!({"type": "object", "properties": {"approved": {"type": "boolean"}}}));
/// let mut input = RunInput::prompt("thread", "run-2", "Yes, please.");
/// assert!(resume_from_text(&mut input, [&open]));
/// assert_eq!(input.resume[0].payload, Some(json!({"approved": true})));
/// assert!(input.messages.is_empty());
/// ```
pub fn resume_from_text<'a>(input: &mut RunInput, open: impl IntoIterator<Item = &'a Interrupt>) -> bool {
    let open: Vec<&Interrupt> = open.into_iter().collect();
    if open.is_empty() || input.answers_interrupts() {
        return false;
    }
    let Some(message) = input.messages.last().filter(|message| message.role == Role::User) else {
        return false;
    };
    let text = message.text();
    if text.trim().is_empty() {
        return false;
    }
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text(_));
    if message.contents.iter().all(is_text) {
        input.messages.pop();
    }
    let reply = |(interrupt, words): (&&Interrupt, Value)| InterruptReply {
        id: interrupt.id.clone(),
        resolved: true,
        payload: Some(payload::for_interrupt(interrupt, words)),
    };
    input.resume = open.iter().zip(payload::shares(text.trim(), &open)).map(reply).collect();
    true
}
