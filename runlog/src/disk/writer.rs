//! The writer thread: the only one that changes the disk, in groups of commands.
//!
//! ```text
//! callers ── commands (bounded) ──► check against the ledgers ──► one batch ──► fdatasync ──► views, answers
//!                                   └ the next group collects while one is synced
//! ```
//!
//! Invariants: a command is answered after its change is synced; watchers see only synced changes; after a failed commit the
//! disk is not written until it was reopened and restored (`recovery`), and every command is refused until then.

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::command::{Answer, Command};
use super::recovery::{Recovery, SharedStore};
use super::store::{Batch, Found, Store};
use super::view::{View, Views};
use crate::codec::{CodecError, Encoder, encode_control, encode_value};
use crate::error::{LogError, Refused};
use crate::ledger::Ledger;
use crate::limits::{LogLimits, count};
use crate::log::{Control, Lease, Note, RunMeta};

/// Commands that wait for the disk. Beyond it callers wait, which holds their agents back.
pub(super) const QUEUE: usize = 1024;

/// The completion of a command, called after its group was synced.
type Completion = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// A run as the writer sees it: the ledger includes changes of the current batch, the view does not.
struct Owned {
    place: u64,
    ledger: Ledger,
    view: Arc<View>,
}

/// The state of the writer thread.
pub(super) struct Writer {
    store: SharedStore,
    recovery: Recovery,
    limits: LogLimits,
    views: Arc<Views>,
    runs: HashMap<RunId, Owned>,
    next_place: u64,
}

impl Writer {
    /// Restores all stored runs. Places continue after the highest one that was found: a place is never used twice, so that events
    /// of a deleted run cannot be read as those of another.
    pub(super) fn new(
        store: SharedStore,
        recovery: Recovery,
        limits: LogLimits,
        views: Arc<Views>,
        found: Vec<Found>,
    ) -> Self {
        let next_place = found.iter().map(|run| run.place + 1).max().unwrap_or(1);
        let mut runs = HashMap::new();
        for Found { place, ledger, controls } in found {
            let view = Arc::new(View::new(place, ledger.clone(), controls));
            views.insert(&view);
            runs.insert(ledger.state.meta.run_id.clone(), Owned { place, ledger, view });
        }
        Self { store, recovery, limits, views, runs, next_place }
    }

