//! Side runs: what this gateway has to say to the owner of another run goes through a run of its own in the shared log.
//!
//! Nobody sees a side run but gateways: its owner is none that a caller can be. Its lease is renewed like any other, so
//! it is ended by others if this gateway dies.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, RunId, RunInfo, SourceEvent, StreamContext};
use aqueduct_runlog::{Control, Lease, LogError, RunLog, RunMeta};

use super::replica::HeldLease;
use super::{Gateway, now};

/// Whose side runs are. Callers are known by the name of an agent or of the gateway and a number.
const OWNER: &str = "aqueduct";

/// The pause before a log that cannot be used is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// A run beside another one.
#[derive(Debug)]
pub(crate) struct SideRun {
    gateway: Arc<Gateway>,
    /// The run that it is beside.
    other: RunId,
    lease: Lease,
    _held: HeldLease,
    context: StreamContext,
}

impl SideRun {
    /// Opens one beside that run.
    pub(crate) async fn open(gateway: &Arc<Gateway>, beside: &RunId) -> Result<Self, LogError> {
        let mut word = [0; 16];
        getrandom::fill(&mut word).map_err(|error| LogError::Unavailable(error.to_string()))?;
        let run_id = RunId::from(format!("{OWNER}-side-{:032x}", u128::from_ne_bytes(word)));
        let meta = RunMeta {
            run_id: run_id.clone(),
            thread_id: beside.as_bytes().clone().into(),
            agent: String::new(),
            owner: OWNER.to_owned(),
            opened_at: now(),
        };
        let info = RunInfo::new(beside.as_bytes().clone(), run_id.as_bytes().clone());
        let lease = gateway.log.open(meta, gateway.lease_until()).await?;
        let held = gateway.hold(&lease);
        let (gateway, other) = (Arc::clone(gateway), beside.clone());
        Ok(Self { gateway, other, lease, _held: held, context: StreamContext::new(info) })
    }

    /// Its id.
    pub(crate) fn id(&self) -> &RunId {
        &self.lease.run_id
    }

    /// Appends something.
    pub(crate) async fn say(&mut self, event: SourceEvent) -> Result<(), LogError> {
        let invalid = |error: aqueduct_core::StreamError| LogError::Unavailable(error.to_string());
        self.context.handle_event(event).map_err(invalid)?;
        let ready: Vec<BlockEvent> = std::iter::from_fn(|| self.context.poll_event()).collect();
        self.gateway.log.append(&self.lease, ready, now()).await.map_err(LogError::from)?;
        Ok(())
    }

    /// Waits until the run that it is beside has ended.
    pub(crate) async fn other_ended(&self) {
        while let Err(error) = self.gateway.log.changed(&self.other, u64::MAX).await {
            if !error.is_temporary() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Hears what is said to it.
    pub(crate) fn ear(&self) -> SideEar {
        SideEar { log: Arc::clone(&self.gateway.log), lease: self.lease.clone(), heard: 0 }
    }
}

/// Hears what is said to a side run.
pub(crate) struct SideEar {
    log: Arc<dyn RunLog>,
    lease: Lease,
    heard: usize,
}

impl SideEar {
    /// The next messages; none once the run is over.
    pub(crate) async fn hear(&mut self) -> Option<Vec<Control>> {
        loop {
            match self.log.controls(&self.lease, self.heard).await {
                Ok(messages) => {
                    self.heard += messages.len();
                    return Some(messages);
                }
                Err(error) if error.is_temporary() => tokio::time::sleep(PAUSE).await,
                Err(_) => return None,
            }
        }
    }
}
