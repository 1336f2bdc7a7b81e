//! One run in memory: its events, its lease, and the signal to its watchers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, ThreadId, Timestamp};
use serde_json::Value;

use super::arena::Arena;
use super::events::Events;
use super::owners::Account;
use super::packed::PackedValue;
use crate::error::{LogError, Refused};
use crate::ledger::Ledger;
use crate::limits::{LogLimits, count, weight_of};
use crate::log::{Control, Lease, Note, Page, RunMeta, RunPlace, RunState};
use crate::signal::{Progress, Signal};

/// One run of the engine in memory.
///
/// A lock of its own guards each run, held for the length of one call and never across an `await`: runs do not wait for each other.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) thread: ThreadId,
    pub(super) owner: String,
    opened_at: Timestamp,
    /// Where its bytes are counted.
    pub(super) account: Account,
    signal: Signal,
    body: Mutex<Body>,
}

/// The part of a run that changes.
#[derive(Debug)]
struct Body {
    ledger: Ledger,
    events: Events,
    arena: Arena,
    controls: Vec<Control>,
    input: Option<PackedValue>,
    /// The checkpoint, which the state in the ledger lacks.
    checkpoint: Option<PackedValue>,
}

impl Body {
    /// Returns the bytes that the run counts against its owner: content, and the size of its entries.
    fn footprint(&self) -> u64 {
        self.ledger.bytes + count(self.events.len() * size_of::<BlockEvent>())
    }
}

impl Run {
    /// Opens a run. The first lease has epoch 1.
    pub(super) fn new(meta: RunMeta, until: Timestamp, account: Account) -> Self {
        let (id, thread) = (meta.run_id.clone(), meta.thread_id.clone());
        let (owner, opened_at) = (meta.owner.clone(), meta.opened_at);
        let ledger = Ledger::new(meta, until);
        let progress = Progress { epoch: ledger.state.epoch, ..Progress::default() };
        let body = Body {
            ledger,
            events: Events::default(),
            arena: Arena::default(),
            controls: Vec::new(),
            input: None,
            checkpoint: None,
        };
        let signal = Signal::new(progress);
        Self { id, thread, owner, opened_at, account, signal, body: Mutex::new(body) }
    }

    /// Ignores poisoning: all checks precede the first change, so a panic cannot leave the body half written.
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the progress under the lock, so that signals are in order.
    fn signal_progress(&self, body: &Body) {
        let RunState { head, epoch, .. } = body.ledger.state;
        let controls = body.ledger.controls;
        self.signal.advance(Progress { head, closed: body.ledger.is_closed(), controls, epoch });
    }

    /// Returns a copy of the state, with the checkpoint.
    pub(super) fn state(&self) -> RunState {
        let body = self.body();
        let checkpoint = body.checkpoint.as_ref().and_then(PackedValue::value);
        RunState { checkpoint, ..body.ledger.state.clone() }
    }

    /// Returns its place in lists.
    pub(super) fn place(&self) -> RunPlace {
        RunPlace { opened_at: self.opened_at, run_id: self.id.clone() }
    }

    /// Returns `true` if the run is open and its lease has lapsed by `now`.
    pub(super) fn is_lapsed(&self, now: Timestamp) -> bool {
        self.body().ledger.state.is_lapsed(now)
    }

    /// Subtracts the size of the run from its account, when the run is deleted.
    pub(super) fn release_bytes(&self) {
        self.account.sub(self.body().footprint());
    }

    /// Returns the time of the end, or `None` for an open run.
    pub(super) fn closed_at(&self) -> Option<Timestamp> {
        self.body().ledger.state.closed_at
    }

    /// Starts a lease with the next epoch, and wakes the previous holder, which is fenced.
    pub(super) fn take_over(&self, now: Timestamp, until: Timestamp) -> Result<Lease, LogError> {
        let mut body = self.body();
        let lease = body.ledger.take_over(now, until)?;
        self.signal_progress(&body);
        Ok(lease)
    }

    /// Extends the lease. Returns `false` if it is lost, and changes nothing then.
    pub(super) fn renew(&self, lease: &Lease, until: Timestamp) -> bool {
        self.body().ledger.renew(lease, until)
    }

