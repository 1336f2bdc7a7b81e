//! One run in memory: its events, its lease, and what its watchers wait for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::sync::watch;

use super::arena::Arena;
use crate::error::{LogError, Refused};
use crate::limits::{Held, LogLimits, count, weight_of};
use crate::log::{Control, Lease, Page, RunMeta, RunState};

#[derive(Debug)]
pub(super) struct Run {
    pub(super) meta: RunMeta,
    /// What watchers and the owner wait for.
    progress: watch::Sender<Progress>,
    body: Mutex<Body>,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    head: u64,
    closed: bool,
    controls: usize,
    epoch: u64,
}

#[derive(Debug)]
struct Body {
    epoch: u64,
    lease_until: Timestamp,
    events: Vec<BlockEvent>,
    /// Events that were trimmed: the number before the first one kept.
    trimmed: u64,
    bytes: u64,
    arena: Arena,
    controls: Vec<Control>,
    closed_at: Option<Timestamp>,
}

impl Run {
    pub(super) fn new(meta: RunMeta, until: Timestamp) -> Self {
        let body = Body {
            epoch: 1,
            lease_until: until,
            events: Vec::new(),
            trimmed: 0,
            bytes: 0,
            arena: Arena::default(),
            controls: Vec::new(),
            closed_at: None,
        };
        let progress = Progress { epoch: 1, ..Progress::default() };
        Self { meta, progress: watch::Sender::new(progress), body: Mutex::new(body) }
    }

    /// A panic while holding the lock cannot leave a body half written: all checks come before the first change.
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> RunId {
        self.meta.run_id.clone()
    }

    pub(super) fn closed_at(&self) -> Option<Timestamp> {
        self.body().closed_at
    }

    pub(super) fn state(&self) -> RunState {
        let body = self.body();
        RunState {
            meta: self.meta.clone(),
            epoch: body.epoch,
            lease_until: body.lease_until,
            earliest: body.trimmed + 1,
            head: body.head(),
            closed_at: body.closed_at,
        }
    }

    pub(super) fn take_over(&self, now: Timestamp, until: Timestamp) -> Result<Lease, LogError> {
        let mut body = self.body();
        if body.closed_at.is_some() {
            return Err(LogError::Closed(self.id()));
        }
        if body.lease_until >= now {
            return Err(LogError::Held { run: self.id(), until: body.lease_until });
        }
        body.epoch += 1;
        body.lease_until = until;
        let lease = Lease { run_id: self.id(), epoch: body.epoch };
        self.progress.send_modify(|progress| progress.epoch = lease.epoch);
        Ok(lease)
    }

    /// False if the lease is lost.
    pub(super) fn renew(&self, lease: &Lease, until: Timestamp) -> bool {
        let mut body = self.body();
        let held = body.closed_at.is_none() && body.epoch == lease.epoch;
        if held {
            body.lease_until = until;
        }
        held
    }

    pub(super) fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
        limits: &LogLimits,
    ) -> Result<u64, Refused> {
        let mut body = self.body();
        if let Err(error) = body.check(lease, &events, limits) {
            return Err(Refused::new(error, events));
        }
        body.bytes += weight_of(&events);
        let Body { events: kept, arena, closed_at, .. } = &mut *body;
        if events.last().is_some_and(BlockEvent::is_terminal) {
            *closed_at = Some(now);
        }
        kept.extend(events.into_iter().map(|event| arena.keep(event)));
        let (head, closed) = (body.head(), body.closed_at.is_some());
        // Told under the lock, so that heads are told in order.
        self.progress.send_modify(|progress| (progress.head, progress.closed) = (head, closed));
        Ok(head)
    }

    pub(super) fn read(&self, after: u64, max: usize) -> Result<Page, LogError> {
        let body = self.body();
        let Some(skipped) = after.checked_sub(body.trimmed) else {
            return Err(LogError::Gone { run: self.id(), earliest: body.trimmed + 1 });
        };
        let start = usize::try_from(skipped).unwrap_or(usize::MAX);
        let events = body.events.iter().skip(start).take(max).zip(after.saturating_add(1)..);
        Ok(Page {
            events: events.map(|(event, number)| NumberedEvent { number, event: event.clone() }).collect(),
            head: body.head(),
            closed: body.closed_at.is_some(),
        })
    }

    pub(super) fn trim(&self, earliest: u64) {
        let mut body = self.body();
        let earliest = earliest.min(body.head());
        let gone = usize::try_from(earliest.saturating_sub(body.trimmed + 1)).unwrap_or(usize::MAX);
        let gone: Vec<BlockEvent> = body.events.drain(..gone).collect();
        body.trimmed += count(gone.len());
        body.bytes = body.bytes.saturating_sub(weight_of(&gone));
    }

    pub(super) fn control(&self, message: Control, limits: &LogLimits) -> Result<(), LogError> {
        let mut body = self.body();
        if body.closed_at.is_some() {
            return Err(LogError::Closed(self.id()));
        }
        limits.check_controls(&self.meta.run_id, body.controls.len())?;
        body.controls.push(message);
        let sent = body.controls.len();
        self.progress.send_modify(|progress| progress.controls = sent);
        Ok(())
    }

    pub(super) async fn controls(&self, lease: &Lease, seen: usize) -> Result<Vec<Control>, LogError> {
        let mut progress = self.progress.subscribe();
        let ready = |now: &Progress| now.closed || now.epoch != lease.epoch || now.controls > seen;
        // The sender lives in this run, so waiting cannot fail.
        progress.wait_for(ready).await.map_err(|_| LogError::NotFound(self.id()))?;
        let body = self.body();
        if body.epoch != lease.epoch {
            return Err(LogError::Fenced { run: self.id(), epoch: lease.epoch });
        }
        if body.closed_at.is_some() {
            return Err(LogError::Closed(self.id()));
        }
        Ok(body.controls.iter().skip(seen).cloned().collect())
    }

    pub(super) async fn changed(&self, after: u64) -> Result<(), LogError> {
        let mut progress = self.progress.subscribe();
        let waited = progress.wait_for(|now| now.head > after || now.closed).await;
        waited.map(drop).map_err(|_| LogError::NotFound(self.id()))
    }
}

impl Body {
    fn head(&self) -> u64 {
        self.trimmed + count(self.events.len())
    }

    fn check(&self, lease: &Lease, events: &[BlockEvent], limits: &LogLimits) -> Result<(), LogError> {
        if lease.epoch != self.epoch {
            return Err(LogError::Fenced { run: lease.run_id.clone(), epoch: lease.epoch });
        }
        if self.closed_at.is_some() {
            return Err(LogError::Closed(lease.run_id.clone()));
        }
        limits.check(lease, Held { events: self.head(), bytes: self.bytes }, events)
    }
}
