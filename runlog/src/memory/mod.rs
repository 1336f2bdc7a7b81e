//! [`MemoryLog`]: the default engine: in memory, bounded, lost with the process.
//!
//! Deltas are copied from the buffers they were read from into shared pages (`arena.rs`): a delta that stayed a slice would
//! keep its whole read buffer alive, which is ten times as large. All other parts of events are stored unchanged.
//!
//! Locks are held while references are copied, never across an await.

mod arena;
mod relations;
mod run;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use serde_json::Value;

use crate::claims::Claims;
use crate::error::{LogError, Refused};
use crate::limits::{LogLimits, count};
use crate::log::{Control, Lease, Note, Page, RunLog, RunMeta, RunQuery, RunState};
use relations::Relations;
use run::Run;

/// A run log in memory.
///
/// # Examples
///
/// ```
/// use aqueduct_runlog::{LogLimits, MemoryLog};
///
/// let log = MemoryLog::new(LogLimits::default());
/// # drop(log);
/// ```
#[derive(Debug, Default)]
pub struct MemoryLog {
    limits: LogLimits,
    runs: Mutex<Runs>,
    /// Bytes of all runs. Outside the lock, because it changes with every append.
    bytes: AtomicU64,
    relations: Relations,
    claims: Claims,
}

/// All runs.
#[derive(Debug, Default)]
struct Runs {
    all: HashMap<RunId, Arc<Run>>,
    /// Ended runs in the order of their ends. Some may have been deleted, or opened again since.
    ended: VecDeque<RunId>,
}

impl Runs {
    /// Deletes the run that ended first, and returns its size. Returns `None` if no run has ended. The queue makes the cost
    /// independent of the number of runs.
    fn forget_oldest(&mut self) -> Option<u64> {
        while let Some(id) = self.ended.pop_front() {
            if let Some(run) = self.all.get(&id).filter(|run| run.closed_at().is_some()) {
                let freed = run.footprint();
                self.all.remove(&id);
                return Some(freed);
            }
        }
        None
    }

    /// Returns the number of deleted runs, and their size.
    fn forget_before(&mut self, before: Timestamp) -> (usize, u64) {
        let (held, mut freed) = (self.all.len(), 0);
        self.all.retain(|_, run| {
            let is_kept = run.closed_at().is_none_or(|closed| closed >= before);
            freed += if is_kept { 0 } else { run.footprint() };
            is_kept
        });
        let all = &self.all;
        self.ended.retain(|id| all.contains_key(id));
        (held - self.all.len(), freed)
    }
}

impl MemoryLog {
    /// Returns an empty log.
    pub fn new(limits: LogLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, id: &RunId) -> Result<Arc<Run>, LogError> {
        self.runs().all.get(id).cloned().ok_or_else(|| LogError::NotFound(id.clone()))
    }