    /// Handles commands until all senders are dropped.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut group = Vec::with_capacity(QUEUE);
        while commands.blocking_recv_many(&mut group, QUEUE) > 0 {
            self.handle_group(&mut group);
        }
    }

    /// Applies a group of commands as one batch, commits it, and answers all of them.
    /// The commands of a group see the changes of earlier ones in it, by the ledgers. A failed commit
    /// fails all of them; the ledgers then contain changes that were not stored, and are reset from the
    /// views before the next group (`usable`).
    fn handle_group(&mut self, group: &mut Vec<Command>) {
        let store = match self.usable() {
            Ok(store) => store,
            Err(error) => return group.drain(..).for_each(|command| command.refuse(error.clone())),
        };
        let mut batch = store.batch();
        let mut completions: Vec<Completion> = Vec::with_capacity(group.len());
        for command in group.drain(..) {
            if let Some(complete) = self.handle_command(command, &mut batch) {
                completions.push(complete);
            }
        }
        // One sync for the whole group: this is what makes many small appends cheap.
        let committed = batch.commit();
        if let Err(error) = &committed {
            self.recovery.broken = Some(error.clone());
        }
        // Completions publish to the views in the order of the commands, so watchers see changes in the
        // order of the log.
        for complete in completions {
            complete(committed.clone());
        }
    }

    /// Returns the database, reopened if it failed. After reopening, the ledgers equal the views.
    fn usable(&mut self) -> Result<Store, LogError> {
        if let Some(error) = self.recovery.broken.clone() {
            if !self.recovery.recover(&self.store, &self.views) {
                return Err(self.recovery.broken.clone().unwrap_or(error));
            }
            let views = &self.views;
            self.runs.retain(|run, owned| {
                owned.ledger = owned.view.ledger();
                views.get(run).is_ok()
            });
        }
        self.store.get()
    }

    /// Checks a command against its ledger and adds its changes to the batch. Returns the completion to call after the commit.
    fn handle_command(&mut self, command: Command, batch: &mut Batch<'_>) -> Option<Completion> {
        match command {
            Command::Open { meta, until, answer } => {
                let opened = self.open(meta, until, batch);
                let views = Arc::clone(&self.views);
                then(opened, answer, move |(lease, view)| {
                    views.insert(&view);
                    lease
                })
            }
            Command::TakeOver { run, now, until, answer } => {
                let taken = self.owned(&run).and_then(|owned| {
                    let lease = owned.ledger.take_over(now, until)?;
                    batch.record(owned.place, &owned.ledger);
                    Ok((lease, owned.published()))
                });
                then(taken, answer, |(lease, publish)| {
                    publish(Vec::new());
                    lease
                })
            }
            Command::Renew { leases, until, answer } => {
                let lost = self.renew(leases, until);
                then(Ok(lost), answer, |(lost, published)| {
                    for publish in published {
                        publish(Vec::new());
                    }
                    lost
                })
            }
            Command::Append { lease, events, now, answer } => self.append(&lease, events, now, answer, batch),
            Command::Annotate { lease, note, answer } => {
                let noted = self.annotate(&lease, &note, batch);
                then(noted, answer, |publish: Publish| publish(Vec::new()))
            }
            // Not written to the disk: after a restart there are no watchers.
            Command::Watched { run, until, answer } => {
                let noted = self.owned(&run).map(|owned| {
                    owned.ledger.watched(until);
                    owned.published()
                });
                then(noted, answer, |publish: Publish| publish(Vec::new()))
            }
            Command::Control { run, message, answer } => {
                let sent = self.control(&run, message, batch);
                then(sent, answer, |publish| publish())
            }
            Command::Trim { run, earliest, answer } => {
                let trimmed = self.trim(&run, earliest, batch);
                then(trimmed, answer, |publish: Publish| publish(Vec::new()))
            }
            // A write that is synced with the group: the disk is writable if it succeeds.
            Command::Check { answer } => {
                batch.probe();
                then(Ok(()), answer, |()| ())
            }
            Command::Expire { before, answer } => {
                // The answer needs no sync, and a caller that dropped its future needs none.
                answer.send(self.expire(before)).ok();
                None
            }
        }
    }

    /// Returns a run. Returns [`LogError::NotFound`] if it was never opened, or was deleted.
    /// The ledger may contain changes of the current group that are not synced yet.
    fn owned(&mut self, run: &RunId) -> Result<&mut Owned, LogError> {
        self.runs.get_mut(run).ok_or_else(|| LogError::NotFound(run.clone()))
    }

    /// Adds a run to the batch. Deletes the run that ended first if there are `runs.limit` already.
    fn open(
        &mut self,
        meta: RunMeta,
        until: Timestamp,
        batch: &mut Batch<'_>,
    ) -> Result<(Lease, Arc<View>), LogError> {
        if self.runs.contains_key(&meta.run_id) {
            return Err(LogError::Exists(meta.run_id));
        }
        // The deletion is committed by itself, before the batch of this group.
        if self.runs.len() >= self.limits.runs {
            self.forget_oldest()?;
        }
        let (place, ledger) = (self.next_place, Ledger::new(meta, until));
        self.next_place += 1;
        batch.record(place, &ledger);
        let view = Arc::new(View::new(place, ledger.clone(), Vec::new()));
        let lease = ledger.lease();
        self.runs.insert(lease.run_id.clone(), Owned { place, ledger, view: Arc::clone(&view) });
        Ok((lease, view))
    }

    /// Extends leases in memory alone: a lease that outlives the process is worthless, because its holder is gone. Returns the lost
    /// leases.
    fn renew(&mut self, leases: Vec<Lease>, until: Timestamp) -> (Vec<Lease>, Vec<Publish>) {
        let (mut lost, mut published) = (Vec::new(), Vec::new());
        for lease in leases {
            let owned = self.runs.get_mut(&lease.run_id);
            match owned.and_then(|owned| owned.ledger.renew(&lease, until).then(|| owned.published())) {
                Some(publish) => published.push(publish),
                None => lost.push(lease),
            }
        }
        (lost, published)
    }

    /// Adds events to the batch. The caller gets them back with an error if the batch fails, so that it can retry.
    fn append(
        &mut self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
        answer: oneshot::Sender<Result<u64, Refused>>,
        batch: &mut Batch<'_>,
    ) -> Option<Completion> {
        let limits = self.limits;
        // A refused batch is returned at once; an accepted one after the sync.
        let staged =
            self.owned(&lease.run_id).and_then(|owned| owned.append(lease, &events, now, &limits, batch));
        match staged {
            Ok((head, publish)) => Some(Box::new(move |committed| {
                let result = match committed {
                    Ok(()) => {
                        publish(events);
                        Ok(head)
                    }
                    Err(error) => Err(Refused::new(error, events)),
                };
                answer.send(result).ok();
            })),
            Err(error) => {
                answer.send(Err(Refused::new(error, events))).ok();
                None
            }
        }
    }

    /// Adds a note to the batch. It replaces an earlier note of its kind.
    /// The value is encoded before the ledger changes, so that a value without a form changes nothing.
    fn annotate(&mut self, lease: &Lease, note: &Note, batch: &mut Batch<'_>) -> Result<Publish, LogError> {
        let limits = self.limits;
        let owned = self.owned(&lease.run_id)?;
        let bytes = encode_value(note.value()).map_err(|error| unwritable(&lease.run_id, &error))?;
        owned.ledger.annotate(lease, note, &limits)?;
        batch.note(owned.place, note, bytes);
        Ok(owned.published())
    }

    /// Adds a control message to the batch, and returns what publishes it.
    fn control(
        &mut self,
        run: &RunId,
        message: Control,
        batch: &mut Batch<'_>,
    ) -> Result<impl FnOnce() + Send + use<>, LogError> {
        let limits = self.limits;
        let owned = self.owned(run)?;
        let bytes = encode_control(&message).map_err(|error| unwritable(run, &error))?;
        owned.ledger.control(&message, &limits)?;
        batch.control(owned.place, owned.ledger.controls, bytes);
        let (view, ledger) = (Arc::clone(&owned.view), owned.ledger.clone());
        Ok(move || view.publish_control(&ledger, message))
    }

    /// Removes the events below `earliest` with the batch. Adds nothing to it if there are none, so that a run whose ledger equals its
    /// view has no record in the batch (`ended_at`). Costs one removed key per trimmed event.
    fn trim(&mut self, run: &RunId, earliest: u64, batch: &mut Batch<'_>) -> Result<Publish, LogError> {
        let owned = self.owned(run)?;
        let first = owned.ledger.state.earliest;
        let gone = owned.ledger.trim(earliest);
        for number in first..first + gone {
            batch.forget_event(owned.place, number);
        }
        if gone > 0 {
            batch.record(owned.place, &owned.ledger);
        }
        Ok(owned.published())
    }

    /// Deletes the runs that ended before a time, and returns their number.
    fn expire(&mut self, before: Timestamp) -> Result<usize, LogError> {
        let is_over = |owned: &Owned| owned.ended_at().is_some_and(|ended| ended < before);
        let over: Vec<RunId> =
            self.runs.iter().filter(|(_, owned)| is_over(owned)).map(|(run, _)| run.clone()).collect();
        over.iter().try_for_each(|run| self.forget(run))?;
        self.recovery.tighten();
        Ok(over.len())
    }

    /// Deletes the run that ended first, to make room for a new one.
    fn forget_oldest(&mut self) -> Result<(), LogError> {
        let ended = self.runs.iter().filter_map(|(run, owned)| Some((owned.ended_at()?, run)));
        let oldest = ended.min_by_key(|(ended, _)| *ended).map(|(_, run)| run.clone());
        self.forget(&oldest.ok_or(LogError::Full { max: self.limits.runs })?)
    }

    /// Deletes a run from the disk, the ledgers and the views.
    /// The disk first: if it fails, the run stays in memory and can be deleted again.
    fn forget(&mut self, run: &RunId) -> Result<(), LogError> {
        let Some(owned) = self.runs.get(run) else { return Ok(()) };
        self.store.get()?.remove(owned.place, owned.ledger.state.earliest, owned.ledger.state.head)?;
        self.runs.remove(run);
        self.views.remove(run);
        Ok(())
    }
}

