//! Group commit: appends of many runs travel in one call of one script.
//!
//! ```text
//! append ──► waiting ──► flight: one call for all that wait ──► a line per run ──► each caller
//!                          │ at most `FLIGHTS` at once; what arrives meanwhile waits for the next
//!                          └ the call failed, or the log of a run is behind ──► that append alone, retried until its deadline
//! ```
//!
//! Invariants: the appends of one run are never under way at the same time (an append holds the [`RunWriter`] of its run);
//! the fate of an append does not depend on its caller, which may be dropped; a run whose append fails delays no other run,
//! because only the first attempt is shared. The nodes of a cluster refuse a script with keys of several slots, so appends
//! to a cluster are never grouped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::{BlockEvent, Timestamp};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::Instant;

use super::link::read;
use super::reply::Appended;
use super::writer::{Kept, RunWriter, Shared};
use crate::error::LogError;

/// Calls that are under way at once: the server works on one while this process handles the answer to the other.
const FLIGHTS: usize = 2;
/// Appends of one call. The server does nothing else meanwhile: about a millisecond.
const GROUP: usize = 128;
/// Bytes of events of one call, unless a single append is larger.
const GROUP_BYTES: usize = 256 * 1024;

/// The outcome of an append, and its events.
pub(super) type Outcome = (Result<u64, LogError>, Vec<BlockEvent>);

/// An append on its way.
#[derive(Debug)]
pub(super) struct Append {
    writer: OwnedMutexGuard<RunWriter>,
    batch: Vec<Kept>,
    closing: Option<Timestamp>,
    events: Vec<BlockEvent>,
    deadline: Instant,
    caller: oneshot::Sender<Outcome>,
}

/// The appends that wait for a flight.
#[derive(Debug, Default)]
pub(super) struct Group(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Append>,
    flights: usize,
}

impl Group {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the appends of the next call.
    /// In the order of arrival, within [`GROUP`] and [`GROUP_BYTES`]; at least one, so that a large
    /// append is not stuck.
    fn take(&mut self) -> Vec<Append> {
        let mut bytes = 0;
        let fits = |append: &&Append| {
            bytes += append.bytes();
            bytes <= GROUP_BYTES
        };
        let count = self.waiting.iter().take(GROUP).take_while(fits).count();
        self.waiting.drain(..count.max(1).min(self.waiting.len())).collect()
    }
}

impl Append {
    /// Encodes an append of the run that `writer` writes. Returns it and the receiver of its outcome.
    pub(super) fn new(
        mut writer: OwnedMutexGuard<RunWriter>,
        shared: &Shared,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> Result<(Self, oneshot::Receiver<Outcome>), (LogError, Vec<BlockEvent>)> {
        let batch = match writer.encode(&events) {
            Ok(batch) => batch,
            Err(error) => return Err((error, events)),
        };
        let closing = events.last().is_some_and(BlockEvent::is_terminal).then_some(now);
        let (caller, outcome) = oneshot::channel();
        let deadline = shared.link.deadline();
        Ok((Self { writer, batch, closing, events, deadline, caller }, outcome))
    }

    /// Returns the size of the encoded events.
    fn bytes(&self) -> usize {
        self.batch.iter().map(|kept| kept.event.len()).sum()
    }

    /// Handles the answer of the script. Returns the append if it has to be repeated alone.
    fn handle(self, answer: Option<Appended>, shared: &Shared) -> Option<Self> {
        match answer {
            Some(Appended::Head(head)) => self.finish(Ok(head)),
            Some(Appended::Refused(word)) => {
                let error = self.writer.refusal(&word, shared);
                self.finish(Err(error));
            }
            Some(Appended::Behind(_)) | None => return Some(self),
        }
        None
    }

    /// Writes the append by itself, and retries it until its deadline.
    async fn write_alone(self, shared: Arc<Shared>) {
        let first = self.writer.head + 1;
        let written = self.writer.write(&shared, first, &self.batch, self.closing, self.deadline).await;
        self.finish(written);
    }

    /// Records the new head and sends the outcome. The writer is unlocked first, so that the caller's
    /// next append does not wait.
    fn finish(self, outcome: Result<u64, LogError>) {
        let Self { mut writer, batch, closing, events, caller, .. } = self;
        if let Ok(head) = outcome {
            writer.head = head;
            writer.keep(batch, closing);
        }
        drop(writer);
        // A caller that is gone needs no outcome.
        caller.send((outcome, events)).ok();
    }
}

/// Sends an append on its way. Its outcome arrives even if the caller is dropped.
pub(super) fn send(shared: &Arc<Shared>, append: Append) {
    if shared.link.is_cluster() {
        tokio::spawn(append.write_alone(Arc::clone(shared)));
        return;
    }
    let mut state = shared.group.state();
    state.waiting.push_back(append);
    Flight::start(shared, state);
}

/// One of [`FLIGHTS`]. It ends when no append waits.
struct Flight(Arc<Shared>);

impl Flight {
    fn start(shared: &Arc<Shared>, mut state: MutexGuard<'_, State>) {
        if state.flights < FLIGHTS && !state.waiting.is_empty() {
            state.flights += 1;
            drop(state);
            tokio::spawn(Self(Arc::clone(shared)).run());
        }
    }

    async fn run(self) {
        let shared = &self.0;
        loop {
            let group = shared.group.state().take();
            if group.is_empty() {
                return;
            }
            let lines = write_group(shared, &group).await;
            let mut lines = lines.as_deref().unwrap_or_default().split('\n');
            for append in group {
                if let Some(append) = append.handle(lines.next().and_then(Appended::read), shared) {
                    tokio::spawn(append.write_alone(Arc::clone(shared)));
                }
            }
        }
    }
}

impl Drop for Flight {
    /// Appends that arrived since the last look need another flight.
    fn drop(&mut self) {
        let mut state = self.0.group.state();
        state.flights -= 1;
        Self::start(&self.0, state);
    }
}

/// Calls the script once for all appends. Returns its lines, or `None` if the call failed.
async fn write_group(shared: &Shared, group: &[Append]) -> Option<String> {
    let mut command = shared.append_command(group.len());
    for append in group {
        append.writer.add_keys(&mut command);
    }
    shared.add_limits(&mut command);
    for append in group {
        append.writer.add_append(&mut command, append.writer.head + 1, &append.batch, append.closing);
    }
    let key = group.first().map(|append| append.writer.key());
    let answer = shared.link.try_script(&shared.scripts.append, &command, key).await.ok()?;
    read(answer).ok()
}
