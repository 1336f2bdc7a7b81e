//! Limits of a posted input.

use crate::error::{Problem, WireError};
use crate::wire::{Message, RunAgentInput};

/// The limits of a posted input. Its total size is limited by the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputLimits {
    /// Bytes of an id. Ids are kept in memory and in the log, and repeated on every event of a run; those of real clients
    /// have at most about 100 bytes.
    pub id_bytes: usize,
}

impl Default for InputLimits {
    fn default() -> Self {
        Self { id_bytes: 1024 }
    }
}

/// Rejects ids that exceed the limit.
/// Checks the ids that the engine keeps. Other texts are limited by the size of the body, which the
/// transport limits.
///
/// # Errors
///
/// Returns [`Problem::TooLong`] with the path of the first id that is too long.
pub(super) fn check_ids(input: &RunAgentInput, limits: InputLimits) -> Result<(), WireError> {
    let check = |id: &str, place: &dyn Fn() -> String| {
        if id.len() <= limits.id_bytes {
            return Ok(());
        }
        let problem = Problem::TooLong { bytes: id.len(), limit: limits.id_bytes };
        Err(WireError { place: format!("RunAgentInput.{}", place()), problem })
    };
    check(&input.thread_id, &|| "threadId".to_owned())?;
    check(&input.run_id, &|| "runId".to_owned())?;
    check(input.parent_run_id.as_deref().unwrap_or_default(), &|| "parentRunId".to_owned())?;
    for (at, entry) in input.resume.iter().flatten().enumerate() {
        check(&entry.interrupt_id, &|| format!("resume[{at}].interruptId"))?;
    }
    for (at, message) in input.messages.iter().enumerate() {
        check(message.id(), &|| format!("messages[{at}].id"))?;
        let tag = message.subagent_run_id().map_or("", |tag| tag);
        check(tag, &|| format!("messages[{at}].subagentRunId"))?;
        for (index, call) in message.tool_calls().iter().enumerate() {
            check(&call.id, &|| format!("messages[{at}].toolCalls[{index}].id"))?;
        }
        if let Message::Tool(result) = message {
            check(&result.tool_call_id, &|| format!("messages[{at}].toolCallId"))?;
        }
    }
    Ok(())
}
