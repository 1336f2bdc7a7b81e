//! The database on the disk: four keyspaces. All functions block.
//!
//! ```text
//! runs      place                 ► record: meta, epoch, earliest, head, …  place: a counter of opened runs
//! events    place · number        ► event (codec)                           numbers are big-endian, so keys sort by number
//! controls  place · index         ► message (codec)
//! notes     place · kind          ► value (codec)                           kind: 0 input, 1 checkpoint
//! ```
//!
//! A record is written when a run is opened, taken over, trimmed or closed, but not at an append: the head of an open run
//! is the number of its last event. Leases are not written: a record is read by a process that starts, and every lease was
//! held by a process before it.

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, ThreadId, Timestamp};
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use serde_json::Value;

use crate::codec::{CodecError, Decoder, Reader, Writer, decode_control, decode_value};
use crate::error::LogError;
use crate::ledger::Ledger;
use crate::limits::{count, value_weight, weight_of};
use crate::log::{Control, Note, RunMeta, RunState};

/// The version of run records. A program refuses records of other versions, so that it does not
/// misread the records of a newer program.
const RECORD: u8 = 1;

/// The size of the journal, which is read whole when the folder is opened: the smallest that fjall accepts.
const JOURNAL: u64 = 64 * 1024 * 1024;

/// The size at which the entries of a keyspace move from memory to a table: the smallest that fjall recommends. With its default of
/// 64 MiB, a gateway that is started after a crash reads the journal into memory and keeps it: 178 MB resident instead of 22 MB.
const MEMTABLE: u64 = 8 * 1024 * 1024;

/// The kinds of notes in keys.
const INPUT: u64 = 0;
const CHECKPOINT: u64 = 1;

/// Keys that are removed in one batch: deleting a run of a million events must not block all others.
const REMOVED_AT_ONCE: u64 = 10_000;

/// The database of a folder. Clones use the same database.
#[derive(Clone)]
pub(super) struct Store {
    database: Database,
    runs: Keyspace,
    events: Keyspace,
    controls: Keyspace,
    notes: Keyspace,
}

/// A stored run.
pub(super) struct StoredRun {
    /// The key of the run in all keyspaces.
    pub(super) place: u64,
    /// Restored from the record and, for an open run, from its events. The lease has lapsed.
    pub(super) ledger: Ledger,
    /// All messages to the owner, which a new owner receives again.
    pub(super) controls: Vec<Control>,
}

aqueduct_core::debug_fields!(Store {});

/// Returns the options of a keyspace. fjall stores them when it creates the keyspace.
pub(super) fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE)
}

/// Returns the error for a failed operation of the database.
fn unavailable(error: &fjall::Error) -> LogError {
    LogError::Unavailable(format!("the disk: {error}"))
}

/// Returns the error for bytes that cannot be decoded.
fn unreadable(run: &RunId) -> impl Fn(CodecError) -> LogError + '_ {
    |error| LogError::Unreadable { run: run.clone(), what: error.to_string() }
}

/// Returns the key of an event or message: place and number, both big-endian.
fn key(place: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let (head, tail) = key.split_at_mut(8);
    head.copy_from_slice(&place.to_be_bytes());
    tail.copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the range of all keys of a run. Keys sort by place, then by number, so the keys of a run
/// are contiguous.
fn key_range(place: u64) -> std::ops::RangeInclusive<[u8; 16]> {
    key(place, 0)..=key(place, u64::MAX)
}

/// Returns the number in a key, which is its second half. Returns `None` if the key has not 16 bytes.
fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(8..)?.try_into().ok()?))
}

impl Store {
    /// Opens or creates the database of a folder. Only the user of this process can read the files.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Unavailable`] if the folder cannot be created, or another process has it open.
    pub(super) fn open(folder: &Path) -> Result<Self, LogError> {
        let create = super::modes::create(folder);
        create.map_err(|error| {
            LogError::Unavailable(format!("cannot create the folder {}: {error}", folder.display()))
        })?;
        let open = || {
            let database = Database::builder(folder).max_journaling_size(JOURNAL).open()?;
            let keyspace = |name| database.keyspace(name, options);
            let (runs, events) = (keyspace("runs")?, keyspace("events")?);
            let (controls, notes) = (keyspace("controls")?, keyspace("notes")?);
            Ok(Self { database, runs, events, controls, notes })
        };
        let store = open().map_err(|error: fjall::Error| {
            LogError::Unavailable(format!("cannot open the folder {}: {error}", folder.display()))
        });
        super::modes::tighten(folder);
        store
    }

