//! Answers to interrupts: the user's words as `resume`.
//!
//! A frontend that is shown questions as text ([`Interrupts::Text`](crate::Interrupts::Text)) answers with its next
//! message, and an agent that waits takes `resume` and nothing else. Without the step between, the thread is dead.
//!
//! What is not here: which interrupts of a thread are open ([`OpenInterrupts`](aqueduct_core::OpenInterrupts)), and
//! which setting the frontend has.

mod payload;
#[cfg(test)]
mod tests;

use aqueduct_core::{ContentBlock, Interrupt, InterruptReply, Role, RunInput};
use serde_json::Value;

/// Makes `resume` from the user's last message, if interrupts are open and the input does not answer them itself.
/// Returns `true` if it did; the message is then taken out, because to the agent it is no message.
///
/// Each interrupt gets what its schema wants: a boolean or `{"approved": …}` for yes and no, JSON for an object, a number,
/// one of the words of an `enum`, else the words. Words that are neither a clear yes nor a clear no never approve: they
/// decline, with the words as reason where the schema has a place for one. Several interrupts get an answer each from a
/// JSON object with their ids, a JSON array or as many lines; otherwise all get the same.
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
