//! [`MemoryLog`]: the engine in memory. The default; bounded; gone with the process.
//!
//! Events are kept as they are, with their deltas copied out of the buffers they were read from into shared pages
//! (`arena.rs`): a delta that stayed a slice would keep its whole read buffer alive, which is ten times as large.
//!
//! Locks are held for the length of a copy of references, never across an await.

mod arena;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::{BoxFuture, NumberedEvent};
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::sync::watch;

use crate::log::{Lease, LogError, Page, RunLog, RunMeta, RunState};
use arena::Arena;

/// How much the log may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Runs, ended ones included. Past it the run that ended first is forgotten; if none has ended, opening fails.
    pub runs: usize,
    /// Events of one run: a source that never ends is stopped here.
    pub events_per_run: usize,
    /// Bytes of text of one run.
    pub bytes_per_run: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { runs: 10_000, events_per_run: 1_000_000, bytes_per_run: 64 * 1024 * 1024 }
    }
}

/// A log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog {
    limits: MemoryLimits,
    runs: Mutex<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    by_id: HashMap<RunId, Arc<Run>>,
    opened: u64,
}

#[derive(Debug)]
struct Run {
    /// The place in the order of opening.
    place: u64,
    meta: RunMeta,
    /// The head and whether the run has ended: what watchers wait for.
    progress: watch::Sender<(u64, bool)>,
    body: Mutex<Body>,
}

#[derive(Debug, Default)]
struct Body {
    epoch: u64,
    events: Vec<BlockEvent>,
    arena: Arena,
    closed_at: Option<Timestamp>,
}

impl MemoryLog {
    /// A log with these limits.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, runs: Mutex::default() }
    }

    fn run(&self, id: &RunId) -> Result<Arc<Run>, LogError> {
        locked(&self.runs).by_id.get(id).cloned().ok_or_else(|| LogError::NotFound(id.clone()))
    }

    fn open_now(&self, meta: RunMeta) -> Result<Lease, LogError> {
        let mut runs = locked(&self.runs);
        if runs.by_id.contains_key(&meta.run_id) {
            return Err(LogError::Exists(meta.run_id));
        }
        if runs.by_id.len() >= self.limits.runs {
            runs.forget_oldest_ended().ok_or(LogError::Full { max: self.limits.runs })?;
        }
        runs.opened += 1;
        let lease = Lease { run_id: meta.run_id.clone(), epoch: 1 };
        let body = Mutex::new(Body { epoch: 1, ..Body::default() });
        let run = Run { place: runs.opened, meta, progress: watch::Sender::new((0, false)), body };
        runs.by_id.insert(lease.run_id.clone(), Arc::new(run));
        Ok(lease)
    }

    fn take_over_now(&self, id: &RunId) -> Result<Lease, LogError> {
        let run = self.run(id)?;
        let mut body = locked(&run.body);
        if body.closed_at.is_some() {
            return Err(LogError::Closed(id.clone()));
        }
        body.epoch += 1;
        Ok(Lease { run_id: id.clone(), epoch: body.epoch })
    }

    fn append_now(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> Result<u64, LogError> {
        let run = self.run(&lease.run_id)?;
        let mut body = locked(&run.body);
        body.check(lease, &events, &self.limits)?;
        let Body { events: kept, arena, closed_at, .. } = &mut *body;
        for event in events {
            if event.is_terminal() {
                *closed_at = Some(now);
            }
            kept.push(arena.keep(event));
        }
        let head = as_number(kept.len());
        let closed = closed_at.is_some();
        drop(body);
        run.progress.send_replace((head, closed));
        Ok(head)
    }

    fn read_now(&self, id: &RunId, after: u64, max: usize) -> Result<Page, LogError> {
        let run = self.run(id)?;
        let body = locked(&run.body);
        let start = usize::try_from(after).unwrap_or(usize::MAX);
        let events = body.events.iter().skip(start).take(max).zip(after.saturating_add(1)..);
        Ok(Page {
            events: events.map(|(event, number)| NumberedEvent { number, event: event.clone() }).collect(),
            head: as_number(body.events.len()),
            closed: body.closed_at.is_some(),
        })
    }

    fn expire_now(&self, before: Timestamp) -> usize {
        let mut runs = locked(&self.runs);
        let held = runs.by_id.len();
        runs.by_id.retain(|_, run| locked(&run.body).closed_at.is_none_or(|closed| closed >= before));
        held - runs.by_id.len()
    }
}

impl Runs {
    fn forget_oldest_ended(&mut self) -> Option<()> {
        let ended =
            self.by_id.values().filter_map(|run| Some((locked(&run.body).closed_at?, run.place, run)));
        let oldest = ended.min_by_key(|(closed, place, _)| (*closed, *place))?.2.meta.run_id.clone();
        self.by_id.remove(&oldest).map(drop)
    }
}

impl Body {
    fn check(&self, lease: &Lease, events: &[BlockEvent], limits: &MemoryLimits) -> Result<(), LogError> {
        let run = || lease.run_id.clone();
        if lease.epoch != self.epoch {
            return Err(LogError::Fenced { run: run(), epoch: lease.epoch });
        }
        if self.closed_at.is_some() {
            return Err(LogError::Closed(run()));
        }
        if events.iter().rev().skip(1).any(BlockEvent::is_terminal) {
            return Err(LogError::AfterTerminal(run()));
        }
        // The end of a run is always taken, or it could not be said that the run was too long.
        let ends = events.last().is_some_and(BlockEvent::is_terminal);
        let too_long = |limit, what, max| LogError::RunTooLong { run: run(), limit, what, max };
        if !ends && self.events.len() + events.len() > limits.events_per_run {
            return Err(too_long("events_per_run", "events", limits.events_per_run));
        }
        if !ends && self.arena.bytes() + arena::bytes_of(events) > limits.bytes_per_run {
            return Err(too_long("bytes_per_run", "bytes", limits.bytes_per_run));
        }
        Ok(())
    }
}

impl Run {
    fn state(&self) -> RunState {
        let body = locked(&self.body);
        let (meta, head) = (self.meta.clone(), as_number(body.events.len()));
        RunState { meta, head, closed_at: body.closed_at }
    }
}

impl RunLog for MemoryLog {
    fn open(&self, meta: RunMeta) -> BoxFuture<'_, Result<Lease, LogError>> {
        Box::pin(std::future::ready(self.open_now(meta)))
    }

    fn take_over(&self, run: &RunId) -> BoxFuture<'_, Result<Lease, LogError>> {
        Box::pin(std::future::ready(self.take_over_now(run)))
    }

    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, LogError>> {
        Box::pin(std::future::ready(self.append_now(lease, events, now)))
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>> {
        Box::pin(std::future::ready(self.read_now(run, after, max)))
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        let run = self.run(run);
        Box::pin(async move {
            let run = run?;
            let mut progress = run.progress.subscribe();
            // The sender lives in the run that this future holds, so waiting cannot fail.
            let waited = progress.wait_for(|(head, closed)| *head > after || *closed).await;
            waited.map(drop).map_err(|_| LogError::NotFound(run.meta.run_id.clone()))
        })
    }

    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>> {
        Box::pin(std::future::ready(self.run(run).map(|run| run.state())))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        let mut runs: Vec<Arc<Run>> = locked(&self.runs).by_id.values().cloned().collect();
        runs.sort_by_key(|run| run.place);
        Box::pin(std::future::ready(Ok(runs.iter().map(|run| run.state()).collect())))
    }

    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(std::future::ready(Ok(self.expire_now(before))))
    }
}

/// A panic while holding a lock cannot leave a body half written: all checks come before the first change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn as_number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
