//! [`SideRun`]: a run in the shared log through which a replica sends events to the owner of another run.
//!
//! Only replicas read a side run: it belongs to no principal of a caller. Its lease is renewed like any other, so other
//! replicas end it if this replica dies.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, RunId, RunInfo, SourceEvent, StreamContext};
use aqueduct_runlog::{Control, Lease, LogError, RunLog, RunMeta};

use crate::replica::HeldLease;
use crate::runs::Runs;

/// The owner of side runs. No principal has this stored form.
const OWNER: &str = "aqueduct/side";

/// The pause before an unavailable log is retried.
const PAUSE: Duration = Duration::from_millis(500);

/// A run that belongs to another run.
#[derive(Debug)]
pub struct SideRun {
    runs: Runs,
    /// The run that this side run belongs to.
    other: RunId,
    lease: Lease,
    _held: HeldLease,
    context: StreamContext,
}

impl SideRun {
    /// Opens a side run of `beside`.
    ///
    /// # Errors
    ///
    /// Returns an error if the log is unavailable.
    pub async fn open(runs: &Runs, beside: &RunId) -> Result<Self, LogError> {
        let bits = runs.unique_bits().map_err(|error| LogError::Unavailable(error.to_string()))?;
        let run_id = RunId::from(format!("aqueduct-side-{bits:032x}"));
        let meta = RunMeta {
            run_id: run_id.clone(),
            thread_id: beside.as_bytes().clone().into(),
            agent: String::new(),
            owner: OWNER.to_owned(),
            opened_at: runs.now(),
        };
        let info = RunInfo::new(beside.as_bytes().clone(), run_id.as_bytes().clone());
        let lease = runs.run_log().open(meta, runs.lease_until()).await?;
        let held = runs.hold(&lease);
        let (runs, other) = (runs.clone(), beside.clone());
        Ok(Self { runs, other, lease, _held: held, context: StreamContext::new(info) })
    }

    /// Returns the id of the side run.
    pub fn id(&self) -> &RunId {
        &self.lease.run_id
    }

    /// Appends an event to the side run.
    ///
    /// # Errors
    ///
    /// Returns an error if the log is unavailable or the lease is lost.
    pub async fn append(&mut self, event: SourceEvent) -> Result<(), LogError> {
        let invalid = |error: aqueduct_core::Error| LogError::Unavailable(error.to_string());
        self.context.handle_event(event).map_err(invalid)?;
        let ready: Vec<BlockEvent> = std::iter::from_fn(|| self.context.poll_event()).collect();
        self.runs.run_log().append(&self.lease, ready, self.runs.now()).await.map_err(LogError::from)?;
        Ok(())
    }

    /// Waits until the run that this side run belongs to has ended.
    pub async fn other_ended(&self) {
        while let Err(error) = self.runs.run_log().changed(&self.other, u64::MAX).await {
            if !error.is_temporary() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns a receiver of control messages to the side run.
    pub fn ear(&self) -> SideEar {
        SideEar { log: Arc::clone(self.runs.run_log()), lease: self.lease.clone(), received: 0 }
    }
}

/// Receives control messages to a side run.
pub struct SideEar {
    log: Arc<dyn RunLog>,
    lease: Lease,
    received: usize,
}

impl SideEar {
    /// Returns the next messages. Returns `None` once the side run has ended.
    pub async fn hear(&mut self) -> Option<Vec<Control>> {
        loop {
            match self.log.controls(&self.lease, self.received).await {
                Ok(messages) => {
                    self.received += messages.len();
                    return Some(messages);
                }
                Err(error) if error.is_temporary() => tokio::time::sleep(PAUSE).await,
                Err(_) => return None,
            }
        }
    }
}

aqueduct_core::debug_fields!(SideEar { run: lease.run_id });
