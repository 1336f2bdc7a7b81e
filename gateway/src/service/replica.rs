//! What this gateway owes to those that share its log: its leases are renewed while it lives, and owners elsewhere are
//! told of watchers here.
//!
//! ```text
//! driver ── hold ──► leases ── every third of a lease ──► RunLog::renew ── lost? ──► the driver stops writing
//! watcher of a run elsewhere ── watch ──► RunLog::watched ──► its owner does not take it for left
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::CancelToken;
use aqueduct_core::RunId;
use aqueduct_core::service::EventStream;
use aqueduct_runlog::Lease;
use futures_util::StreamExt as _;

use super::Gateway;

/// Renewals within one lease: two may fail before it lapses.
const RENEWALS: u32 = 3;

/// Runs whose owners are told at once that they are watched.
const TOLD_AT_ONCE: usize = 64;

/// The leases and the watchers of this gateway.
#[derive(Debug, Default)]
pub(super) struct Replica {
    held: Mutex<HashMap<RunId, (Lease, CancelToken)>>,
    /// Runs of other gateways that are watched here, and by how many.
    watched: Mutex<HashMap<RunId, usize>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Replica {
    fn leases(&self) -> Vec<Lease> {
        locked(&self.held).values().map(|(lease, _)| lease.clone()).collect()
    }

    /// True if a run is driven here.
    pub(super) fn holds(&self, run: &RunId) -> bool {
        locked(&self.held).contains_key(run)
    }

    fn watched(&self) -> Vec<RunId> {
        locked(&self.watched).keys().cloned().collect()
    }
}

/// A lease that is renewed until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldLease {
    gateway: Arc<Gateway>,
    run: RunId,
    /// Turned when the lease is lost.
    pub(super) lost: CancelToken,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        locked(&self.gateway.replica.held).remove(&self.run);
    }
}

/// A watcher of a run that is driven elsewhere.
#[derive(Debug)]
struct FarWatch {
    gateway: Arc<Gateway>,
    run: RunId,
}

impl Drop for FarWatch {
    fn drop(&mut self) {
        let mut watched = locked(&self.gateway.replica.watched);
        if let Some(count) = watched.get_mut(&self.run) {
            *count -= 1;
            if *count == 0 {
                watched.remove(&self.run);
            }
        }
    }
}

impl Gateway {
    /// Renews a lease from now on.
    pub(super) fn hold(self: &Arc<Self>, lease: &Lease) -> HeldLease {
        let (run, lost) = (lease.run_id.clone(), CancelToken::new());
        locked(&self.replica.held).insert(run.clone(), (lease.clone(), lost.clone()));
        HeldLease { gateway: Arc::clone(self), run, lost }
    }

    /// Tells the owner of a run elsewhere that it is watched, from now on.
    fn watch_far(self: &Arc<Self>, run: &RunId) -> FarWatch {
        *locked(&self.replica.watched).entry(run.clone()).or_default() += 1;
        let (gateway, far) = (Arc::clone(self), run.clone());
        tokio::spawn(async move { gateway.tell_watched(far).await });
        FarWatch { gateway: Arc::clone(self), run: run.clone() }
    }

    /// The events of a run that is driven elsewhere; while they are read, its owner knows of it.
    pub(super) fn watched_far(self: &Arc<Self>, run: &RunId, events: EventStream) -> EventStream {
        let far = self.watch_far(run);
        Box::pin(events.inspect(move |_| {
            // Lives as long as the stream.
            let _ = &far;
        }))
    }

    async fn tell_watched(&self, run: RunId) {
        if let Err(error) = self.log.watched(&run, self.lease_until()).await {
            tracing::debug!(run = run.as_str(), %error, "its owner could not be told that it is watched");
        }
    }

    /// Renews leases and tells of watchers, for ever. Neither waits for the other: a lease that is renewed late is lost.
    pub(crate) async fn keep_leases(self: Arc<Self>) {
        let renew = async {
            let mut pace = self.pace();
            loop {
                pace.tick().await;
                self.renew_leases().await;
            }
        };
        let tell = async {
            let mut pace = self.pace();
            loop {
                pace.tick().await;
                let watched = futures_util::stream::iter(self.replica.watched());
                watched.for_each_concurrent(TOLD_AT_ONCE, |run| self.tell_watched(run)).await;
            }
        };
        let ((), ()) = futures_util::future::join(renew, tell).await;
    }

    fn pace(&self) -> tokio::time::Interval {
        let mut pace = tokio::time::interval(self.config().runs.lease / RENEWALS);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        pace
    }

    async fn renew_leases(&self) {
        let leases = self.replica.leases();
        if leases.is_empty() {
            return;
        }
        match self.log.renew(leases, self.lease_until()).await {
            Ok(lost) => {
                for lease in lost {
                    let held = locked(&self.replica.held).get(&lease.run_id).cloned();
                    // A run that ends while it is renewed is no loss: its driver is not held up by this.
                    if let Some((_, lost)) = held.filter(|(held, _)| *held == lease) {
                        lost.cancel();
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "leases could not be renewed"),
        }
    }
}
