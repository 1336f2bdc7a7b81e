//! A response that was lost before it named a task: the task is searched for, and the turn continues with it. If it is
//! not found, the turn ends with the original error.

use std::sync::Arc;

use aqueduct_adapter_a2a::TaskClient;
use aqueduct_adapter_a2a::call::{SendMessage, TaskRef};
use aqueduct_adapter_a2a::client::{Attachment, Purpose};
use aqueduct_adapter_a2a::frontend;
use aqueduct_adapter_a2a::input::{Recipient, message};
use aqueduct_adapter_a2a::wire::WireError;
use aqueduct_core::RunFailure;

use super::super::connection::{Answer, Incoming};
use super::super::find;
use super::{Active, Dedup, client_config};

/// How the response to a message was lost before it named a task.
pub(super) enum LostAnswer {
    Cut(WireError),
    /// The stream ended without an event.
    Ended,
}

impl LostAnswer {
    /// Classifies the end of a stream. Returns `None` for an end that is a response, and for a timeout: an agent that
    /// does not respond does not list its tasks either.
    pub(super) fn of(ended: &Incoming) -> Option<Self> {
        match ended {
            Incoming::Cut(reason, code) if *code == RunFailure::UPSTREAM_ENDED => {
                Some(Self::Cut(WireError::transport(reason.clone()).failing_as(code)))
            }
            Incoming::End => Some(Self::Ended),
            _ => None,
        }
    }
}

impl Active {
    /// Returns `true` if the task of the message can be searched for: the agent has not named it, and may have started
    /// it.
    pub(super) fn can_search(&self) -> bool {
        let is_new =
            self.lost_answer.is_none() && !self.client.has_heard() && self.client.task_ref().is_none();
        is_new && matches!(self.dedup, Dedup::Done(_)) && find::can_find(&self.card)
    }

    /// Searches for the task of the message whose response was lost.
    pub(super) fn search(&mut self, lost: LostAnswer) {
        self.lost_answer = Some(lost);
        let (shared, card) = (Arc::clone(&self.shared), Arc::clone(&self.card));
        let (context, sent) = (Arc::clone(&self.request.context), self.sent.clone());
        self.requests.push(Box::pin(async move {
            let found = find::find(&shared.connection, &card, &*context, &sent, None).await;
            (Purpose::Send, Answer::Found(found))
        }));
    }

    /// Continues with the task that was found, or ends the turn with the original error.
    pub(super) fn handle_found(&mut self, found: Result<TaskRef, String>) {
        let task = match found {
            Ok(task) => task,
            Err(reason) => {
                tracing::info!(
                    run = self.request.input.run_id.as_str(),
                    reason,
                    "the task was not found again"
                );
                return match self.lost_answer.take() {
                    Some(LostAnswer::Cut(error)) => self.client.handle_response_error(Purpose::Send, error),
                    _ => self.client.handle_stream_end(),
                };
            }
        };
        let to = Recipient::Task(task.clone());
        let sent = SendMessage::new(message(&self.request.input, self.sent.message_id.clone(), &to));
        let mut config = client_config(&self.shared.client, &self.card);
        config.decode.frontend_tools = frontend::offered_tools(&self.request.input);
        self.client = TaskClient::attaching(config, sent, Attachment { task, earlier: Vec::new() });
        if self.cancelled.is_none() {
            self.client.handle_cancel();
        }
        self.learn_context();
    }
}
