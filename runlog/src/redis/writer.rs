//! The writers of open runs. A writer keeps its last appends for a while, because a server that fails over may come back
//! without the last seconds.
//!
//! ```text
//! append ──► script ── ok ──────────► window (kept for `WINDOW`)
//!              │
//!              └ behind: the log ends before the last acknowledged event ──► the window again, then the batch
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::time::Instant;

use super::keys::Keys;
use super::link::{Call, Link, strange};
use super::reply::{CHECKPOINT, INPUT, Reply};
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

/// The writer of one run.
#[derive(Debug)]
pub(super) struct Pen {
    lease: Lease,
    /// The number of the last acknowledged event.
    head: u64,
    window: VecDeque<Kept>,
    bytes: usize,
    encoder: Encoder,
    /// The notes of this lease, one of each kind, for a log that comes back without them.
    notes: HashMap<&'static str, (u64, Vec<u8>)>,
}

/// An encoded event in the window of recent appends.
#[derive(Debug, Clone)]
struct Kept {
    at: Instant,
    weight: u64,
    event: Vec<u8>,
}

/// The writers of this process.
#[derive(Debug, Default)]
pub(super) struct Pens(Mutex<HashMap<RunId, (Lease, SharedPen)>>);

pub(super) type SharedPen = Arc<tokio::sync::Mutex<Pen>>;

impl Pens {
    fn all(&self) -> MutexGuard<'_, HashMap<RunId, (Lease, SharedPen)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, lease: &Lease, head: u64) {
        let pen = Pen {
            lease: lease.clone(),
            head,
            window: VecDeque::new(),
            bytes: 0,
            encoder: Encoder::default(),
            notes: HashMap::new(),
        };
        let pen = Arc::new(tokio::sync::Mutex::new(pen));
        self.all().insert(lease.run_id.clone(), (lease.clone(), pen));
    }

    pub(super) fn get(&self, lease: &Lease) -> Option<SharedPen> {
        self.all().get(&lease.run_id).filter(|(held, _)| held == lease).map(|(_, pen)| Arc::clone(pen))
    }

    /// Removes the writer of a lease. An old lease does not remove the writer of a newer one.
    pub(super) fn remove(&self, lease: &Lease) {
        let mut all = self.all();
        if all.get(&lease.run_id).is_some_and(|(held, _)| held == lease) {
            all.remove(&lease.run_id);
        }
    }
}

/// The parts of the engine that a writer uses.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) link: Arc<Link>,
    pub(super) keys: Keys,
    pub(super) scripts: Arc<Scripts>,
    pub(super) limits: LogLimits,
    /// How long keys live after they were written or renewed, in milliseconds.
    pub(super) expiry: u64,
}

impl Pen {
    /// Appends all events or none, and returns the number of the last.
    pub(super) async fn append(
        &mut self,
        desk: &Desk,
        events: &[BlockEvent],
        now: Timestamp,
    ) -> Result<u64, LogError> {
        if events.iter().rev().skip(1).any(BlockEvent::is_terminal) {
            return Err(LogError::AfterTerminal(self.lease.run_id.clone()));
        }
        let closing = events.last().is_some_and(BlockEvent::is_terminal).then_some(now);
        let encoded = self.encode(events)?;
        let head = self.write(desk, self.head + 1, &encoded, closing).await?;
        self.head = head;
        self.keep(encoded);
        Ok(head)
    }

    /// Stores a note of the run.
    pub(super) async fn annotate(&mut self, desk: &Desk, note: &Note) -> Result<(), LogError> {
        let run = &self.lease.run_id;
        let unwritable = |what: String| LogError::Unreadable { run: run.clone(), what };
        let bytes = encode_value(note.value()).map_err(|error| unwritable(error.to_string()))?;
        let field = match note {
            Note::Input(_) => INPUT,
            Note::Checkpoint(_) => CHECKPOINT,
        };
        let weight = count(value_weight(note.value()));
        self.write_note(desk, field, weight, &bytes).await?;
        self.notes.insert(field, (weight, bytes));
        Ok(())
    }