    /// Returns the bytes of events that have moved from memory to tables.
    #[cfg(test)]
    pub(super) fn events_in_tables(&self) -> u64 {
        self.events.disk_space()
    }

    /// Writes what is in memory to tables, and merges them.
    #[cfg(test)]
    pub(super) fn compact(&self) {
        for keyspace in [&self.runs, &self.events, &self.controls, &self.notes] {
            keyspace.rotate_memtable_and_wait().unwrap();
            keyspace.major_compact().unwrap();
        }
    }

    /// Returns all stored runs.
    pub(super) fn load(&self) -> Result<Vec<StoredRun>, LogError> {
        let mut found = Vec::new();
        for entry in self.runs.iter() {
            let (key, value) = entry.into_inner().map_err(|error| unavailable(&error))?;
            let place = key.get(..8).and_then(|place| place.try_into().ok()).map(u64::from_be_bytes);
            let place = place.ok_or_else(|| {
                LogError::Unavailable("the disk: the key of a run is shorter than 8 bytes".to_owned())
            })?;
            let mut ledger = read_record(Bytes::copy_from_slice(&value))
                .map_err(|error| LogError::Unavailable(format!("the disk: a run's record: {error}")))?;
            self.count(place, &mut ledger)?;
            ledger.state.checkpoint = self.note(&ledger.state.meta.run_id, place, CHECKPOINT)?;
            let controls = self.load_controls(place, &ledger)?;
            ledger.controls = controls.len();
            found.push(StoredRun { place, ledger, controls });
        }
        Ok(found)
    }

    /// Returns the places of all runs, each with the number of its last event. Used after a failed
    /// commit, to find runs and events that were written but never acknowledged.
    pub(super) fn places(&self) -> Result<Vec<(u64, u64)>, LogError> {
        let mut places = Vec::new();
        for entry in self.runs.iter() {
            let key = entry.key().map_err(|error| unavailable(&error))?;
            let place = key.get(..8).and_then(|place| place.try_into().ok()).map(u64::from_be_bytes);
            let Some(place) = place else { continue };
            let last = self.events.range(key_range(place)).next_back();
            let last = last.map(|last| last.key().map_err(|error| unavailable(&error))).transpose()?;
            places.push((place, last.and_then(|key| number_of(&key)).unwrap_or_default()));
        }
        Ok(places)
    }

    /// Makes the stored run equal to its ledger: removes events and messages that are not in the ledger,
    /// because they were never acknowledged. `last` is the number of the last stored event. The record
    /// is written, too, because the failed batch may have contained a later record.
    pub(super) fn restore(&self, place: u64, ledger: &Ledger, last: u64) -> Result<(), LogError> {
        let mut batch = self.batch();
        for number in ledger.state.head + 1..=last {
            batch.forget_event(place, number);
        }
        for entry in self.controls.range(key(place, count(ledger.controls) + 1)..=key(place, u64::MAX)) {
            let key = entry.key().map_err(|error| unavailable(&error))?;
            batch.batch.remove(&self.controls, key);
        }
        batch.record(place, ledger);
        batch.commit()
    }

    /// Determines the head and the size of an open run: reads all its events, a thousand at a time. The
    /// record of a closed run contains both, so a start reads the events of open runs only.
    fn count(&self, place: u64, ledger: &mut Ledger) -> Result<(), LogError> {
        if ledger.is_closed() {
            return Ok(());
        }
        let run = ledger.state.meta.run_id.clone();
        for kind in [INPUT, CHECKPOINT] {
            let note = self.note(&run, place, kind)?;
            ledger.bytes += note.map_or(0, |note| count(value_weight(&note)));
        }
        let last = self.events.range(key_range(place)).next_back();
        let Some(last) = last else { return Ok(()) };
        let last = last.key().map_err(|error| unavailable(&error))?;
        ledger.state.head = number_of(&last).unwrap_or_default();
        let (mut after, head) = (ledger.state.earliest - 1, ledger.state.head);
        while after < head {
            let page = self.read(&run, place, after, 1_000)?;
            let Some(last) = page.last() else { break };
            after = last.number;
            let events: Vec<BlockEvent> = page.into_iter().map(|event| event.event).collect();
            ledger.bytes += weight_of(&events);
        }
        Ok(())
    }