    fn open_now(&self, meta: RunMeta, until: Timestamp) -> Result<Lease, LogError> {
        let mut runs = self.runs();
        if runs.all.contains_key(&meta.run_id) {
            return Err(LogError::Exists(meta.run_id));
        }
        if runs.all.len() >= self.limits.runs {
            let freed = runs.forget_oldest().ok_or(LogError::Full { max: self.limits.runs })?;
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
        let lease = Lease { run_id: meta.run_id.clone(), epoch: 1 };
        runs.all.insert(lease.run_id.clone(), Arc::new(Run::new(meta, until)));
        Ok(lease)
    }

    fn append_now(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> Result<u64, Refused> {
        let is_end = events.last().is_some_and(BlockEvent::is_terminal);
        let run = match self.writable(&lease.run_id, is_end) {
            Ok(run) => run,
            Err(error) => return Err(Refused::new(error, events)),
        };
        let head = run.append(lease, events, now, &self.limits, &self.bytes)?;
        if is_end {
            self.runs().ended.push_back(run.id.clone());
        }
        Ok(head)
    }

    /// Returns the run if there is room for more events. The end of a run is always accepted.
    fn writable(&self, id: &RunId, is_end: bool) -> Result<Arc<Run>, LogError> {
        let mut runs = self.runs();
        let run = runs.all.get(id).cloned().ok_or_else(|| LogError::NotFound(id.clone()))?;
        let max = self.limits.bytes;
        while self.bytes.load(Ordering::Relaxed) > count(max) {
            match runs.forget_oldest() {
                Some(freed) => self.bytes.fetch_sub(freed, Ordering::Relaxed),
                None if is_end => break,
                None => {
                    let what = "bytes together with all others";
                    return Err(LogError::RunTooLong { run: id.clone(), limit: "bytes", what, max });
                }
            };
        }
        Ok(run)
    }

    fn read_page(&self, run: &RunId, after: u64, max: usize) -> Result<Page, LogError> {
        self.run(run)?.read(after, max)
    }

    fn renew_now(&self, leases: Vec<Lease>, until: Timestamp) -> Vec<Lease> {
        let lost = |lease: &Lease| !self.run(&lease.run_id).is_ok_and(|run| run.renew(lease, until));
        leases.into_iter().filter(lost).collect()
    }

    fn select(&self, order: &RunQuery, max: usize, wanted: impl Fn(&RunState) -> bool) -> Vec<RunState> {
        let runs: Vec<Arc<Run>> = self.runs().all.values().cloned().collect();
        let mut states: Vec<RunState> = runs.iter().map(|run| run.state()).filter(wanted).collect();
        order.sort(&mut states, max);
        states
    }

    fn expire_now(&self, before: Timestamp) -> usize {
        let (forgotten, freed) = self.runs().forget_before(before);
        self.bytes.fetch_sub(freed, Ordering::Relaxed);
        forgotten
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl RunLog for MemoryLog {
    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>> {
        ready(self.open_now(meta, until))
    }

    fn take_over(
        &self,
        run: &RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<Lease, LogError>> {
        ready(self.run(run).and_then(|run| run.take_over(now, until)))
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> BoxFuture<'_, Result<Vec<Lease>, LogError>> {
        ready(Ok(self.renew_now(leases, until)))
    }

    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, Refused>> {
        ready(self.append_now(lease, events, now))
    }

    fn annotate(&self, lease: &Lease, note: Note) -> BoxFuture<'_, Result<(), LogError>> {
        let run = self.writable(&lease.run_id, false);
        ready(run.and_then(|run| run.annotate(lease, note, &self.limits, &self.bytes)))
    }

    fn input(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Arc<Value>>, LogError>> {
        ready(self.run(run).map(|run| run.input()))
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>> {
        ready(self.read_page(run, after, max))
    }

    fn read_now(&self, run: &RunId, after: u64, max: usize) -> Option<Result<Page, LogError>> {
        Some(self.read_page(run, after, max))
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        let run = self.run(run);
        Box::pin(async move { run?.changed(after).await })
    }

    fn changed_owned(self: Arc<Self>, run: &RunId, after: u64) -> BoxFuture<'static, Result<(), LogError>> {
        let run = self.run(run);
        Box::pin(async move { run?.changed(after).await })
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> BoxFuture<'_, Result<(), LogError>> {
        ready(self.run(run).map(|run| run.watched(until)))
    }

    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>> {
        ready(self.run(run).map(|run| run.state()))
    }

    fn list(&self, query: RunQuery, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        ready(Ok(self.select(&query, max, |run| query.wants(run))))
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        ready(Ok(self.select(&RunQuery::default(), max, |run| run.is_lapsed(now))))
    }

    fn control(&self, run: &RunId, message: Control) -> BoxFuture<'_, Result<(), LogError>> {
        ready(self.run(run).and_then(|run| run.control(message, &self.limits)))
    }

    fn controls(&self, lease: &Lease, seen: usize) -> BoxFuture<'_, Result<Vec<Control>, LogError>> {
        let (run, lease) = (self.run(&lease.run_id), lease.clone());
        Box::pin(async move { run?.controls(&lease, seen).await })
    }

    fn claim(
        &self,
        key: String,
        value: String,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<String, LogError>> {
        ready(Ok(self.claims.claim(key, value, now, until)))
    }

    fn relate(
        &self,
        run: &RunId,
        keys: Vec<String>,
        _until: Timestamp,
    ) -> BoxFuture<'_, Result<(), LogError>> {
        self.relations.add(run, keys);
        ready(Ok(()))
    }

    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> BoxFuture<'_, Result<(), LogError>> {
        self.relations.remove(run, &keys);
        ready(Ok(()))
    }

    fn related(&self, keys: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<RunId>>, LogError>> {
        ready(Ok(self.relations.find(&keys)))
    }

    fn trim(&self, run: &RunId, earliest: u64) -> BoxFuture<'_, Result<(), LogError>> {
        ready(self.run(run).map(|run| run.trim(earliest, &self.bytes)))
    }

    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>> {
        ready(Ok(self.expire_now(before)))
    }
}
