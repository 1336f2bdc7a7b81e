//! What a run puts into its log: events, and where its agent's work is found.

use std::sync::Arc;

use aqueduct_core::{BlockEvent, Checkpoint, RunFailure};
use aqueduct_runlog::{LogError, Note, Refused};
use tokio::time::Instant;

use super::{LOG_PAUSE, Machine};
use crate::runs::now;

impl Machine<'_> {
    /// Puts what is ready into the log. A log that takes no more ends the run; one that is lost ends the driver.
    pub(super) async fn append(&mut self) {
        if let Some(checkpoint) = self.checkpoint.take() {
            self.keep_checkpoint(checkpoint).await;
        }
        let ready: Vec<BlockEvent> = std::iter::from_fn(|| self.context.poll_event()).collect();
        if ready.is_empty() || self.lost.is_cancelled() {
            return;
        }
        self.note_end(&ready);
        self.drive.runs.metrics().count_events(ready.len());
        let mut result = self.log(ready).await;
        if let Err(Refused { error, events }) = &mut result
            && matches!(**error, LogError::RunTooLong { .. })
        {
            // A batch that ends the run is always taken: what was refused goes with it, or ends would lack their starts.
            self.context.handle_failure(RunFailure::new(RunFailure::LIMIT_EXCEEDED, error.to_string()));
            let mut ready = std::mem::take(events);
            ready.extend(std::iter::from_fn(|| self.context.poll_event()));
            self.note_end(&ready);
            result = self.log(ready).await;
        }
        if let Err(error) = result {
            tracing::error!(run = self.drive.lease.run_id.as_str(), %error, "the run log failed");
            self.leave();
        }
    }

    /// Before the events that follow it: a run with events and without its checkpoint cannot go on elsewhere.
    async fn keep_checkpoint(&self, checkpoint: Checkpoint) {
        if self.lost.is_cancelled() {
            return;
        }
        let (log, lease) = (self.drive.runs.run_log(), &self.drive.lease);
        let note = Note::Checkpoint(Arc::new(checkpoint.0));
        if let Err(error) = log.annotate(lease, note).await {
            tracing::warn!(run = lease.run_id.as_str(), %error, "the run cannot go on at another replica");
        }
    }

    /// Appends; a log that cannot be used is tried again, with the same batch, while the lease may be ours.
    async fn log(&self, mut events: Vec<BlockEvent>) -> Result<u64, Refused> {
        let (log, lease) = (self.drive.runs.run_log(), &self.drive.lease);
        loop {
            let refused = match log.append(lease, events, now()).await {
                Ok(head) => return Ok(head),
                Err(refused) => refused,
            };
            if !refused.error.is_temporary() || self.lost.is_cancelled() || Instant::now() > self.deadline {
                return Err(refused);
            }
            tracing::warn!(run = lease.run_id.as_str(), error = %refused.error, "the run log is tried again");
            tokio::time::sleep(LOG_PAUSE).await;
            events = refused.events;
        }
    }

    fn note_end(&mut self, events: &[BlockEvent]) {
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
