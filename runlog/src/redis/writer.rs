//! The writers of open runs. A writer keeps its last appends for a while, because a server that fails over may come back
//! without the last seconds.
//!
//! ```text
//! append ──► group ──► script ── ok ──────────► window (kept for `WINDOW`)
//!                        │
//!                        └ behind: the log ends before the last acknowledged event ──► the window again, then the batch
//! ```
//!
//! How appends travel to the server: [`group`](super::group).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::Cmd;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::time::Instant;

use super::controls::Received;
use super::group::Group;
use super::keys::Keys;
use super::link::{Call, Link, read, strange};
use super::reply::{self, Appended, CHECKPOINT, INPUT, Reply};
use super::scripts::Scripts;
use crate::codec::{Encoder, encode_value};
use crate::error::LogError;
use crate::limits::{LogLimits, count, value_weight, weight_of};
use crate::log::{Lease, Note};

/// The time for which appended events are kept: a server that syncs its file every second loses at most two seconds, and a
/// replica that takes over is seldom further behind.
const WINDOW: Duration = Duration::from_secs(10);
/// Bytes of encoded events that are kept per run.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of encoded events that are kept for all ended runs together.
const ENDED_BYTES: usize = 16 * 1024 * 1024;

/// The writer of one run under one lease. Its lock is held from the encoding of an append to its
/// answer, so the appends of one run are in order.
#[derive(Debug)]
pub(super) struct RunWriter {
    lease: Lease,
    /// The keys of the run's hash and of its stream.
    keys: [String; 2],
    /// The number of the last acknowledged event.
    pub(super) head: u64,
    /// The time of the end, if the last acknowledged event ended the run.
    pub(super) closed_at: Option<Timestamp>,
    window: VecDeque<Kept>,
    bytes: usize,
    encoder: Encoder,
    /// The notes of this lease, one of each kind, for a log that comes back without them.
    notes: BTreeMap<&'static str, (u64, Vec<u8>)>,
}

/// An encoded event in the window of recent appends.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    at: Instant,
    weight: u64,
    pub(super) event: Vec<u8>,
}

/// The writers of this process.
#[derive(Debug, Default)]
pub(super) struct RunWriters(Mutex<Writers>);

#[derive(Debug, Default)]
struct Writers {
    open: HashMap<RunId, Open>,
    /// Writers whose run ended in the last [`WINDOW`], for a server that comes back without the end.
    ended: VecDeque<Ended>,
    /// The bytes in the windows of ended writers.
    ended_bytes: usize,
    /// Runs whose leases were lost in the last [`WINDOW`], and when.
    lost: VecDeque<(Instant, RunId)>,
    /// The number of leases that were ever lost.
    losses: u64,
}

pub(super) type SharedRunWriter = Arc<tokio::sync::Mutex<RunWriter>>;

/// A writer of an open run.
#[derive(Debug)]
struct Open {
    lease: Lease,
    writer: SharedRunWriter,
    received: Received,
}

/// A writer whose run has ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    at: Instant,
    bytes: usize,
    pub(super) lease: Lease,
    pub(super) writer: SharedRunWriter,
}

impl Writers {
    fn held(&self, lease: &Lease) -> Option<&Open> {
        self.open.get(&lease.run_id).filter(|open| open.lease == *lease)
    }

    /// Removes ended writers that are too old or have too many bytes, and lost runs that are too old.
    fn trim(&mut self) {
        let oldest = Instant::now().checked_sub(WINDOW);
        while self.lost.front().is_some_and(|(at, _)| Some(*at) < oldest) {
            self.lost.pop_front();
        }
        while self.ended_bytes > ENDED_BYTES
            || self.ended.front().is_some_and(|ended| Some(ended.at) < oldest)
        {
            let Some(gone) = self.ended.pop_front() else { break };
            self.ended_bytes -= gone.bytes;
        }
    }
}

impl RunWriters {
    fn all(&self) -> MutexGuard<'_, Writers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the writer of a lease that was just taken. It replaces the writer of an earlier lease of
    /// this process.
    pub(super) fn insert(&self, lease: &Lease, head: u64, keys: &Keys, received: Received) {
        let writer = RunWriter {
            lease: lease.clone(),
            keys: [keys.meta(&lease.run_id), keys.events(&lease.run_id)],
            head,
            closed_at: None,
            window: VecDeque::new(),
            bytes: 0,
            encoder: Encoder::default(),
            notes: BTreeMap::new(),
        };
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let open = Open { lease: lease.clone(), writer, received };
        self.all().open.insert(lease.run_id.clone(), open);
    }

    /// Returns the writer of a lease. Returns `None` if the lease is not held by this process.
    pub(super) fn get(&self, lease: &Lease) -> Option<SharedRunWriter> {
        let all = self.all();
        all.held(lease).map(|open| Arc::clone(&open.writer))
    }

