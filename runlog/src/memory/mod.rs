//! [`MemoryLog`]: the default engine: in memory, bounded, lost with the process.
//!
//! Deltas are copied from the buffers they were read from into shared pages (`arena.rs`): a delta
//! that stayed a slice would keep its whole read buffer alive, which is ten times as large. All
//! other parts of events are stored unchanged.
//!
//! Locks, always taken in this order:
//!
//! 1. `runs`: the map of all runs, their lists and the accounts of the principals that they belong to
//!    (`RunMeta::owner`). Held for a lookup, an open or a deletion.
//! 2. the body of one run (`run.rs`): held for one append or read.
//!
//! No lock is held across an await. So every operation except the two waits (`changed`, `controls`)
//! completes at its first poll.
//!
//! Three limits bound the memory: `runs` (the number of runs), `bytes` (of all runs) and
//! `bytes_per_owner`. Beyond a limit, runs that have ended are deleted before their retention time is
//! over, in the order that `owners.rs` chooses. Open runs are never deleted.

mod arena;
mod events;
mod index;
mod owners;
mod packed;
mod relations;
mod run;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use serde_json::Value;

use crate::claims::Claims;
use crate::error::{LogError, Refused};
use crate::limits::{LogLimits, count};
use crate::log::{Control, Lease, LogFuture, Note, Page, RunLog, RunMeta, RunQuery, RunState};
use index::Index;
use owners::{Owners, Scarce};
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
    relations: Relations,
    claims: Claims,
}

/// All runs: by id, by their position in lists, and by owner. The three structures always contain the same runs.
#[derive(Debug, Default)]
struct Runs {
    /// Looked up for every append, read and wait.
    all: HashMap<RunId, Arc<Run>, foldhash::fast::RandomState>,
    index: Index,
    owners: Owners,
}

impl Runs {
    /// Deletes the first ended run among those that `next` proposes. Returns `false` if `next` returns
    /// `None` before one is found.
    ///
    /// A proposal may be outdated: the run may have been deleted by expiry, or its id opened again.
    fn delete_one(&mut self, mut next: impl FnMut(&mut Owners) -> Option<RunId>) -> bool {
        while let Some(id) = next(&mut self.owners) {
            if self.all.get(&id).is_some_and(|run| run.closed_at().is_some()) {
                self.remove(&id);
                return true;
            }
        }
        false
    }

    /// Removes a run from all three structures. Watchers get [`LogError::NotFound`] with their next
    /// read.
    fn remove(&mut self, id: &RunId) {
        if let Some(run) = self.all.remove(id) {
            run.release_bytes();
            self.index.remove(&run);
            self.owners.forget(&run.owner);
        }
    }

    /// Deletes the runs that ended before a time, and returns their number. Linear in the number of
    /// runs; called by the sweeper.
    fn delete_before(&mut self, before: Timestamp) -> usize {
        let is_old = |run: &Arc<Run>| run.closed_at().is_some_and(|closed| closed < before);
        let old: Vec<RunId> =
            self.all.iter().filter(|(_, run)| is_old(run)).map(|(id, _)| id.clone()).collect();
        for id in &old {
            self.remove(id);
        }
        let all = &self.all;
        self.owners.retain_ended(|id| all.contains_key(id));
        old.len()
    }
}

