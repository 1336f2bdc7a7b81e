//! Handles responses: a refused message, subscription, read or cancel, and a task that still works although no stream
//! reports it.
//!
//! | refused | temporary error | any other error |
//! |---|---|---|
//! | message | the turn fails | other version once (-32601), without streaming once, else the turn fails |
//! | subscription | subscribe again | the task is read |
//! | read | read again after a pause | the turn fails with the first error |
//! | cancel | cancel again after a pause | the turn ends as cancelled; a task that has ended is read |
//!
//! A message is never repeated after a temporary error: its first copy may have had an effect. "Temporary" is defined
//! by `is_passing`.

use std::time::Duration;

use super::{Cancel, Purpose, TaskClient, send_call};
use crate::decode::{Decoder, failure_of};
use crate::version::{Binding, Version};
use crate::wire::{ErrorKind, WireError};

impl TaskClient {
    /// Handles the refusal of the message that starts the turn. Two refusals are repaired, each once; both occur
    /// before the message has any effect:
    ///
    /// * the method is unknown (-32601) and the address may support the other version: sent again in that version;
    /// * the agent does not stream: sent again as a blocking call.
    ///
    /// Every other error ends the turn as failed.
    pub(super) fn handle_refused_message(&mut self, error: &WireError) {
        // The method was refused before any effect: the same message may be sent again.
        let is_unknown = error.kind() == ErrorKind::MethodNotFound;
        if is_unknown
            && let Some(version) = self.settings.version.filter(|_| !self.tried_other)
            && let Some(message) = &self.message
        {
            let send = send_call(message, self.settings.streaming);
            self.tried_other = true;
            self.switch(Some(version.other()));
            return self.plan(Purpose::Send, send, Duration::ZERO);
        }
        if is_unknown {
            // The other version has no such method either.
            self.switch(None);
        }
        if error.refuses_streaming()
            && self.settings.streaming
            && let Some(message) = &self.message
        {
            let send = send_call(message, false);
            self.settings.streaming = false;
            self.can_subscribe = false;
            return self.plan(Purpose::Send, send, Duration::ZERO);
        }
        self.fail(failure_of(error));
    }

    /// Uses that version for requests and responses from now on; `None` for that of the endpoint. Only JSON-RPC has
    /// one address for both versions.
    fn switch(&mut self, version: Option<Version>) {
        self.version = version;
        let own = self.settings.dialect;
        self.decoder.set_dialect(version.map_or(own, |version| Binding::JsonRpc.dialect(version)));
    }

    /// Handles the refusal of a subscription. A temporary error is retried; any other falls back to reading the task.
    pub(super) fn handle_refused_stream(&mut self, error: WireError) {
        if is_passing(&error) && error.kind() != ErrorKind::TaskNotFound {
            self.first_error.get_or_insert(error);
            return self.recover();
        }
        // The task may be terminal (-32004), not subscribable while it is interrupted (-32001 of some servers), or the
        // method may be missing: reading the task shows which. A task that still works has to be polled.
        self.can_subscribe = false;
        if error.kind() == ErrorKind::TaskNotFound {
            self.patience = self.patience.min(self.settings.retry.unwatchable_polls);
        }
        self.plan_get(Duration::ZERO);
    }

    /// Handles the refusal to return the task. A temporary error is retried with a growing pause, at most
    /// `Retry::attempts` times. A task that the agent does not know is lost: the turn fails.
    pub(super) fn handle_refused_get(&mut self, error: WireError) {
        if !is_passing(&error) || error.kind() == ErrorKind::TaskNotFound {
            return self.fail_after(&error);
        }
        self.first_error.get_or_insert(error);
        self.attempts += 1;
        if self.attempts > self.settings.retry.attempts {
            return self.give_up();
        }
        self.plan_get(self.settings.retry.pause(self.attempts));
    }

    /// Handles the refusal of a cancel. The caller asked for the end of the turn and gets it: a temporary error is
    /// retried at most `Retry::attempts` times, a task that has ended is read for its real end, and in all other
    /// cases the turn ends as cancelled without the agent's confirmation.
    pub(super) fn handle_refused_cancel(&mut self, error: &WireError) {
        match error.kind() {
            // The task has ended in the meantime.
            ErrorKind::TaskNotCancelable => self.plan_get(Duration::ZERO),
            ErrorKind::TaskNotFound => self.decode(Decoder::cancelled),
            _ if is_passing(error) && self.cancel_attempts < self.settings.retry.attempts => {
                self.cancel_attempts += 1;
                self.cancel = Cancel::Requested;
                self.plan_cancel();
            }
            // No watcher remains, and the agent cannot be stopped.
            _ => self.decode(Decoder::cancelled),
        }
    }

    /// Handles a task that still works, reported by a response instead of a stream: subscribes to it, or polls it.
    ///
    /// Polling stops after `patience` reads without new content. The task may be `working` without end, because its
    /// executor has failed or runs elsewhere; `Retry` has the limits with their reasons.
    pub(super) fn handle_active(&mut self, purpose: Purpose) {
        match purpose {
            // The stream, if there is one, reports the end.
            Purpose::Cancel => {}
            Purpose::Get if self.can_subscribe => self.subscribe_again(),
            // The response to a blocking call is the end of the turn.
            Purpose::Send if self.decoder.asks_again() => self.decode(Decoder::handle_end),
            Purpose::Send | Purpose::Subscribe | Purpose::Get => {
                self.polls += 1;
                // The answered interrupt is still the status: the agent has not read the reply yet, or asks again.
                let asks_again = self.decoder.asks_again();
                if asks_again {
                    self.patience = self.patience.min(self.settings.retry.reported_polls);
                }
                if self.polls > self.patience {
                    return if asks_again { self.decode(Decoder::handle_end) } else { self.give_up() };
                }
                self.plan_get(self.settings.retry.poll_interval);
            }
        }
    }
}

/// Returns `true` if the same request may succeed later. An unknown task counts: some servers report it while they
/// start a task, or for one that is executed elsewhere. Callers that cannot wait for that exclude it.
pub(super) fn is_passing(error: &WireError) -> bool {
    match error.kind() {
        ErrorKind::Internal
        | ErrorKind::InvalidAgentResponse
        | ErrorKind::Unavailable
        | ErrorKind::TaskNotFound
        | ErrorKind::Other => true,
        ErrorKind::TaskNotCancelable
        | ErrorKind::PushNotificationNotSupported
        | ErrorKind::UnsupportedOperation
        | ErrorKind::ContentTypeNotSupported
        | ErrorKind::ExtendedCardNotConfigured
        | ErrorKind::ExtensionSupportRequired
        | ErrorKind::VersionNotSupported
        | ErrorKind::Parse
        | ErrorKind::InvalidRequest
        | ErrorKind::MethodNotFound
        | ErrorKind::InvalidParams
        | ErrorKind::Unauthorized => false,
    }
}