/// Publishes the synced state: the ledger at the time of creation, and events up to its head.
type Publish = Box<dyn FnOnce(Vec<BlockEvent>) + Send>;

impl Owned {
    /// Returns the time of the run's end once its record is synced. A run whose end or trim waits in the batch must not be deleted
    /// yet: the commit of the batch would write its record again.
    fn ended_at(&self) -> Option<Timestamp> {
        let synced = self.view.state();
        synced.closed_at.filter(|_| synced.earliest == self.ledger.state.earliest)
    }

    /// Returns what publishes the present ledger. A later change of the same batch publishes its own.
    fn published(&self) -> Publish {
        let (view, ledger) = (Arc::clone(&self.view), self.ledger.clone());
        Box::new(move |events| view.publish(ledger, events))
    }

    /// Encodes events, counts them, and adds them to the batch. A terminal event writes the record as well.
    fn append(
        &mut self,
        lease: &Lease,
        events: &[BlockEvent],
        now: Timestamp,
        limits: &LogLimits,
        batch: &mut Batch<'_>,
    ) -> Result<(u64, Publish), LogError> {
        // Encoding precedes the change of the ledger: an event without a form refuses the batch and changes
        // nothing.
        let mut encoder = Encoder::default();
        let written = events.iter().map(|event| encoder.encode(event)).collect::<Result<Vec<_>, _>>();
        let written = written.map_err(|error| unwritable(&lease.run_id, &error))?;
        let head = self.ledger.append(lease, events, now, limits)?;
        for (number, bytes) in (head + 1 - count(events.len())..).zip(written) {
            batch.event(self.place, number, bytes);
        }
        if self.ledger.is_closed() {
            batch.record(self.place, &self.ledger);
        }
        Ok((head, self.published()))
    }
}

/// Returns the error for an event that the encoding cannot represent.
fn unwritable(run: &RunId, error: &CodecError) -> LogError {
    LogError::Unreadable { run: run.clone(), what: error.to_string() }
}

/// Answers a refusal at once, and a success after the group was synced.
fn then<S: Send + 'static, T: Send + 'static>(
    staged: Result<S, LogError>,
    answer: Answer<T>,
    show: impl FnOnce(S) -> T + Send + 'static,
) -> Option<Completion> {
    match staged {
        Ok(staged) => Some(Box::new(move |committed| {
            // A caller that dropped its future needs no answer.
            answer.send(committed.map(|()| show(staged))).ok();
        })),
        Err(error) => {
            answer.send(Err(error)).ok();
            None
        }
    }
}

#[cfg(test)]
mod tests;
