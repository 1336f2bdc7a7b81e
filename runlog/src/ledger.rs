//! The state of a run beside its events, and the rules of its changes. Pure: the engines in this process (memory, disk) share
//! it; Redis has the same rules in its scripts.
//!
//! ```text
//! append:  lease ok? ── limits ok? ──► head += n, bytes += weight ── terminal? ──► closed_at = now
//! ```
//!
//! Invariants: the epoch never decreases; `earliest - 1 <= head`; every check precedes the first change, so a refused call changes
//! nothing.

use aqueduct_core::{BlockEvent, RunId, Timestamp};

use crate::error::LogError;
use crate::limits::{Held, LogLimits, count, weight_of};
use crate::log::{Control, Lease, Note, RunMeta, RunState};

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) state: RunState,
    /// Bytes of stored content.
    pub(crate) bytes: u64,
    /// The number of control messages to the owner.
    pub(crate) controls: usize,
}

impl Ledger {
    /// Returns the state of a run that was just opened: epoch 1, no events.
    pub(crate) fn new(meta: RunMeta, until: Timestamp) -> Self {
        let state = RunState {
            meta,
            epoch: 1,
            lease_until: until,
            watched_until: Timestamp(i64::MIN),
            earliest: 1,
            head: 0,
            closed_at: None,
            checkpoint: None,
        };
        Self { state, bytes: 0, controls: 0 }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.closed_at.is_some()
    }

    /// Returns the current lease.
    pub(crate) fn lease(&self) -> Lease {
        Lease { run_id: self.id(), epoch: self.state.epoch }
    }

    fn id(&self) -> RunId {
        self.state.meta.run_id.clone()
    }

    /// Starts a new lease with the next epoch. Returns [`LogError::Held`] if the present lease has not lapsed.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Closed`] if the run has ended.
    pub(crate) fn take_over(&mut self, now: Timestamp, until: Timestamp) -> Result<Lease, LogError> {
        if self.is_closed() {
            return Err(LogError::Closed(self.id()));
        }
        if !self.state.is_lapsed(now) {
            return Err(LogError::Held { run: self.id(), until: self.state.lease_until });
        }
        self.state.epoch += 1;
        self.state.lease_until = until;
        Ok(self.lease())
    }

    /// Extends a lease. Returns `false` if the lease is lost.
    pub(crate) fn renew(&mut self, lease: &Lease, until: Timestamp) -> bool {
        let held = !self.is_closed() && self.state.epoch == lease.epoch;
        if held {
            self.state.lease_until = until;
        }
        held
    }

    /// Extends the time until which the run counts as watched. An earlier time changes nothing: watchers of several replicas
    /// report in any order.
    pub(crate) fn watched(&mut self, until: Timestamp) {
        self.state.watched_until = self.state.watched_until.max(until);
    }

    /// Returns an error if the lease is no longer the run's current one.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Fenced`] for a lease of an older epoch, even if the run has ended since: its holder must stop writing.
    pub(crate) fn check_lease(&self, lease: &Lease) -> Result<(), LogError> {
        if lease.epoch != self.state.epoch {
            return Err(LogError::Fenced { run: self.id(), epoch: lease.epoch });
        }
        if self.is_closed() {
            return Err(LogError::Closed(self.id()));
        }
        Ok(())
    }

    /// Counts a batch and returns the new head, or refuses all of the batch.
    ///
    /// # Errors
    ///
    /// Returns an error if the lease is lost, the run has ended, or a limit would be exceeded. Nothing is changed then.
    pub(crate) fn append(
        &mut self,
        lease: &Lease,
        events: &[BlockEvent],
        now: Timestamp,
        limits: &LogLimits,
    ) -> Result<u64, LogError> {
        self.check_lease(lease)?;
        let weight = weight_of(events);
        limits.check(lease, Held { events: self.state.head, bytes: self.bytes }, events, weight)?;
        self.state.head += count(events.len());
        self.bytes += weight;
        if events.last().is_some_and(BlockEvent::is_terminal) {
            self.state.closed_at = Some(now);
        }
        Ok(self.state.head)
    }

    /// Counts a note. The engine stores the content of an input itself.
    pub(crate) fn annotate(
        &mut self,
        lease: &Lease,
        note: &Note,
        limits: &LogLimits,
    ) -> Result<(), LogError> {
        self.check_lease(lease)?;
        self.bytes = limits.check_note(&lease.run_id, self.bytes, note)?;
        if let Note::Checkpoint(checkpoint) = note {
            self.state.checkpoint = Some(checkpoint.clone());
        }
        Ok(())
    }

    /// Returns [`LogError::Gone`] if the event after `after` was trimmed.
    pub(crate) fn check_read(&self, after: u64) -> Result<(), LogError> {
        if after < self.state.earliest - 1 {
            return Err(LogError::Gone { run: self.id(), earliest: self.state.earliest });
        }
        Ok(())
    }

    /// Removes events below `earliest`, and returns their number.
    pub(crate) fn trim(&mut self, earliest: u64) -> u64 {
        let earliest = earliest.min(self.state.head).max(self.state.earliest);
        let gone = earliest - self.state.earliest;
        self.state.earliest = earliest;
        gone
    }

    /// Counts a control message, or refuses it if the queue is full.
    pub(crate) fn control(&mut self, message: &Control, limits: &LogLimits) -> Result<(), LogError> {
        if self.is_closed() {
            return Err(LogError::Closed(self.id()));
        }
        limits.check_controls(&self.state.meta.run_id, self.controls, message)?;
        self.controls += 1;
        Ok(())
    }
}