    /// Records a watcher until that time; an earlier time has no effect.
    pub(super) fn watched(&self, until: Timestamp) {
        self.body().ledger.watched(until);
    }

    /// Appends a batch and returns the new head. The growth is counted under the lock of the run, so that a deletion after the
    /// run's end subtracts it.
    pub(super) fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
        limits: &LogLimits,
    ) -> Result<u64, Refused> {
        let mut body = self.body();
        let before = body.footprint();
        let head = match body.ledger.append(lease, &events, now, limits) {
            Ok(head) => head,
            Err(error) => return Err(Refused::new(error, events)),
        };
        // The ledger has accepted the batch, so nothing after this line can fail.
        let Body { events: kept, arena, .. } = &mut *body;
        for event in events {
            kept.push(arena.keep(event));
        }
        self.signal_progress(&body);
        self.account.add(body.footprint() - before);
        Ok(head)
    }

    /// Packs a run that has ended: it is kept for clients that come back, and few do. Returns at once for an open run.
    pub(super) fn pack_ended(&self) {
        let mut body = self.body();
        if body.ledger.is_closed() {
            body.events.pack_ended();
            body.arena = Arena::default();
            body.controls.shrink_to_fit();
            self.signal.shrink();
        }
    }

    /// Returns `true` if all events are packed.
    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        self.body().events.is_packed()
    }

    /// Stores a note, and counts its growth.
    pub(super) fn annotate(&self, lease: &Lease, note: Note, limits: &LogLimits) -> Result<(), LogError> {
        let mut body = self.body();
        let before = body.footprint();
        body.ledger.annotate(lease, &note, limits)?;
        body.ledger.state.checkpoint = None;
        match note {
            Note::Input(input) => body.input = Some(PackedValue::new(input)),
            Note::Checkpoint(checkpoint) => body.checkpoint = Some(PackedValue::new(checkpoint)),
        }
        self.account.add(body.footprint() - before);
        Ok(())
    }

    /// Returns the input of the run.
    pub(super) fn input(&self) -> Option<Arc<Value>> {
        self.body().input.as_ref()?.value()
    }

    /// Returns at most `max` events after the number `after`.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Gone`] if the next event was trimmed.
    pub(super) fn read(&self, after: u64, max: usize) -> Result<Page, LogError> {
        let body = self.body();
        body.ledger.check_read(after)?;
        let start = usize::try_from(after - (body.ledger.state.earliest - 1)).unwrap_or(usize::MAX);
        // Sized in advance: a chunk does not know how many events follow it, and a list that grows would be
        // copied.
        let mut events = Vec::with_capacity(body.events.len().saturating_sub(start).min(max));
        let mut number = after;
        body.events.visit_since(start, max, |event| {
            number = number.saturating_add(1);
            events.push(NumberedEvent { number, event });
        });
        Ok(Page { events, head: body.ledger.state.head, closed: body.ledger.is_closed() })
    }

    /// Removes the events below `earliest`, and subtracts their size.
    pub(super) fn trim(&self, earliest: u64) {
        let mut body = self.body();
        let before = body.footprint();
        let gone = usize::try_from(body.ledger.trim(earliest)).unwrap_or(usize::MAX);
        let gone = body.events.take_oldest(gone);
        body.ledger.bytes = body.ledger.bytes.saturating_sub(weight_of(&gone));
        self.account.sub(before - body.footprint());
    }

    /// Appends a message to the owner, and wakes it.
    pub(super) fn control(&self, message: Control, limits: &LogLimits) -> Result<(), LogError> {
        let mut body = self.body();
        body.ledger.control(&message, limits)?;
        body.controls.push(message);
        self.signal_progress(&body);
        Ok(())
    }

    /// Waits for more than `seen` messages, and returns those after them.
    pub(super) async fn controls(&self, lease: &Lease, seen: usize) -> Result<Vec<Control>, LogError> {
        self.signal.messages(lease, seen).await;
        let body = self.body();
        // The wait also ends when the lease is lost.
        body.ledger.check_lease(lease)?;
        Ok(body.controls.iter().skip(seen).cloned().collect())
    }

    /// Waits for an event after the number `after`, or for the end of the run.
    pub(super) async fn changed(&self, after: u64) -> Result<(), LogError> {
        self.signal.changed(&self.id, after).await
    }
}