impl MemoryLog {
    /// Returns an empty log.
    pub fn new(limits: LogLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Locks the runs. Ignores poisoning: the changes under this lock are insertions and removals that
    /// do not panic halfway.
    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run, or [`LogError::NotFound`]. The lock of the map is released on return.
    fn run(&self, id: &RunId) -> Result<Arc<Run>, LogError> {
        self.runs().all.get(id).cloned().ok_or_else(|| LogError::NotFound(id.clone()))
    }

    /// Opens a run. If the log is full, deletes a run that has ended first. The lock is held from the
    /// check of the id to the insertion, so one of two simultaneous callers gets [`LogError::Exists`].
    fn open_now(&self, meta: RunMeta, until: Timestamp) -> Result<Lease, LogError> {
        let mut runs = self.runs();
        if runs.all.contains_key(&meta.run_id) {
            return Err(LogError::Exists(meta.run_id));
        }
        if runs.all.len() >= self.limits.runs {
            let owner = &meta.owner;
            if !runs.delete_one(|owners| owners.take_for(owner, Scarce::Runs)) {
                return Err(LogError::Full { max: self.limits.runs });
            }
        }
        let lease = Lease { run_id: meta.run_id.clone(), epoch: 1 };
        let account = runs.owners.open(&meta.owner);
        let run = Arc::new(Run::new(meta, until, account));
        runs.index.insert(&run);
        runs.all.insert(lease.run_id.clone(), run);
        Ok(lease)
    }

    /// Appends a batch. The limits of memory are checked before the lock of the run is taken, so a
    /// batch may exceed them by its own size; the next append then fails or makes room.
    fn append_now(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> Result<u64, Refused> {
        let is_end = events.last().is_some_and(BlockEvent::is_terminal);
        let run = match self.writable(&lease.run_id, is_end) {
            Ok(run) => run,
            Err(error) => return Err(Refused::new(error, events)),
        };
        let head = run.append(lease, events, now, &self.limits)?;
        // The run has ended, so it can be deleted to make room for other runs.
        if is_end {
            self.runs().owners.end(&run.owner, run.id.clone());
        }
        Ok(head)
    }

    /// Returns the run if there is room for more events. To make room, deletes runs that have ended:
    /// first runs of the same owner, for `bytes_per_owner`, then runs of all owners, for `bytes`. The
    /// end of a run is always accepted: a run that could not end would hold its memory without end.
    fn writable(&self, id: &RunId, is_end: bool) -> Result<Arc<Run>, LogError> {
        let mut runs = self.runs();
        let run = runs.all.get(id).cloned().ok_or_else(|| LogError::NotFound(id.clone()))?;
        let owner = &run.owner;
        let too_long = |limit, what, max| LogError::RunTooLong { run: id.clone(), limit, what, max };
        let most = self.limits.bytes_per_owner;
        while run.account.owner_bytes() > count(most) {
            if !runs.delete_one(|owners| owners.take_ended(owner)) {
                if is_end {
                    break;
                }
                return Err(too_long("bytes_per_owner", "bytes together with others of its principal", most));
            }
        }
        let max = self.limits.bytes;
        while runs.owners.bytes() > count(max) {
            if !runs.delete_one(|owners| owners.take_for(owner, Scarce::Bytes)) {
                if is_end {
                    break;
                }
                return Err(too_long("bytes", "bytes together with all others", max));
            }
        }
        Ok(run)
    }

    fn read_page(&self, run: &RunId, after: u64, max: usize) -> Result<Page, LogError> {
        self.run(run)?.read(after, max)
    }

    /// Extends leases, and returns the lost ones, as `RunLog::renew` does.
    fn renew_now(&self, leases: Vec<Lease>, until: Timestamp) -> Vec<Lease> {
        let lost = |lease: &Lease| !self.run(&lease.run_id).is_ok_and(|run| run.renew(lease, until));
        leases.into_iter().filter(lost).collect()
    }

    /// Returns the states of the runs that a query selects. States are copied after the lock of the map
    /// is released.
    fn list_now(&self, query: &RunQuery, max: usize) -> Vec<RunState> {
        let runs = self.runs().index.select(query, max);
        runs.iter().map(|run| run.state()).collect()
    }

    /// Returns open runs with a lapsed lease. Linear in the number of runs: leases are not indexed by
    /// their end.
    fn lapsed_now(&self, now: Timestamp, max: usize) -> Vec<RunState> {
        let runs = self.runs().index.all();
        runs.iter().filter(|run| run.is_lapsed(now)).take(max).map(|run| run.state()).collect()
    }

    /// Deletes runs, and packs the ended ones that stay. Each run is packed under its own lock, after that of the map is
    /// released.
    fn expire_now(&self, before: Timestamp) -> usize {
        let mut runs = self.runs();
        let deleted = runs.delete_before(before);
        let kept = runs.index.all();
        drop(runs);
        for run in kept {
            run.pack_ended();
        }
        deleted
    }
}

/// Wraps a result in a future. The operation happened when the method was called, not when the
/// future is polled.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl RunLog for MemoryLog {
    fn open(&self, meta: RunMeta, until: Timestamp) -> LogFuture<'_, Lease> {
        ready(self.open_now(meta, until))
    }

