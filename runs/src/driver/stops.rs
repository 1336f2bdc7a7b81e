//! The reasons for which a driver stops before its source ends: a cancel, the deadline, a run without watchers, a lost lease or
//! log, the shutdown of the engine.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{RunFailure, Timestamp};
use aqueduct_runlog::{Control, LogError, LogScope};
use tokio::time::Instant;

use super::{HANDED_OVER, LOG_LOST, LOG_PAUSE, Machine, Resumable, TAKEN_OVER, elapsed};
use crate::leaving::Stage;
use crate::settings::OnDisconnect;
use crate::takeover::GATEWAY_LOST;

/// The time that a cancelled run waits for its agent to report the end. The frontend sees the end within a second.
const CANCEL_WAIT: Duration = Duration::from_millis(800);

/// The code of a run that exceeded its time limit.
const RUN_TIMEOUT: &str = "run_timeout";

impl<'d> Machine<'d> {
    /// Cancels the agent and its sub-agents, and waits for the end of the stream at most [`CANCEL_WAIT`].
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.deadline = Instant::now() + CANCEL_WAIT;
        // The token of the handle cancels the sub-agents, that of the request the agent.
        self.drive.handle.cancel_token().cancel();
        self.drive.request.cancel.cancel();
    }

    /// Waits for control messages from other replicas.
    pub(super) fn messages(&self) -> BoxFuture<'d, Result<Vec<Control>, LogError>> {
        self.drive.runs.run_log().controls(&self.drive.lease, self.messages_seen)
    }

    /// Handles control messages: a cancel, or a message for the extension. An error means that the lease is lost.
    pub(super) async fn handle_messages(&mut self, messages: Result<Vec<Control>, LogError>) {
        let run = self.drive.lease.run_id.as_str();
        match messages {
            Ok(messages) => {
                self.messages_seen += messages.len();
                let is_cancelled = messages.contains(&Control::Cancel);
                for message in messages {
                    if let (Control::Message(message), Some(extension)) = (message, &self.drive.extension) {
                        Arc::clone(extension).handle_message(message);
                    }
                }
                if is_cancelled && !self.is_stopping {
                    tracing::info!(run, "the run is cancelled through another replica");
                    self.stop();
                }
            }
            Err(error) if error.is_temporary() => tokio::time::sleep(LOG_PAUSE).await,
            Err(error) => {
                tracing::warn!(run, %error, "the lease of the run is lost");
                self.handle_log_error(&error);
            }
        }
    }

    /// Stops driving a run that another replica has taken over, without cancelling the agent's work.
    pub(super) fn stop_driving(&mut self) {
        self.stop_writing(TAKEN_OVER);
    }

    /// Stops the driver without ending the run in the log: no further event is appended.
    pub(super) fn stop_writing(&mut self, outcome: &str) {
        outcome.clone_into(&mut self.outcome);
        self.lost.cancel();
        // Ends the loop of the driver. The failure is never appended, because `lost` is cancelled.
        self.context.handle_failure(RunFailure::new(TAKEN_OVER, "the run is not driven here any more"));
    }

    /// Handles an error after which this driver appends no more events. A lost lease decides over the error: a call that failed
    /// while the lease was lost says nothing about the run, which another replica drives.
    pub(super) fn handle_log_error(&mut self, error: &LogError) {
        match error {
            LogError::Fenced { .. } | LogError::Closed(_) => self.stop_driving(),
            _ if self.lost.is_cancelled() => self.stop_driving(),
            _ => self.stop_writing(LOG_LOST),
        }
    }

    /// Returns the shutdown stage of the engine if the run must follow it.
    pub(super) fn shutdown_stage(&self) -> Option<Stage> {
        let stage = self.drive.runs.0.leaving.stage();
        (stage != Stage::Serving && !self.is_stopping && !self.context.is_ended()).then_some(stage)
    }

    /// Hands the run over or ends it, according to the shutdown stage of the engine.
    pub(super) async fn handle_stage(&mut self, stage: Stage) {
        let is_last = stage == Stage::LastCall;
        let can_hand_over = match self.resumable {
            Resumable::No => false,
            Resumable::IfOwnerEnds => is_last,
            Resumable::Yes => is_last || !self.drive.handle.has_lane_senders(),
        };
        if can_hand_over && self.drive.runs.scope() > LogScope::Process {
            self.stop_writing(HANDED_OVER);
        } else if is_last {
            self.drive.handle.cancel_token().cancel();
            let message = "the gateway was stopped before the run ended, and the run cannot go on elsewhere: run it again";
            self.context.handle_failure(RunFailure::new(GATEWAY_LOST, message));
            self.append().await;
        }
    }

    /// Handles a run without watchers here. Watchers at another replica count until their last notification lapses, and for the
    /// grace after it, as watchers here do. A log that cannot answer is asked again.
    pub(super) async fn handle_unwatched(&mut self) {
        let run = &self.drive.lease.run_id;
        let watched_until = match self.drive.runs.run_log().state(run).await {
            Ok(state) => state.watched_until,
            Err(error) if error.is_temporary() => {
                self.unwatched = Some(Instant::now() + LOG_PAUSE);
                return;
            }
            Err(_) => Timestamp(i64::MIN),
        };
        let options = self.drive.agent.options();
        let grace = match options.on_disconnect {
            OnDisconnect::Cancel => Duration::ZERO,
            OnDisconnect::Continue => options.grace,
        };
        let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let left = elapsed(self.drive.runs.now(), Timestamp(watched_until.0.saturating_add(grace)));
        if left.is_zero() {
            tracing::info!(run = run.as_str(), "the run has no watchers any more");
            self.stop();
        } else {
            self.unwatched = Some(Instant::now() + left);
        }
    }

    /// Handles the deadline: fails a run that exceeded its time limit, and ends a cancelled one.
    pub(super) fn handle_deadline(&mut self) {
        if self.is_stopping {
            return self.context.handle_cancel();
        }
        self.drive.handle.cancel_token().cancel();
        let limit = self.drive.agent.options().run_timeout;
        let message =
            format!("the run took longer than {limit:?} (`timeouts.run`): raise the limit, or ask for less");
        self.context.handle_failure(RunFailure::new(RUN_TIMEOUT, message));
    }

    /// Returns `true` if the caller that started the run has already disconnected. A published run starts without watchers.
    pub(super) fn is_caller_gone(&self) -> bool {
        !self.drive.agent.is_published() && self.is_unwatched()
    }

    /// Returns `true` if the run has no watchers. A run with a record always counts as watched: the surface that stored the
    /// record uses it to find the run again.
    pub(super) fn is_unwatched(&self) -> bool {
        self.drive.request.input.record.is_none() && self.drive.handle.is_unwatched()
    }

    /// Starts or stops the countdown after which a run without watchers is cancelled.
    pub(super) fn handle_watchers(&mut self) {
        let options = self.drive.agent.options();
        let is_unwatched = self.is_unwatched();
        self.unwatched = is_unwatched.then(|| match options.on_disconnect {
            OnDisconnect::Cancel if self.is_takeover => {
                Instant::now() + self.drive.runs.setup().settings.lease
            }
            OnDisconnect::Cancel => Instant::now(),
            OnDisconnect::Continue => Instant::now() + options.grace,
        });
        self.is_takeover &= is_unwatched;
    }
}
