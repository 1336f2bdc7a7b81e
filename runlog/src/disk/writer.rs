//! The writer thread: the only thread that changes the disk. It handles commands in groups.
//!
//! ```text
//! callers ── commands (bounded) ──► check against the ledgers ──► one batch ──► fdatasync ──► views, answers
//!             └ the next group collects here while a group is synced
//! ```
//!
//! Invariants: a command is answered after its change is synced; watchers see only synced changes; after a failed commit
//! every command is refused until the database was reopened and restored (`recovery`).

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::command::{Answer, Command};
use super::recovery::{Recovery, SharedStore};
use super::store::{Batch, Store, StoredRun};
use super::view::{View, Views};
use crate::codec::{CodecError, Encoder, encode_control, encode_value};
use crate::error::{LogError, Refused};
use crate::ledger::Ledger;
use crate::limits::{LogLimits, count};
use crate::log::{Control, Lease, Note, RunMeta};

/// Commands that wait for the disk. If the queue is full, callers wait, which is the back-pressure for their agents.
pub(super) const QUEUE: usize = 1024;

/// The completion of a command, called after its group was synced.
type Completion = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// A run of the writer. The ledger includes changes of the current batch; the view does not.
struct RunEntry {
    /// The key of the run in the database.
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
    runs: HashMap<RunId, RunEntry>,
    next_place: u64,
}