    /// Passes the messages that the owner has received to `use_received`. Returns `None` if the lease is not held by this process.
    pub(super) fn with_received<T>(
        &self,
        lease: &Lease,
        use_received: impl FnOnce(&mut Received) -> T,
    ) -> Option<T> {
        let mut all = self.all();
        let open = all.open.get_mut(&lease.run_id).filter(|open| open.lease == *lease)?;
        Some(use_received(&mut open.received))
    }

    /// Removes the writer of a lease, and returns it. An old lease does not remove the writer of a newer one.
    pub(super) fn remove(&self, lease: &Lease) -> Option<SharedRunWriter> {
        let mut all = self.all();
        all.held(lease)?;
        all.open.remove(&lease.run_id).map(|open| open.writer)
    }

    /// Removes the writer of a lease whose run has ended, and keeps it for [`WINDOW`].
    pub(super) fn end(&self, lease: &Lease) {
        let Some(writer) = self.remove(lease) else { return };
        // No append of the run is under way.
        let bytes = writer.try_lock().map_or(0, |writer| writer.bytes);
        let mut all = self.all();
        all.ended_bytes += bytes;
        all.ended.push_back(Ended { at: Instant::now(), bytes, lease: lease.clone(), writer });
        all.trim();
    }

    /// Removes the writer of a lost lease, and keeps the id of the run for [`WINDOW`].
    pub(super) fn lose(&self, lease: &Lease) {
        if self.remove(lease).is_some() {
            let mut all = self.all();
            all.lost.push_back((Instant::now(), lease.run_id.clone()));
            all.losses += 1;
            all.trim();
        }
    }

    /// Returns the runs whose leases were lost in the last [`WINDOW`].
    pub(super) fn lost(&self) -> Vec<RunId> {
        let mut all = self.all();
        all.trim();
        all.lost.iter().map(|(_, run)| run.clone()).collect()
    }

    /// Returns the number of leases that were ever lost.
    pub(super) fn losses(&self) -> u64 {
        self.all().losses
    }

    /// Returns the writers whose run ended in the last [`WINDOW`].
    pub(super) fn ended(&self) -> Vec<Ended> {
        let mut all = self.all();
        all.trim();
        all.ended.iter().cloned().collect()
    }
}

/// The parts of the engine that a writer uses.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    pub(super) keys: Keys,
    pub(super) scripts: Scripts,
    /// The appends on their way.
    pub(super) group: Group,
    pub(super) limits: LogLimits,
    /// How long keys live after they were written or renewed, in milliseconds.
    pub(super) expiry: u64,
}

impl Shared {
    /// Returns the call of the script for that many appends, up to its keys.
    pub(super) fn append_command(&self, appends: usize) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(self.scripts.append.get_hash()).arg(2 * appends);
        command
    }

    /// Adds the arguments that all appends of a call share.
    pub(super) fn add_limits(&self, command: &mut Cmd) {
        command.arg(self.limits.events_per_run).arg(self.limits.bytes_per_run).arg(self.expiry);
    }
}

impl RunWriter {
    /// Stores a note of the run.
    pub(super) async fn annotate(&mut self, shared: &Shared, note: &Note) -> Result<(), LogError> {
        let run = &self.lease.run_id;
        let unwritable = |what: String| LogError::Unreadable { run: run.clone(), what };
        let bytes = encode_value(note.value()).map_err(|error| unwritable(error.to_string()))?;
        let field = match note {
            Note::Input(_) => INPUT,
            Note::Checkpoint(_) => CHECKPOINT,
        };
        let weight = count(value_weight(note.value()));
        self.write_note(shared, field, weight, &bytes).await?;
        self.notes.insert(field, (weight, bytes));
        Ok(())
    }

    /// Calls the script. An equal value is accepted without effect, so a retry is harmless.
    async fn write_note(
        &self,
        shared: &Shared,
        field: &str,
        weight: u64,
        bytes: &[u8],
    ) -> Result<(), LogError> {
        let (run, max) = (&self.lease.run_id, shared.limits.bytes_per_run);
        let call = Call::default().key(shared.keys.meta(run)).arg(self.lease.epoch).arg(field);
        let call = call.bytes(bytes.to_vec()).arg(weight).arg(max);
        let reply: Reply = shared.link.script(&shared.scripts.annotate, &call).await?;
        match reply.word.as_str() {
            "ok" => Ok(()),
            "bytes" => {
                Err(LogError::RunTooLong { run: run.clone(), limit: "bytes_per_run", what: "bytes", max })
            }
            _ => Err(reply.refusal(run, self.lease.epoch)),
        }
    }

    /// Encodes a batch.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::AfterTerminal`] if an event follows a terminal one, and
    /// [`LogError::Unreadable`] for an event without a form.
    pub(super) fn encode(&mut self, events: &[BlockEvent]) -> Result<Vec<Kept>, LogError> {
        if events.iter().rev().skip(1).any(BlockEvent::is_terminal) {
            return Err(LogError::AfterTerminal(self.lease.run_id.clone()));
        }
        let at = Instant::now();
        let encode = |event: &BlockEvent| {
            let weight = weight_of(std::slice::from_ref(event));
            self.encoder.encode(event).map(|event| Kept { at, weight, event })
        };
        let encoded = events.iter().map(encode).collect::<Result<_, _>>();
        encoded
            .map_err(|error| LogError::Unreadable { run: self.lease.run_id.clone(), what: error.to_string() })
    }