    /// Returns the input of a run.
    pub(super) fn input(&self, run: &RunId, place: u64) -> Result<Option<Arc<Value>>, LogError> {
        self.note(run, place, INPUT)
    }

    /// Returns a note of a run. Returns `None` if the run has no note of that kind.
    fn note(&self, run: &RunId, place: u64, kind: u64) -> Result<Option<Arc<Value>>, LogError> {
        let found = self.notes.get(key(place, kind)).map_err(|error| unavailable(&error))?;
        let read = |bytes: &[u8]| decode_value(Bytes::copy_from_slice(bytes)).map(Arc::new);
        found.map(|bytes| read(&bytes)).transpose().map_err(unreadable(run))
    }

    /// Returns the messages of a run, in the order of sending.
    fn load_controls(&self, place: u64, ledger: &Ledger) -> Result<Vec<Control>, LogError> {
        let run = &ledger.state.meta.run_id;
        let message = |entry: fjall::Guard| {
            let value = entry.value().map_err(|error| unavailable(&error))?;
            decode_control(Bytes::copy_from_slice(&value)).map_err(unreadable(run))
        };
        self.controls.range(key_range(place)).map(message).collect()
    }

    /// Reads at most `max` events with numbers above `after`. Every call has a new decoder: block heads
    /// are shared within a page, not between pages.
    pub(super) fn read(
        &self,
        run: &RunId,
        place: u64,
        after: u64,
        max: usize,
    ) -> Result<Vec<NumberedEvent>, LogError> {
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        let mut decoder = Decoder::default();
        let event = |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(|error| unavailable(&error))?;
            let event = decoder.decode(Bytes::copy_from_slice(&value)).map_err(unreadable(run))?;
            Ok(NumberedEvent { number: number_of(&key).unwrap_or_default(), event })
        };
        self.events.range(key(place, first)..=key(place, u64::MAX)).take(max).map(event).collect()
    }

    /// Starts a batch. Nothing is written until it is committed.
    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { store: self, batch: self.database.batch() }
    }

    /// Removes a run, its record last: after a crash the record is still there, and the next expiry removes the rest.
    pub(super) fn remove(&self, place: u64, earliest: u64, head: u64) -> Result<(), LogError> {
        let mut first = earliest;
        while first <= head {
            let last = head.min(first.saturating_add(REMOVED_AT_ONCE - 1));
            let mut batch = self.database.batch();
            for number in first..=last {
                batch.remove(&self.events, key(place, number));
            }
            batch.commit().map_err(|error| unavailable(&error))?;
            first = last.saturating_add(1);
        }
        let mut batch = self.database.batch();
        for entry in self.controls.range(key_range(place)) {
            let key = entry.key().map_err(|error| unavailable(&error))?;
            batch.remove(&self.controls, key);
        }
        for kind in [INPUT, CHECKPOINT] {
            batch.remove(&self.notes, key(place, kind));
        }
        batch.remove(&self.runs, place.to_be_bytes());
        batch.commit().map_err(|error| unavailable(&error))
    }
}

/// Changes that are committed together.
pub(super) struct Batch<'s> {
    store: &'s Store,
    batch: OwnedWriteBatch,
}

