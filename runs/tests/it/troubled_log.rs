//! [`Troubled`]: a log in memory whose calls fail or take time, as a test decides.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::{
    Control, Lease, LogError, MemoryLog, Note, Page, Refused, RunLog, RunMeta, RunQuery, RunState,
};
use serde_json::Value;

/// A change of a page.
pub(crate) type ChangePage = fn(Page) -> Page;

/// A log in memory with switches by which calls fail, take time, or return other pages than it holds.
#[derive(Default)]
pub(crate) struct Troubled {
    pub(crate) log: MemoryLog,
    pub(crate) refuses_appends: AtomicBool,
    pub(crate) refuses_states: AtomicBool,
    pub(crate) refuses_notes: AtomicBool,
    /// The log has lost all runs.
    pub(crate) is_empty: AtomicBool,
    /// Sets `refuses_states` with the next claim.
    pub(crate) refuses_states_after_claim: AtomicBool,
    /// Changes a page before it is returned.
    pub(crate) page: Mutex<Option<ChangePage>>,
    pub(crate) refuses_sweeps: AtomicBool,
    /// The time that a sweep takes, in milliseconds.
    pub(crate) sweep_millis: AtomicU64,
    /// A lease that every renewal reports as lost.
    pub(crate) lost: Mutex<Option<Lease>>,
    /// The silence of each heartbeat.
    pub(crate) beats: Mutex<Vec<Duration>>,
}

fn refusal() -> LogError {
    LogError::Unavailable("the server does not answer".to_owned())
}

impl RunLog for Troubled {
    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, Refused>> {
        if self.refuses_appends.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Refused::new(refusal(), events))));
        }
        self.log.append(lease, events, now)
    }

    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>> {
        if self.refuses_states.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(refusal())));
        }
        if self.is_empty.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(LogError::NotFound(run.clone()))));
        }
        self.log.state(run)
    }

    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.log.open(meta, until)
    }

    fn take_over(
        &self,
        run: &RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.log.take_over(run, now, until)
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> BoxFuture<'_, Result<Vec<Lease>, LogError>> {
        if self.is_empty.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Ok(leases)));
        }
        let lost = self.lost.lock().unwrap().clone();
        Box::pin(async move {
            let mut all = self.log.renew(leases, until).await?;
            all.extend(lost);
            Ok(all)
        })
    }

    fn beat(&self, silence: Duration) -> BoxFuture<'_, Result<usize, LogError>> {
        self.beats.lock().unwrap().push(silence);
        Box::pin(std::future::ready(Ok(0)))
    }

    fn annotate(&self, lease: &Lease, note: Note) -> BoxFuture<'_, Result<(), LogError>> {
        if self.refuses_notes.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(refusal())));
        }
        self.log.annotate(lease, note)
    }

    fn claim(
        &self,
        key: String,
        value: String,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<String, LogError>> {
        if self.refuses_states_after_claim.load(Ordering::SeqCst) {
            self.refuses_states.store(true, Ordering::SeqCst);
        }
        self.log.claim(key, value, now, until)
    }

    fn input(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Arc<Value>>, LogError>> {
        self.log.input(run)
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>> {
        let read = self.log.read(run, after, max);
        let change = self.page.lock().unwrap().unwrap_or(std::convert::identity);
        Box::pin(async move { read.await.map(change) })
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.changed(run, after)
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.watched(run, until)
    }

    fn list(&self, query: RunQuery, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        self.log.list(query, max)
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        Box::pin(async move {
            let takes = self.sweep_millis.load(Ordering::SeqCst);
            if takes > 0 {
                tokio::time::sleep(Duration::from_millis(takes)).await;
            }
            if self.refuses_sweeps.load(Ordering::SeqCst) {
                return Err(refusal());
            }
            self.log.lapsed(now, max).await
        })
    }

    fn control(&self, run: &RunId, message: Control) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.control(run, message)
    }

    /// Never: another replica that takes the run over is noticed by the renewal of the lease, as on a server whose
    /// subscriptions are late.
    fn controls(&self, _: &Lease, _: usize) -> BoxFuture<'_, Result<Vec<Control>, LogError>> {
        Box::pin(std::future::pending())
    }

    fn trim(&self, run: &RunId, earliest: u64) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.trim(run, earliest)
    }

    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>> {
        self.log.expire(before)
    }
}