    /// Writes a batch, after the events before it that the log lost.
    pub(super) async fn write(
        &self,
        shared: &Shared,
        first: u64,
        batch: &[Kept],
        closing: Option<Timestamp>,
        deadline: Instant,
    ) -> Result<u64, LogError> {
        loop {
            match self.call(shared, first, batch, closing, deadline).await? {
                Appended::Head(head) => return Ok(head),
                Appended::Refused(word) => return Err(self.refusal(&word, shared)),
                // Only this writer appends under its epoch, so the log then ends where the batch starts, unless the server
                // lost events again.
                Appended::Behind(behind) => self.restore(shared, behind, deadline).await?,
            }
        }
    }

    /// Appends again what the log lost: the server came back without its last seconds, ends at `behind`, and had
    /// acknowledged events up to `self.head`.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Lost`] if more was lost than the window holds.
    pub(super) async fn restore(
        &self,
        shared: &Shared,
        behind: u64,
        deadline: Instant,
    ) -> Result<(), LogError> {
        let start = self.head + 1 - count(self.window.len());
        let kept = (behind + 1).checked_sub(start).and_then(|skip| usize::try_from(skip).ok());
        let lost = LogError::Lost { run: self.lease.run_id.clone(), from: behind + 1 };
        for (field, (weight, bytes)) in &self.notes {
            self.write_note(shared, field, *weight, bytes).await?;
        }
        let missing: Vec<Kept> = self.window.iter().skip(kept.ok_or(lost)?).cloned().collect();
        match self.call(shared, behind + 1, &missing, self.closed_at, deadline).await? {
            Appended::Refused(word) => Err(self.refusal(&word, shared)),
            Appended::Head(_) | Appended::Behind(_) => Ok(()),
        }
    }

    /// Calls the script for this run alone, and retries it until `deadline`.
    async fn call(
        &self,
        shared: &Shared,
        first: u64,
        batch: &[Kept],
        closing: Option<Timestamp>,
        deadline: Instant,
    ) -> Result<Appended, LogError> {
        let mut command = shared.append_command(1);
        self.add_keys(&mut command);
        shared.add_limits(&mut command);
        self.add_append(&mut command, first, batch, closing);
        let answer = shared.link.run_script(&shared.scripts.append, &command, self.key(), deadline).await?;
        let line: String = read(answer)?;
        Appended::read(&line).ok_or_else(|| strange(&[]))
    }

    /// Returns the key that determines the node of the run.
    pub(super) fn key(&self) -> &[u8] {
        let [meta, _] = &self.keys;
        meta.as_bytes()
    }

    /// Adds the keys of the run to a call.
    pub(super) fn add_keys(&self, command: &mut Cmd) {
        command.arg(&self.keys);
    }

    /// Adds the arguments of an append to a call.
    pub(super) fn add_append(
        &self,
        command: &mut Cmd,
        first: u64,
        batch: &[Kept],
        closing: Option<Timestamp>,
    ) {
        command.arg(self.lease.epoch).arg(first);
        match closing {
            Some(at) => command.arg(at.0),
            None => command.arg(""),
        };
        command.arg(batch.iter().map(|kept| kept.weight).sum::<u64>()).arg(batch.len());
        for kept in batch {
            command.arg(kept.event.as_slice());
        }
    }

    /// Returns the error of an append that the script refused.
    pub(super) fn refusal(&self, word: &str, shared: &Shared) -> LogError {
        let (run, limits) = (self.lease.run_id.clone(), &shared.limits);
        match word {
            "events" => {
                let max = limits.events_per_run;
                LogError::RunTooLong { run, limit: "events_per_run", what: "events", max }
            }
            "bytes" => {
                let max = limits.bytes_per_run;
                LogError::RunTooLong { run, limit: "bytes_per_run", what: "bytes", max }
            }
            word => reply::refusal(word, &run, self.lease.epoch),
        }
    }

    /// Adds a batch to the window, and drops events that are too old or too many.
    pub(super) fn keep(&mut self, batch: Vec<Kept>, closing: Option<Timestamp>) {
        self.closed_at = closing;
        self.bytes += batch.iter().map(|kept| kept.event.len()).sum::<usize>();
        self.window.extend(batch);
        let oldest = Instant::now().checked_sub(WINDOW);
        while self.bytes > WINDOW_BYTES || self.window.front().is_some_and(|kept| Some(kept.at) < oldest) {
            let Some(gone) = self.window.pop_front() else { break };
            self.bytes -= gone.event.len();
        }
    }
}
