//! The writes of a run to its log: events and checkpoints.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, Checkpoint, RunFailure};
use aqueduct_runlog::{LogError, LogScope, Note, Refused, position_event};
use serde_json::Value;
use tokio::time::Instant;

use super::{LOG_PAUSE, Machine, Resumable};
use crate::extension::OF_EXTENSION;
use crate::publish::adopt::Publication;

/// Returns the value that the extension of a run stored in its checkpoint; null if there is none.
pub(crate) fn extension_value(checkpoint: &Checkpoint) -> Value {
    checkpoint.0.get(OF_EXTENSION).cloned().unwrap_or_default()
}

impl Machine<'_> {
    /// Appends the queued events. If the log refuses them for good, the run ends; if the log has lost the run, the driver ends.
    pub(super) async fn append(&mut self) {
        if let Some(checkpoint) = self.checkpoint.take() {
            Box::pin(self.keep_checkpoint(checkpoint)).await;
        }
        let mut ready: Vec<BlockEvent> = std::mem::take(&mut self.polled);
        ready.extend(std::iter::from_fn(|| self.context.poll_event()));
        if ready.is_empty() || self.lost.is_cancelled() {
            return;
        }
        self.record_outcome(&ready);
        self.drive.runs.metrics().count_events(ready.len());
        let begun_at = self.observe(&ready);
        let mut result = self.log(ready).await;
        if let (Some(extension), Some(begun_at)) = (&self.drive.extension, begun_at) {
            extension.handle_appended(begun_at.elapsed());
        }
        if let Err(Refused { error, events }) = &mut result
            && matches!(**error, LogError::RunTooLong { .. })
        {
            // A batch that ends the run is always accepted: the refused events go with it, or block ends would lack their starts.
            self.context.handle_failure(RunFailure::new(RunFailure::LIMIT_EXCEEDED, error.to_string()));
            let mut ready = std::mem::take(events);
            ready.extend(std::iter::from_fn(|| self.context.poll_event()));
            self.record_outcome(&ready);
            self.observe(&ready);
            result = self.log(ready).await;
        }
        if let Err(error) = result
            && !Box::pin(self.is_ended_here()).await
        {
            self.positions = 0;
            tracing::error!(run = self.drive.lease.run_id.as_str(), %error, "the run log failed");
            self.handle_log_error(&error.error);
        }
        if self.positions > 0 {
            self.drive.handle.add_stored(std::mem::take(&mut self.positions));
        }
    }

    /// Returns `true` if the log holds the end of the run under this lease: only the acknowledgement was lost.
    async fn is_ended_here(&self) -> bool {
        let lease = &self.drive.lease;
        self.context.is_ended()
            && self
                .drive
                .runs
                .run_log()
                .state(&lease.run_id)
                .await
                .is_ok_and(|state| state.closed_at.is_some() && state.epoch == lease.epoch)
    }

    /// Passes events to the extension of the run. Returns the current time if there is an extension.
    fn observe(&self, events: &[BlockEvent]) -> Option<Instant> {
        let extension = self.drive.extension.as_ref()?;
        extension.observe_events(events);
        Some(Instant::now())
    }

    /// Stores the checkpoint before the events that follow it: a run with events and without checkpoint cannot be resumed.
    async fn keep_checkpoint(&mut self, mut checkpoint: Checkpoint) {
        if self.lost.is_cancelled() {
            return;
        }
        let lease = &self.drive.lease;
        let value = self.drive.extension.as_ref().and_then(|extension| extension.checkpoint());
        if let (Some(value), Some(object)) = (value, checkpoint.0.as_object_mut()) {
            object.insert(OF_EXTENSION.to_owned(), value);
        }
        let agent = self.drive.agent.agent();
        let resumable = match agent {
            Some(agent) if agent.can_hand_over(&checkpoint) => Resumable::Yes,
            Some(agent) if agent.can_resume(&checkpoint) => Resumable::IfOwnerEnds,
            None if Publication::of(&checkpoint.0).is_some() => Resumable::Yes,
            _ => Resumable::No,
        };
        let note = Note::Checkpoint(Arc::new(checkpoint.0));
        match self.annotate(note).await {
            Ok(()) => self.resumable = resumable,
            Err(error) => {
                tracing::warn!(run = lease.run_id.as_str(), %error, "the run cannot go on at another replica");
                if matches!(error, LogError::Fenced { .. } | LogError::Closed(_)) {
                    // What the checkpoint announces must not be sent from here.
                    self.handle_log_error(&error);
                }
            }
        }
    }

    /// Queues the position of the source behind the events before it, for the same append; before the terminal event, which
    /// is the last of a run. A log that ends with this process has no use for positions.
    pub(super) fn keep_position(&mut self, position: Value) {
        if position.is_null() || self.drive.runs.scope() == LogScope::Process {
            return;
        }
        self.polled.extend(std::iter::from_fn(|| self.context.poll_event()));
        let is_last = self.polled.last().is_some_and(BlockEvent::is_terminal);
        if self.context.is_ended() && !is_last {
            return;
        }
        let at = self.polled.len() - usize::from(is_last);
        let event = position_event(Arc::clone(self.context.root_lane()), position);
        self.polled.insert(at, event);
        self.positions += 1;
    }

    /// Stores a note beside the run. Retries while the log is unavailable and the lease may still be held.
    async fn annotate(&self, note: Note) -> Result<(), LogError> {
        let (log, lease, patience) = (self.drive.runs.run_log(), &self.drive.lease, self.patience());
        loop {
            let error = match log.annotate(lease, note.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if !error.is_temporary() || self.lost.is_cancelled() || Instant::now() > patience {
                return Err(error);
            }
            tracing::warn!(run = lease.run_id.as_str(), %error, "the run log is tried again");
            tokio::time::sleep(LOG_PAUSE).await;
        }
    }

    /// Returns until when an unavailable log is retried. The end of a run is appended at its deadline, so at least one
    /// lease is added.
    fn patience(&self) -> Instant {
        self.deadline.max(Instant::now() + self.drive.runs.setup().settings.lease)
    }

    /// Appends events. Retries the same batch while the log is unavailable and the lease may still be held.
    async fn log(&self, mut events: Vec<BlockEvent>) -> Result<u64, Refused> {
        let (log, lease) = (self.drive.runs.run_log(), &self.drive.lease);
        // Every retry has the same time: an engine recognises a repeated final batch by it.
        let now = self.drive.runs.now();
        let mut patience = None;
        loop {
            let refused = match log.append(lease, events, now).await {
                Ok(head) => return Ok(head),
                Err(refused) => refused,
            };
            let patience = *patience.get_or_insert_with(|| self.patience());
            if !refused.error.is_temporary() || self.lost.is_cancelled() || Instant::now() > patience {
                return Err(refused);
            }
            if refused.events.is_empty() {
                // The engine kept the batch, so it cannot be retried.
                let lost = LogError::Lost { run: lease.run_id.clone(), from: 0 };
                return Err(Refused::new(lost, Vec::new()));
            }
            tracing::warn!(run = lease.run_id.as_str(), error = %refused.error, "the run log is tried again");
            tokio::time::sleep(LOG_PAUSE).await;
            events = refused.events;
        }
    }

    /// Records the outcome of a terminal event, for metrics.
    fn record_outcome(&mut self, events: &[BlockEvent]) {
        match events.last() {
            Some(BlockEvent::RunFinished(end)) => self.outcome = format!("{:?}", end.outcome).to_lowercase(),
            Some(BlockEvent::RunFailed(end)) => {
                self.outcome = end.failure.code.to_string();
                let (code, reason) = (&*end.failure.code, &*end.failure.message);
                tracing::warn!(run = self.drive.lease.run_id.as_str(), code, reason, "run failed");
            }
            _ => {}
        }
    }
}