    async fn write_note(&self, desk: &Desk, field: &str, weight: u64, bytes: &[u8]) -> Result<(), LogError> {
        let (run, max) = (&self.lease.run_id, desk.limits.bytes_per_run);
        let call = Call::default().key(desk.keys.meta(run)).arg(self.lease.epoch).arg(field);
        let call = call.bytes(bytes.to_vec()).arg(weight).arg(max);
        let reply: Reply = desk.link.script(&desk.scripts.annotate, &call).await?;
        match reply.word.as_str() {
            "ok" => Ok(()),
            "bytes" => {
                Err(LogError::RunTooLong { run: run.clone(), limit: "bytes_per_run", what: "bytes", max })
            }
            _ => Err(reply.refusal(run, self.lease.epoch)),
        }
    }

    fn encode(&mut self, events: &[BlockEvent]) -> Result<Vec<Kept>, LogError> {
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
    async fn write(
        &self,
        desk: &Desk,
        first: u64,
        batch: &[Kept],
        closing: Option<Timestamp>,
    ) -> Result<u64, LogError> {
        loop {
            let reply = self.call(desk, first, batch, closing).await?;
            match reply {
                Ok(head) => return Ok(head),
                Err(behind) => {
                    let kept = count(self.window.len());
                    let start = self.head + 1 - kept;
                    let missing = (behind + 1).checked_sub(start).and_then(|skip| usize::try_from(skip).ok());
                    let lost = LogError::Lost { run: self.lease.run_id.clone(), from: behind + 1 };
                    for (field, (weight, bytes)) in &self.notes {
                        self.write_note(desk, field, *weight, bytes).await?;
                    }
                    let missing: Vec<Kept> = self.window.iter().skip(missing.ok_or(lost)?).cloned().collect();
                    // Only this writer appends under its epoch, so the log now ends where the batch starts.
                    self.call(desk, behind + 1, &missing, None).await?.ok();
                }
            }
        }
    }

    /// Calls the script. Returns the new head, or the head of a log that is behind.
    async fn call(
        &self,
        desk: &Desk,
        first: u64,
        batch: &[Kept],
        closing: Option<Timestamp>,
    ) -> Result<Result<u64, u64>, LogError> {
        let (run, limits) = (&self.lease.run_id, &desk.limits);
        let mut call = Call::default()
            .key(desk.keys.meta(run))
            .key(desk.keys.events(run))
            .arg(self.lease.epoch)
            .arg(first)
            .arg(closing.map(|at| at.0.to_string()).unwrap_or_default())
            .arg(batch.iter().map(|kept| kept.weight).sum::<u64>())
            .arg(limits.events_per_run)
            .arg(limits.bytes_per_run)
            .arg(desk.expiry);
        for kept in batch {
            call = call.bytes(kept.event.clone());
        }
        let mut reply: Reply = desk.link.script(&desk.scripts.append, &call).await?;
        let too_long = |limit, what, max| Err(LogError::RunTooLong { run: run.clone(), limit, what, max });
        match reply.word.as_str() {
            "ok" => Ok(Ok(reply.next()?)),
            "behind" => Ok(Err(reply.next()?)),
            "events" => too_long("events_per_run", "events", limits.events_per_run),
            "bytes" => too_long("bytes_per_run", "bytes", limits.bytes_per_run),
            "missing" | "closed" | "fenced" => Err(reply.refusal(run, self.lease.epoch)),
            _ => Err(strange(&[])),
        }
    }

    /// Adds a batch to the window, and drops events that are too old or too many.
    fn keep(&mut self, batch: Vec<Kept>) {
        self.bytes += batch.iter().map(|kept| kept.event.len()).sum::<usize>();
        self.window.extend(batch);
        let oldest = Instant::now().checked_sub(WINDOW);
        while self.bytes > WINDOW_BYTES || self.window.front().is_some_and(|kept| Some(kept.at) < oldest) {
            let Some(gone) = self.window.pop_front() else { break };
            self.bytes -= gone.event.len();
        }
    }
}