impl Writer {
    /// Returns a writer of the stored runs `found`. New runs get places above all stored ones. A place is used again only
    /// after a restart and after its run was removed completely, so that no event of a deleted run is read as an event of
    /// another.
    pub(super) fn new(
        store: SharedStore,
        recovery: Recovery,
        limits: LogLimits,
        views: Arc<Views>,
        found: Vec<StoredRun>,
    ) -> Self {
        let next_place = found.iter().map(|run| run.place + 1).max().unwrap_or(1);
        let mut runs = HashMap::new();
        for StoredRun { place, ledger, controls } in found {
            let view = Arc::new(View::new(place, ledger.clone(), controls));
            views.insert(&view);
            runs.insert(ledger.state.meta.run_id.clone(), RunEntry { place, ledger, view });
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

    /// Applies a group of commands as one batch, commits it, and answers all commands. A command sees
    /// the changes of earlier commands of its group in the ledgers. A failed commit fails all commands;
    /// the ledgers then contain changes that were not stored, and are reset from the views before the
    /// next group (`usable`).
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

    /// Returns the database, and reopens it after a failed commit. After reopening, the ledgers equal the views.
    fn usable(&mut self) -> Result<Store, LogError> {
        if let Some(error) = self.recovery.broken.clone() {
            if !self.recovery.recover(&self.store, &self.views) {
                return Err(self.recovery.broken.clone().unwrap_or(error));
            }
            let views = &self.views;
            self.runs.retain(|run, entry| {
                entry.ledger = entry.view.ledger();
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
                answer_after_sync(opened, answer, move |(lease, view)| {
                    views.insert(&view);
                    lease
                })
            }
            Command::TakeOver { run, now, until, answer } => {
                let taken = self.entry(&run).and_then(|entry| {
                    let lease = entry.ledger.take_over(now, until)?;
                    batch.record(entry.place, &entry.ledger);
                    Ok((lease, entry.publish_fn()))
                });
                answer_after_sync(taken, answer, |(lease, publish)| {
                    publish(Vec::new());
                    lease
                })
            }
            Command::Renew { leases, until, answer } => {
                let lost = self.renew(leases, until);
                answer_after_sync(Ok(lost), answer, |(lost, published)| {
                    for publish in published {
                        publish(Vec::new());
                    }
                    lost
                })
            }
            Command::Append { lease, events, now, answer } => self.append(&lease, events, now, answer, batch),
            Command::Annotate { lease, note, answer } => {
                let noted = self.annotate(&lease, &note, batch);
                answer_after_sync(noted, answer, |publish: Publish| publish(Vec::new()))
            }
            // Not written to the disk: after a restart there are no watchers.
            Command::Watched { run, until, answer } => {
                let noted = self.entry(&run).map(|entry| {
                    entry.ledger.watched(until);
                    entry.publish_fn()
                });
                answer_after_sync(noted, answer, |publish: Publish| publish(Vec::new()))
            }
            Command::Control { run, message, answer } => {
                let sent = self.control(&run, message, batch);
                answer_after_sync(sent, answer, |publish| publish())
            }
            Command::Trim { run, earliest, answer } => {
                let trimmed = self.trim(&run, earliest, batch);
                answer_after_sync(trimmed, answer, |publish: Publish| publish(Vec::new()))
            }
            // A write that is synced with the group: the disk is writable if it succeeds.
            Command::Check { answer } => {
                batch.probe();
                answer_after_sync(Ok(()), answer, |()| ())
            }
            Command::Expire { before, answer } => {
                // Deletions are committed by themselves, so the answer does not wait for the batch. A caller that dropped
                // its future needs no answer.
                answer.send(self.expire(before)).ok();
                None
            }
        }
    }

    /// Returns a run, or [`LogError::NotFound`] if it was never opened or was deleted. The ledger may
    /// contain changes of the current group that are not synced yet.
    fn entry(&mut self, run: &RunId) -> Result<&mut RunEntry, LogError> {
        self.runs.get_mut(run).ok_or_else(|| LogError::NotFound(run.clone()))
    }

    /// Adds a run to the batch. If the log is full, deletes the run that ended first.
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
            self.delete_oldest()?;
        }
        let (place, ledger) = (self.next_place, Ledger::new(meta, until));
        self.next_place += 1;
        batch.record(place, &ledger);
        let view = Arc::new(View::new(place, ledger.clone(), Vec::new()));
        let lease = ledger.lease();
        self.runs.insert(lease.run_id.clone(), RunEntry { place, ledger, view: Arc::clone(&view) });
        Ok((lease, view))
    }

    /// Extends leases in memory only, because a lease ends with the process that holds it. Returns the lost leases, and the
    /// functions that publish the others.
    fn renew(&mut self, leases: Vec<Lease>, until: Timestamp) -> (Vec<Lease>, Vec<Publish>) {
        let (mut lost, mut published) = (Vec::new(), Vec::new());
        for lease in leases {
            let entry = self.runs.get_mut(&lease.run_id);
            match entry.and_then(|entry| entry.ledger.renew(&lease, until).then(|| entry.publish_fn())) {
                Some(publish) => published.push(publish),
                None => lost.push(lease),
            }
        }
        (lost, published)
    }

    /// Adds events to the batch. If the events are refused or the commit fails, the caller gets them back with the error,
    /// so that it can retry.
    fn append(
        &mut self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
        answer: oneshot::Sender<Result<u64, Refused>>,
        batch: &mut Batch<'_>,
    ) -> Option<Completion> {
        let limits = self.limits;
        // A refusal is answered at once, a success after the sync.
        let staged =
            self.entry(&lease.run_id).and_then(|entry| entry.append(lease, &events, now, &limits, batch));
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

    /// Adds a note to the batch, which replaces an earlier note of its kind. The value is encoded before
    /// the ledger changes, so that a value that cannot be encoded changes nothing.
    fn annotate(&mut self, lease: &Lease, note: &Note, batch: &mut Batch<'_>) -> Result<Publish, LogError> {
        let limits = self.limits;
        let entry = self.entry(&lease.run_id)?;
        let bytes = encode_value(note.value()).map_err(|error| unwritable(&lease.run_id, &error))?;
        entry.ledger.annotate(lease, note, &limits)?;
        batch.note(entry.place, note, bytes);
        Ok(entry.publish_fn())
    }

    /// Adds a control message to the batch, and returns the function that publishes it.
    fn control(
        &mut self,
        run: &RunId,
        message: Control,
        batch: &mut Batch<'_>,
    ) -> Result<impl FnOnce() + Send + use<>, LogError> {
        let limits = self.limits;
        let entry = self.entry(run)?;
        let bytes = encode_control(&message).map_err(|error| unwritable(run, &error))?;
        entry.ledger.control(&message, &limits)?;
        batch.control(entry.place, entry.ledger.controls, bytes);
        let (view, ledger) = (Arc::clone(&entry.view), entry.ledger.clone());
        Ok(move || view.publish_control(&ledger, message))
    }

    /// Adds the removal of the events below `earliest` to the batch, one key per event. If there are none, adds no record
    /// either: [`RunEntry::ended_at`] relies on a run whose ledger equals its view having no record in the batch.
    fn trim(&mut self, run: &RunId, earliest: u64, batch: &mut Batch<'_>) -> Result<Publish, LogError> {
        let entry = self.entry(run)?;
        let first = entry.ledger.state.earliest;
        let gone = entry.ledger.trim(earliest);
        for number in first..first + gone {
            batch.forget_event(entry.place, number);
        }
        if gone > 0 {
            batch.record(entry.place, &entry.ledger);
        }
        Ok(entry.publish_fn())
    }

    /// Deletes the runs that ended before a time, and returns their number.
    fn expire(&mut self, before: Timestamp) -> Result<usize, LogError> {
        let is_over = |entry: &RunEntry| entry.ended_at().is_some_and(|ended| ended < before);
        let over: Vec<RunId> =
            self.runs.iter().filter(|(_, entry)| is_over(entry)).map(|(run, _)| run.clone()).collect();
        over.iter().try_for_each(|run| self.delete(run))?;
        self.recovery.tighten();
        Ok(over.len())
    }

    /// Deletes the run that ended first, to make room for a new one.
    fn delete_oldest(&mut self) -> Result<(), LogError> {
        let ended = self.runs.iter().filter_map(|(run, entry)| Some((entry.ended_at()?, run)));
        let oldest = ended.min_by_key(|(ended, _)| *ended).map(|(_, run)| run.clone());
        self.delete(&oldest.ok_or(LogError::Full { max: self.limits.runs })?)
    }

    /// Deletes a run from the disk, the ledgers and the views. The disk comes first: if it fails, the
    /// run stays in memory and can be deleted again.
    fn delete(&mut self, run: &RunId) -> Result<(), LogError> {
        let Some(entry) = self.runs.get(run) else { return Ok(()) };
        self.store.get()?.remove(entry.place, entry.ledger.state.earliest, entry.ledger.state.head)?;
        self.runs.remove(run);
        self.views.remove(run);
        Ok(())
    }
}

/// Publishes the synced state to the view: the ledger as it was when the function was created, and the events of the
/// append.
type Publish = Box<dyn FnOnce(Vec<BlockEvent>) + Send>;

impl RunEntry {
    /// Returns the time of the run's end. Returns `None` while the batch contains a record of the run (its end, or a trim):
    /// if the run were deleted now, the commit of the batch would write its record again.
    fn ended_at(&self) -> Option<Timestamp> {
        let synced = self.view.state();
        synced.closed_at.filter(|_| synced.earliest == self.ledger.state.earliest)
    }

    /// Returns the function that publishes the present ledger. A later change in the same batch publishes its own ledger.
    fn publish_fn(&self) -> Publish {
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
        // Encoding precedes the change of the ledger: an event that cannot be encoded refuses the batch and
        // changes nothing.
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
        Ok((head, self.publish_fn()))
    }
}

/// Returns the error for a value that cannot be encoded.
fn unwritable(run: &RunId, error: &CodecError) -> LogError {
    LogError::Unreadable { run: run.clone(), what: error.to_string() }
}

/// Answers a refusal at once. For a success, returns a completion that publishes the change and answers after the sync.
fn answer_after_sync<S: Send + 'static, T: Send + 'static>(
    staged: Result<S, LogError>,
    answer: Answer<T>,
    publish: impl FnOnce(S) -> T + Send + 'static,
) -> Option<Completion> {
    match staged {
        Ok(staged) => Some(Box::new(move |committed| {
            // A caller that dropped its future needs no answer.
            answer.send(committed.map(|()| publish(staged))).ok();
        })),
        Err(error) => {
            answer.send(Err(error)).ok();
            None
        }
    }
}

#[cfg(test)]
mod tests;
