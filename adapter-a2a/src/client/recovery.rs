//! Recovery of a lost stream: the client subscribes again, then reads the task, then gives up. Each step is bounded
//! by
//! [`Retry`](crate::config::Retry).
//!
//! ```text
//! lost stream ──► no task known ───────────────────────► failed as cut; a caller may look it up (`SentMessage`)
//!             ──► can subscribe, attempts left ────────► subscribe, after a pause that doubles
//!             └─► otherwise ───────────────────────────► read the task ── works ──► poll, or subscribe
//!                                                                      └─ ended ──► settled
//! ```
//!
//! New content resets the attempts (`handle_progress`), so a task of hours survives any number of cuts. The first
//! error of a series is the cause that is reported; errors that follow from it are details.

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
    /// Handles an error on the stream. The task may have failed, or continue without this watcher (one that was too
    /// slow, for instance): only reading the task shows which.
    pub(super) fn handle_error_frame(&mut self, error: WireError) {
        if self.task_ref().is_none() && !self.decoder.has_heard() {
            // The error is the response to the message, sent as an event.
            return self.handle_refused_message(&error);
        }
        if self.task_ref().is_none() || !is_passing(&error) {
            return self.fail(failure_of(&error));
        }
        self.decoder.note_error(&error);
        self.patience = self.settings.retry.reported_polls;
        self.first_error.get_or_insert(error);
        self.recover();
    }

    /// Handles the loss of the stream: plans the next step, or fails the turn if no task is known.
    pub(super) fn recover(&mut self) {
        if self.task_ref().is_none() {
            return self.fail(self.decoder.cut());
        }
        // The last frame was cut; the snapshot contains the complete item.
        self.decoder.forget_unread();
        if self.can_subscribe { self.subscribe_again() } else { self.plan_get(Duration::ZERO) }
    }

    /// Plans a subscription after a lost stream. Reads the task instead if the attempts without new content, or the
    /// subscriptions of the turn, are used up.
    pub(super) fn subscribe_again(&mut self) {
        let retry = &self.settings.retry;
        if self.attempts >= retry.attempts || self.streams >= retry.streams {
            // Subscriptions fail; a last read shows whether the task is available at all.
            self.can_subscribe = false;
            return self.plan_get(Duration::ZERO);
        }
        let pause = retry.pause(self.attempts);
        self.attempts += 1;
        self.streams += 1;
        if let Some(task) = self.task_ref() {
            self.state = State::Subscribing;
            self.plan(Purpose::Subscribe, Call::SubscribeToTask { id: task.task_id }, pause);
        }
    }

    /// Plans to read the task after a pause. No effect while the task is unknown.
    pub(super) fn plan_get(&mut self, pause: Duration) {
        if let Some(task) = self.task_ref() {
            self.state = State::Getting;
            self.plan(Purpose::Get, Call::GetTask { id: task.task_id, history_length: None }, pause);
        }
    }

    /// Ends the turn as failed, with the first error that was seen; without any, as a cut.
    pub(super) fn give_up(&mut self) {
        let failure = match self.first_error.take() {
            Some(error) => failure_of(&error),
            None => self.decoder.cut(),
        };
        self.fail(failure);
    }

    /// Fails the task after an error without recovery. The first error of the series is the cause; the message of the
    /// last one is added as `details.afterwards`.
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

    /// Ends the turn with a failure. Planned requests are dropped.
    pub(super) fn fail(&mut self, failure: RunFailure) {
        self.planned.clear();
        self.decode(|decoder, out| decoder.fail(failure, out));
    }
}