    fn take_over(&self, run: &RunId, now: Timestamp, until: Timestamp) -> LogFuture<'_, Lease> {
        ready(self.run(run).and_then(|run| run.take_over(now, until)))
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> LogFuture<'_, Vec<Lease>> {
        ready(Ok(self.renew_now(leases, until)))
    }

    fn append(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> LogFuture<'_, u64, Refused> {
        ready(self.append_now(lease, events, now))
    }

    fn annotate(&self, lease: &Lease, note: Note) -> LogFuture<'_, ()> {
        let run = self.writable(&lease.run_id, false);
        ready(run.and_then(|run| run.annotate(lease, note, &self.limits)))
    }

    fn input(&self, run: &RunId) -> LogFuture<'_, Option<Arc<Value>>> {
        ready(self.run(run).map(|run| run.input()))
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> LogFuture<'_, Page> {
        ready(self.read_page(run, after, max))
    }

    fn read_now(&self, run: &RunId, after: u64, max: usize) -> Option<Result<Page, LogError>> {
        Some(self.read_page(run, after, max))
    }

    fn changed(&self, run: &RunId, after: u64) -> LogFuture<'_, ()> {
        let run = self.run(run);
        Box::pin(async move { run?.changed(after).await })
    }

    fn changed_owned(self: Arc<Self>, run: &RunId, after: u64) -> LogFuture<'static, ()> {
        let run = self.run(run);
        Box::pin(async move { run?.changed(after).await })
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> LogFuture<'_, ()> {
        ready(self.run(run).map(|run| run.watched(until)))
    }

    fn state(&self, run: &RunId) -> LogFuture<'_, RunState> {
        ready(self.run(run).map(|run| run.state()))
    }

    fn list(&self, query: RunQuery, max: usize) -> LogFuture<'_, Vec<RunState>> {
        ready(Ok(self.list_now(&query, max)))
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> LogFuture<'_, Vec<RunState>> {
        ready(Ok(self.lapsed_now(now, max)))
    }

    fn control(&self, run: &RunId, message: Control) -> LogFuture<'_, ()> {
        ready(self.run(run).and_then(|run| run.control(message, &self.limits)))
    }

    fn controls(&self, lease: &Lease, seen: usize) -> LogFuture<'_, Vec<Control>> {
        let (run, lease) = (self.run(&lease.run_id), lease.clone());
        Box::pin(async move { run?.controls(&lease, seen).await })
    }

    fn claim(&self, key: String, value: String, now: Timestamp, until: Timestamp) -> LogFuture<'_, String> {
        ready(Ok(self.claims.claim(key, value, now, until)))
    }

    fn relate(&self, run: &RunId, keys: Vec<String>, _until: Timestamp) -> LogFuture<'_, ()> {
        self.relations.add(run, keys);
        ready(Ok(()))
    }

    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> LogFuture<'_, ()> {
        self.relations.remove(run, &keys);
        ready(Ok(()))
    }

    fn related(&self, keys: Vec<String>) -> LogFuture<'_, Vec<Vec<RunId>>> {
        ready(Ok(self.relations.find(&keys)))
    }

    fn trim(&self, run: &RunId, earliest: u64) -> LogFuture<'_, ()> {
        ready(self.run(run).map(|run| run.trim(earliest)))
    }

    fn expire(&self, before: Timestamp) -> LogFuture<'_, usize> {
        ready(Ok(self.expire_now(before)))
    }
}

#[cfg(test)]
mod tests;
