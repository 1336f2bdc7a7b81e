//! What is done when a stream is lost: it is taken up again, then the task is looked at, then it is given up. Each step is
//! bounded by [`Retry`](crate::config::Retry).

use std::time::Duration;

use aqueduct_core::RunFailure;
use serde_json::json;

use super::answer::is_passing;
use super::plan::Purpose;
use super::{State, TaskClient};
use crate::call::Call;
use crate::decode::failure_of;
use crate::wire::WireError;

impl TaskClient {
    /// An error on the stream. The task may have failed, or go on without this watcher (one that was too slow, for
    /// instance): only the task itself can tell.
    pub(super) fn handle_error_frame(&mut self, error: WireError) {
        if self.task_ref().is_none() && !self.decoder.has_heard() {
            // The answer to the message, told as an event.
            return self.handle_refused_message(&error);
        }
        if self.task_ref().is_none() || !is_passing(&error) {
            return self.fail(failure_of(&error));
        }
        self.decoder.note_error(&error);
        self.patience = self.config.retry.reported_polls;
        self.first_error.get_or_insert(error);
        self.recover();
    }

    /// The stream is lost.
    pub(super) fn recover(&mut self) {
        if self.task_ref().is_none() {
            return self.fail(self.decoder.cut());
        }
        // Half an event at the cut; the snapshot has the whole of it.
        self.decoder.forget_unread();
        if self.can_subscribe { self.subscribe_again() } else { self.look(Duration::ZERO) }
    }

    pub(super) fn subscribe_again(&mut self) {
        let retry = &self.config.retry;
        if self.attempts >= retry.attempts || self.streams >= retry.streams {
            // Streams do not get through; a last look tells whether the task is to be had at all.
            self.can_subscribe = false;
            return self.look(Duration::ZERO);
        }
        let pause = retry.pause(self.attempts);
        self.attempts += 1;
        self.streams += 1;
        if let Some(task) = self.task_ref() {
            self.state = State::Subscribing;
            self.plan(Purpose::Subscribe, Call::SubscribeToTask { id: task.task_id }, pause);
        }
    }

    pub(super) fn look(&mut self, pause: Duration) {
        if let Some(task) = self.task_ref() {
            self.state = State::Getting;
            self.plan(Purpose::Get, Call::GetTask { id: task.task_id, history_length: None }, pause);
        }
    }

    pub(super) fn give_up(&mut self) {
        let failure = match self.first_error.take() {
            Some(error) => failure_of(&error),
            None => self.decoder.cut(),
        };
        self.fail(failure);
    }

    /// An error that nothing can be done about. The one that led to it is the cause.
    pub(super) fn fail_after(&mut self, error: &WireError) {
        let Some(first) = self.first_error.take() else { return self.fail(failure_of(error)) };
        let mut failure = failure_of(&first);
        let mut details = failure.details.take().unwrap_or_else(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            details.insert("afterwards".to_owned(), error.message.clone().into());
        }
        failure.details = Some(details);
        self.fail(failure);
    }

    pub(super) fn fail(&mut self, failure: RunFailure) {
        self.planned.clear();
        self.decode(|decoder, out| decoder.fail(failure, out));
    }
}