impl Batch<'_> {
    /// Writes the record of a run, which replaces an earlier record.
    pub(super) fn record(&mut self, place: u64, ledger: &Ledger) {
        self.batch.insert(&self.store.runs, place.to_be_bytes(), write_record(ledger));
    }

    /// Adds an event under its number.
    pub(super) fn event(&mut self, place: u64, number: u64, bytes: Vec<u8>) {
        self.batch.insert(&self.store.events, key(place, number), bytes);
    }

    /// Removes an event.
    pub(super) fn forget_event(&mut self, place: u64, number: u64) {
        self.batch.remove(&self.store.events, key(place, number));
    }

    /// Adds a message to the owner; `index` counts from 1.
    pub(super) fn control(&mut self, place: u64, index: usize, bytes: Vec<u8>) {
        self.batch.insert(&self.store.controls, key(place, count(index)), bytes);
    }

    /// Writes a note, which replaces an earlier note of its kind.
    pub(super) fn note(&mut self, place: u64, note: &Note, bytes: Vec<u8>) {
        let kind = match note {
            Note::Input(_) => INPUT,
            Note::Checkpoint(_) => CHECKPOINT,
        };
        self.batch.insert(&self.store.notes, key(place, kind), bytes);
    }

    /// Adds a write under a place that no run has, to test whether the disk is writable.
    pub(super) fn probe(&mut self) {
        self.batch.insert(&self.store.notes, key(u64::MAX, u64::MAX), []);
    }

    /// Commits all changes or none. Committed changes survive power loss.
    pub(super) fn commit(self) -> Result<(), LogError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.durability(Some(PersistMode::SyncData)).commit().map_err(|error| unavailable(&error))
    }
}

/// Encodes the part of a ledger that survives a restart, without lease and watchers. The checkpoint
/// and the messages are stored under keys of their own.
pub(super) fn write_record(ledger: &Ledger) -> Vec<u8> {
    let RunState { meta, epoch, earliest, head, closed_at, .. } = &ledger.state;
    let mut to = Writer::default();
    to.byte(RECORD);
    to.text(meta.run_id.as_str());
    to.text(meta.thread_id.as_str());
    to.text(&meta.agent);
    to.text(&meta.owner);
    to.signed(meta.opened_at.0);
    to.number(*epoch);
    to.number(*earliest);
    to.number(*head);
    to.number(ledger.bytes);
    to.optional(*closed_at, |to, at| to.signed(at.0));
    to.bytes
}

/// Decodes a record. The lease of the run has lapsed: the process that held it has ended.
///
/// # Errors
///
/// Returns [`CodecError::UnknownVersion`] for the record of a newer program, and another error for
/// damaged bytes.
pub(super) fn read_record(bytes: Bytes) -> Result<Ledger, CodecError> {
    let mut from = Reader::new(bytes);
    match from.byte("the version")? {
        RECORD => {}
        found => return Err(CodecError::UnknownVersion { found }),
    }
    let meta = RunMeta {
        run_id: RunId::new(from.text("a run id")?),
        thread_id: ThreadId::new(from.text("a thread id")?),
        agent: from.text("the name of an agent")?.to_string(),
        owner: from.text("an owner")?.to_string(),
        opened_at: Timestamp(from.signed("a time")?),
    };
    let mut ledger = Ledger::new(meta, Timestamp(i64::MIN));
    ledger.state.epoch = from.number("an epoch")?;
    ledger.state.earliest = from.number("a number")?.max(1);
    ledger.state.head = from.number("a number")?;
    ledger.bytes = from.number("a size")?;
    ledger.state.closed_at = from.optional("a time", |from| from.signed("a time").map(Timestamp))?;
    if ledger.state.closed_at.is_none() {
        // Appends do not write the record, so `Store::load` counts the events.
        (ledger.state.head, ledger.bytes) = (0, 0);
    }
    from.end()?;
    Ok(ledger)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aqueduct_core::{RunInfo, SourceEvent, StreamContext, Update};

    use super::*;
    use crate::log::RunLog as _;
    use crate::testing::meta;
    use crate::{DiskLog, LogLimits};

    #[tokio::test]
    async fn events_leave_memory_long_before_the_journal_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let log = DiskLog::open(folder.path(), LogLimits::default()).unwrap();
        let lease = log.open(meta("r"), Timestamp(9)).await.unwrap();
        let mut context = StreamContext::new(RunInfo::new("t", "r"));
        let text = "x".repeat(128 * 1024);
        for _ in 0..3 * MEMTABLE / (128 * 1024) {
            context.handle_event(SourceEvent::from(Update::text(text.clone()).in_message("m"))).unwrap();
            let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
            log.append(&lease, events, Timestamp(1)).await.unwrap();
        }
        let store = log.store.get().unwrap();
        // The database writes tables in threads of its own.
        let moved = async {
            while store.events_in_tables() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(60), moved).await.is_ok(),
            "all events are in memory"
        );
    }
}
