//! Answers to interrupts: the open ones of a thread, the user's words as `resume`, and runs that resume under the id of
//! the run that asked.
//!
//! A frontend that is shown questions as text ([`Interrupts::Text`](crate::Interrupts::Text)) answers with its next
//! message, and an agent that waits takes `resume` and nothing else. Without the step between, the thread is dead.
//!
//! ```text
//!                 RunFinished with interrupts
//!   nothing open ─────────────────────────────► open ──┐ RunFailed without content: still open, once
//!        ▲                                       │ ▲────┘
//!        └── RunFinished without, RunFailed ─────┘
//! ```
//!
//! What is not here: where the thread's events come from, and which setting the frontend has.

mod payload;
#[cfg(test)]
mod tests;

use aqueduct_core::event::PendingInterrupt;
use aqueduct_core::{BlockEvent, ContentBlock, Interrupt, InterruptReply, Role, RunId, RunInput};
use serde_json::Value;

/// The interrupts of a thread that wait for an answer, folded from its events.
#[derive(Debug, Clone, Default)]
pub struct OpenInterrupts {
    open: Vec<PendingInterrupt>,
    /// True if the current run has emitted content: its agent has taken the answers.
    has_content: bool,
    /// True if a run has failed on the open interrupts already.
    has_failed: bool,
}

impl OpenInterrupts {
    /// Takes the next event of the thread into account: those of all its runs, oldest first.
    pub fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::RunStarted(_) => self.has_content = false,
            BlockEvent::RunFinished(finished) => {
                self.open.clone_from(&finished.interrupts);
                self.has_failed = false;
            }
            // A run that failed before its agent did anything has not answered; one that fails again never will.
            BlockEvent::RunFailed(_) if self.has_content || std::mem::replace(&mut self.has_failed, true) => {
                self.open.clear();
            }
            BlockEvent::BlockStarted(_) | BlockEvent::ToolResult(_) | BlockEvent::LaneOpened(_) => {
                self.has_content = true;
            }
            _ => {}
        }
    }

    /// Returns the interrupts that wait for an answer.
    pub fn open(&self) -> impl Iterator<Item = &Interrupt> {
        self.open.iter().map(|pending| &pending.interrupt)
    }

    /// Returns `true` if no interrupt waits.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

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
    if open.is_empty() || !input.resume.is_empty() || resumes_by_command(&input.forwarded) {
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

/// `LangGraph`'s own way before 1.0, which its frontends still use.
fn resumes_by_command(forwarded: &Value) -> bool {
    forwarded.get("command").and_then(|command| command.get("resume")).is_some_and(|resume| !resume.is_null())
}

/// Returns `true` if an input answers interrupts under the id of a run that the thread already has. CopilotKit resumes
/// with the id of the run that asked; the log needs an id of its own for the new run ([`resumed_run_id`]), and the
/// client is shown the one it sent ([`WatcherEncoder::with_shown_run_id`](crate::encode::WatcherEncoder::with_shown_run_id)).
pub fn resumes_same_run(input: &RunInput, is_known: impl FnOnce(&RunId) -> bool) -> bool {
    let answers = !input.resume.is_empty() || resumes_by_command(&input.forwarded);
    answers && is_known(&input.run_id)
}

/// Returns the id under which the log holds the `nth` run that resumes `run` (from 1): the same on every replica.
pub fn resumed_run_id(run: &RunId, nth: usize) -> RunId {
    RunId::from(format!("{run}~resume{nth}"))
}
