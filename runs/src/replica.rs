//! The duties of a replica on a shared log: it renews its leases, and notifies owners elsewhere of the watchers here.
//!
//! ```text
//! driver ── hold ──► leases ── every third of a lease ──► RunLog::renew ── lost? ──► the driver stops writing
//! watcher of a run elsewhere ── watch ──► RunLog::watched ──► its owner does not treat the run as unwatched
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_core::service::{EventStream, ServiceError};
use aqueduct_core::{CancelToken, RunId, ThreadId, Timestamp};
use aqueduct_runlog::{Lease, LogError, LogScope, RunMeta, RunQuery};
use futures_util::StreamExt as _;

use crate::runs::{Runs, refuse};

/// Renewals within one lease: two may fail before it lapses.
const RENEWALS: u32 = 3;

/// Heartbeats within the silence after which a replica counts as dead.
const BEATS: u32 = 5;

/// The interval at which expired runs are deleted and ended runs are packed: memory of a peak is free half a minute after it.
const EXPIRY: Duration = Duration::from_secs(30);

/// Notifications of owners that are sent concurrently.
const TOLD_AT_ONCE: usize = 64;

/// The leases of this replica, and the remote runs that are watched here.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    pub(crate) held: Mutex<BTreeMap<RunId, (Lease, CancelToken)>>,
    /// The number of watchers here of each run that another replica drives.
    watched: Mutex<BTreeMap<RunId, usize>>,
}

/// Locks a mutex. A panic of another holder leaves the maps of a replica valid.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Replica {
    /// Returns all held leases.
    fn leases(&self) -> Vec<Lease> {
        locked(&self.held).values().map(|(lease, _)| lease.clone()).collect()
    }

    /// Returns the number of held leases.
    pub(crate) fn count(&self) -> usize {
        locked(&self.held).len()
    }

    /// Returns `true` if this replica drives the run.
    pub(crate) fn holds(&self, run: &RunId) -> bool {
        locked(&self.held).contains_key(run)
    }

    /// Returns the remote runs that are watched here.
    fn watched(&self) -> Vec<RunId> {
        locked(&self.watched).keys().cloned().collect()
    }
}

/// A lease that is renewed until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldLease {
    runs: Runs,
    lease: Lease,
    /// Cancelled when the lease is lost.
    pub(crate) lost: CancelToken,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let mut held = locked(&self.runs.0.replica.held);
        // This replica may have taken the run over again in the meantime: that lease is still held.
        if held.get(&self.lease.run_id).is_some_and(|(lease, _)| *lease == self.lease) {
            held.remove(&self.lease.run_id);
        }
    }
}

/// Counts a watcher of a run that another replica drives, until it is dropped.
#[derive(Debug)]
struct RemoteWatch {
    runs: Runs,
    run: RunId,
}

impl Drop for RemoteWatch {
    fn drop(&mut self) {
        let mut watched = locked(&self.runs.0.replica.watched);
        if let Some(count) = watched.get_mut(&self.run) {
            *count -= 1;
            if *count == 0 {
                watched.remove(&self.run);
            }
        }
    }
}

