//! What watchers and owners of a run wait for.

use aqueduct_core::RunId;
use tokio::sync::watch;

use crate::error::LogError;
use crate::log::Lease;

/// How far a run is. Numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) head: u64,
    pub(crate) closed: bool,
    pub(crate) controls: usize,
    pub(crate) epoch: u64,
}

/// Wakes whoever waits for a run.
#[derive(Debug)]
pub(crate) struct Signal(watch::Sender<Progress>);

impl Signal {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(watch::Sender::new(progress))
    }

    /// Tells how far the run is. What arrives late tells nothing new, and changes nothing.
    pub(crate) fn tell(&self, now: Progress) {
        self.0.send_if_modified(|known| {
            let merged = Progress {
                head: known.head.max(now.head),
                closed: known.closed || now.closed,
                controls: known.controls.max(now.controls),
                epoch: known.epoch.max(now.epoch),
            };
            let is_news = *known != merged;
            *known = merged;
            is_news
        });
    }

    /// Waits for events above `after`, or the end of the run.
    pub(crate) async fn changed(&self, run: &RunId, after: u64) -> Result<(), LogError> {
        self.wait(run, |now| now.head > after || now.closed).await
    }

    /// Waits for more than `seen` messages, or the end of the lease.
    pub(crate) async fn called(&self, lease: &Lease, seen: usize) -> Result<(), LogError> {
        self.wait(&lease.run_id, |now| now.closed || now.epoch != lease.epoch || now.controls > seen).await
    }

    /// The sender lives in this signal, so waiting does not fail.
    async fn wait(&self, run: &RunId, ready: impl FnMut(&Progress) -> bool) -> Result<(), LogError> {
        let mut progress = self.0.subscribe();
        progress.wait_for(ready).await.map(drop).map_err(|_| LogError::NotFound(run.clone()))
    }
}
