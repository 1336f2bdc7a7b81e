//! `as_agent()`: updates without executor, and the response at their end.
//!
//! An update carries no executor, only an author, and no channel: all of it is the answer. The final response is the
//! framework's own merge of the updates, which duplicates and truncates texts; it ends the run, and adds content only if
//! there was no update.

use aqueduct_core::{ByteString, Channel, RunOutcome};

use super::message::Output;
use super::run::Run;
use crate::wire::{AgentResponse, AgentResponseUpdate, Json, Line};

impl Run {
    /// Handles a line of `as_agent()`. Returns `false` if it cannot be decoded.
    pub(super) fn handle_agent(&mut self, text: &ByteString, line: &Line<'_>) -> bool {
        if let Some(update) = line.update {
            return self.handle_agent_update(text, update);
        }
        if let Some(response) = line.final_response {
            return response.read().is_some_and(|response| self.handle_agent_end(text, &response));
        }
        match line.kind.as_deref() {
            Some("agent_response_update" | "agent_run_response_update") => {
                serde_json::from_str(text).is_ok_and(|update| self.take_agent_update(text, &update))
            }
            _ => serde_json::from_str(text).is_ok_and(|response| self.handle_agent_end(text, &response)),
        }
    }

    /// Handles the update of an agent. Returns `false` if its JSON is not that of an update.
    fn handle_agent_update(&mut self, text: &ByteString, update: Json<'_>) -> bool {
        update.read().is_some_and(|update| self.take_agent_update(text, &update))
    }

    /// Emits the contents of an update, on the lane of its author.
    fn take_agent_update(&mut self, text: &ByteString, update: &AgentResponseUpdate<'_>) -> bool {
        self.streamed = true;
        let source = self.sources.author(None, update.author_name.as_deref());
        if !update.contents.is_empty() {
            self.close_stopped(Some(&source));
        }
        self.handle_update(answer(text), update);
        self.stopped.retain(|stopped| *stopped != source || update.contents.is_empty());
        if update.finish_reason.as_deref().is_some_and(|reason| reason != "tool_calls") {
            self.stopped.push(source);
        }
        true
    }

    /// Handles the final response: adds its content if no update was decoded, then ends the run.
    fn handle_agent_end(&mut self, text: &ByteString, response: &AgentResponse<'_>) -> bool {
        if !self.streamed {
            self.handle_response(answer(text), response);
        }
        self.finish(RunOutcome::Success);
        true
    }
}

/// Returns the origin of the content of a line: an agent has no executors, and all that it writes is its answer.
fn answer(line: &ByteString) -> Output<'_> {
    Output { line, executor: None, channel: Channel::Answer }
}
