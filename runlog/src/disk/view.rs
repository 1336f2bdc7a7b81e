//! The readers' view of runs: only changes that are synced to the disk.
//!
//! Readers never wait for the writer: each view has its own lock, held for the length of one call. The last events of a run are kept in
//! memory ([`Tail`]), so that a watcher that follows a run does not read the disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, Timestamp};

use crate::error::LogError;
use crate::ledger::Ledger;
use crate::limits::count;
use crate::log::{Control, Lease, RunQuery, RunState};
use crate::signal::{Progress, Signal};
use crate::tail::Tail;

/// The view of one run.
#[derive(Debug)]
pub(super) struct View {
    pub(super) place: u64,
    pub(super) run_id: RunId,
    pub(super) signal: Signal,
    body: Mutex<Body>,
}

/// The synced state, the last events, and all control messages.
#[derive(Debug)]
struct Body {
    ledger: Ledger,
    tail: Tail,
    controls: Vec<Control>,
}

/// The part of a page that is available without the disk.
pub(super) struct Glance {
    pub(super) head: u64,
    pub(super) closed: bool,
    /// `None` if the disk must be read.
    pub(super) events: Option<Vec<NumberedEvent>>,
}

impl View {
    /// Returns the view of a run that was opened or restored.
    pub(super) fn new(place: u64, ledger: Ledger, controls: Vec<Control>) -> Self {
        let run_id = ledger.state.meta.run_id.clone();
        let signal = Signal::new(progress(&ledger));
        let tail = Tail::after(ledger.state.head);
        Self { place, run_id, signal, body: Mutex::new(Body { ledger, tail, controls }) }
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a changed ledger, and the events up to its head.
    pub(super) fn publish(&self, ledger: Ledger, events: Vec<BlockEvent>) {
        let mut body = self.body();
        let first = ledger.state.head + 1 - count(events.len());
        for (number, event) in (first..).zip(events) {
            body.tail.push(number, event);
        }
        self.show(&mut body, ledger);
    }

    /// Publishes a message to the owner.
    pub(super) fn publish_control(&self, ledger: &Ledger, message: Control) {
        let mut body = self.body();
        body.controls.push(message);
        self.show(&mut body, ledger.clone());
    }

    /// Replaces the ledger and wakes those that wait, under the lock, so that signals are in order.
    fn show(&self, body: &mut Body, ledger: Ledger) {
        self.signal.advance(progress(&ledger));
        body.ledger = ledger;
    }

    /// Returns a copy of the synced ledger.
    pub(super) fn ledger(&self) -> Ledger {
        self.body().ledger.clone()
    }

    /// Returns the synced state.
    pub(super) fn state(&self) -> RunState {
        self.body().ledger.state.clone()
    }

    /// Returns the tail's events after a number, and the head and end of the run. Checks that the number is still stored.
    pub(super) fn glance(&self, after: u64, max: usize) -> Result<Glance, LogError> {
        let body = self.body();
        body.ledger.check_read(after)?;
        let events = body.tail.read(after, max);
        Ok(Glance { head: body.ledger.state.head, closed: body.ledger.is_closed(), events })
    }

    /// Waits for messages after the first `seen`, or for the loss of the lease.
    pub(super) async fn controls(&self, lease: &Lease, seen: usize) -> Result<Vec<Control>, LogError> {
        self.signal.messages(lease, seen).await;
        let body = self.body();
        body.ledger.check_lease(lease)?;
        Ok(body.controls.iter().skip(seen).cloned().collect())
    }
}

/// Returns the part of a ledger that waiters wait for.
fn progress(ledger: &Ledger) -> Progress {
    let RunState { head, epoch, .. } = ledger.state;
    Progress { head, closed: ledger.is_closed(), controls: ledger.controls, epoch }
}

/// The views of all runs.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<RunId, Arc<View>>>);

impl Views {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<View>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a run visible to readers, after its record was synced.
    pub(super) fn insert(&self, view: &Arc<View>) {
        self.runs().insert(view.run_id.clone(), Arc::clone(view));
    }

    /// Removes a deleted run. Readers that hold its view get no more events.
    pub(super) fn remove(&self, run: &RunId) {
        self.runs().remove(run);
    }

    /// Returns the view of a run, or [`LogError::NotFound`].
    pub(super) fn get(&self, run: &RunId) -> Result<Arc<View>, LogError> {
        self.runs().get(run).cloned().ok_or_else(|| LogError::NotFound(run.clone()))
    }

    /// Returns the run at a place.
    pub(super) fn at(&self, place: u64) -> Option<Arc<View>> {
        self.runs().values().find(|view| view.place == place).cloned()
    }

    /// Returns the runs that match a query, in its order.
    pub(super) fn select(
        &self,
        order: &RunQuery,
        max: usize,
        wanted: impl Fn(&RunState) -> bool,
    ) -> Vec<RunState> {
        let views: Vec<Arc<View>> = self.runs().values().cloned().collect();
        let mut states: Vec<RunState> = views.iter().map(|view| view.state()).filter(wanted).collect();
        order.sort(&mut states, max);
        states
    }

    /// Returns at most `max` runs whose lease has lapsed.
    pub(super) fn lapsed(&self, now: Timestamp, max: usize) -> Vec<RunState> {
        self.select(&RunQuery::default(), max, |run| run.is_lapsed(now))
    }
}