impl Runs {
    /// Opens the run that `owner` addresses as `run` in the log, and returns its first lease. A refusal for an existing run
    /// contains that id, not the key in the log.
    pub(crate) async fn open_log(
        &self,
        owner: &str,
        agent: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<Lease, ServiceError> {
        let meta = RunMeta {
            run_id: RunMeta::key(owner, run),
            thread_id: thread.detached(),
            agent: agent.to_owned(),
            owner: owner.to_owned(),
            opened_at: self.opening_time(owner, thread).await,
        };
        let opened = self.run_log().open(meta, self.lease_until()).await;
        opened.map_err(|error| match error {
            LogError::Exists(_) => refuse(&LogError::Exists(run.clone())),
            error => refuse(&error),
        })
    }

    /// Returns the time at which a run of the thread is opened: now, or right after the thread's newest run if that was opened
    /// by a replica whose clock is ahead. The log lists the runs of a thread by this time.
    ///
    /// Clocks of replicas differ by less than a lease. A run from further ahead is of a clock that is wrong, which is not followed.
    async fn opening_time(&self, owner: &str, thread: &ThreadId) -> Timestamp {
        let (now, limit) = (self.now(), self.lease_until());
        if self.scope() != LogScope::Replicas {
            return now;
        }
        let query = RunQuery {
            thread_id: Some(thread.detached()),
            owner: Some(owner.to_owned()),
            newest_first: true,
            ..RunQuery::default()
        };
        // A log that cannot be read may still open the run.
        let newest = self.run_log().list(query, 1).await.unwrap_or_default().pop();
        let newest = newest.map(|run| run.meta.opened_at).filter(|newest| (now..limit).contains(newest));
        newest.map_or(now, |Timestamp(newest)| Timestamp(newest + 1))
    }

    /// Renews a lease until the returned guard is dropped.
    pub(crate) fn hold(&self, lease: &Lease) -> HeldLease {
        let lost = CancelToken::new();
        locked(&self.0.replica.held).insert(lease.run_id.clone(), (lease.clone(), lost.clone()));
        HeldLease { runs: self.clone(), lease: lease.clone(), lost }
    }

    /// Notifies the owner of a remote run that it is watched, until the returned guard is dropped.
    fn watch_remotely(&self, run: &RunId) -> RemoteWatch {
        *locked(&self.0.replica.watched).entry(run.clone()).or_default() += 1;
        let (runs, remote) = (self.clone(), run.clone());
        tokio::spawn(async move { runs.tell_watched(remote).await });
        RemoteWatch { runs: self.clone(), run: run.clone() }
    }

    /// Wraps the events of a remote run: while they are read, the owner is notified of the watcher.
    pub(crate) fn watched_remotely(&self, run: &RunId, events: EventStream) -> EventStream {
        let remote = self.watch_remotely(run);
        Box::pin(events.inspect(move |_| {
            // Captured by the closure, so that it lives as long as the stream.
            let _ = &remote;
        }))
    }

    /// Notifies the owner of a remote run of its watchers here.
    async fn tell_watched(&self, run: RunId) {
        if let Err(error) = self.run_log().watched(&run, self.lease_until()).await {
            tracing::debug!(run = run.as_str(), %error, "the owner of the run could not be notified of a watcher");
        }
    }

    /// Renews leases, takes over runs of lost replicas and deletes expired runs, in an endless loop. The host spawns it once
    /// per engine.
    pub async fn run_housekeeping(self) {
        let expire = async {
            loop {
                tokio::time::sleep(EXPIRY).await;
                self.expire().await;
            }
        };
        let watch_over = futures_util::future::join(self.beat(), self.probe_log());
        let leases = futures_util::future::join3(self.keep_leases(), self.sweep(), expire);
        let _ = futures_util::future::join(leases, watch_over).await;
    }

    /// Sends heartbeats and releases the leases of silent replicas, in an endless loop.
    async fn beat(&self) {
        let silence = self.setup().settings.silence;
        let mut pace = tokio::time::interval(silence / BEATS);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            match self.run_log().beat(silence).await {
                Ok(0) => {}
                Ok(runs) => tracing::warn!(runs, ?silence, "leases of a silent replica were released"),
                Err(error) => tracing::debug!(%error, "no sign of life could be given"),
            }
        }
    }

    /// Renews leases and notifies owners of watchers, in an endless loop. The two are independent: a late renewal loses a lease.
    pub(crate) async fn keep_leases(&self) {
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
                let watched = futures_util::stream::iter(self.0.replica.watched());
                watched.for_each_concurrent(TOLD_AT_ONCE, |run| self.tell_watched(run)).await;
            }
        };
        let ((), ()) = futures_util::future::join(renew, tell).await;
    }

    /// Returns the interval at which leases are renewed and owners are notified.
    fn pace(&self) -> tokio::time::Interval {
        let mut pace = tokio::time::interval(self.setup().settings.lease / RENEWALS);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        pace
    }

    /// Renews all leases in one call, and cancels the drivers of the lost ones.
    async fn renew_leases(&self) {
        let leases = self.0.replica.leases();
        if leases.is_empty() {
            return;
        }
        match self.run_log().renew(leases, self.lease_until()).await {
            Ok(lost) => {
                for lease in lost {
                    let held = locked(&self.0.replica.held).get(&lease.run_id).cloned();
                    // A run that ends during its renewal has not lost its lease.
                    if let Some((_, lost)) = held.filter(|(held, _)| *held == lease) {
                        lost.cancel();
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "leases could not be renewed"),
        }
    }
}
