//! [`RunLog`]: the interface of an engine, and the values that it stores. The states of a run and its lease:
//!
//! ```text
//!            open                append (terminal)
//!  no run ────────► leased ─────────────────────► closed ── expire ──► no run
//!                   │   ▲
//!      the lease    ▼   │ take_over (a higher epoch; the previous holder is fenced), or renew by the previous holder
//!      lapses      lapsed
//! ```
//!
//! A lease lapses in three ways: its time elapses, its holder releases it, or its holder is a replica that sends no more
//! heartbeats ([`RunLog::beat`]).
//!
//! Times enter as arguments. Replicas that share an engine must agree on the time to within a third of a lease; silence is
//! measured by the engine's own clock.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::event::{CustomEvent, Origin};
use aqueduct_core::service::{BoxFuture, NumberedEvent};
use aqueduct_core::{
    BlockEvent, BlockId, ByteString, Channel, InterruptReply, Lane, RunId, Timestamp, wellknown,
};
use serde_json::Value;

use crate::error::{LogError, Refused};
pub use crate::meta::{RunMeta, RunPlace, RunQuery, RunState};

/// The future of a [`RunLog`].
pub type LogFuture<'a, T, E = LogError> = BoxFuture<'a, Result<T, E>>;

/// The end of a lease that was released, or whose holder sends no heartbeats: any replica may take the run over at once.
pub const RELEASED: Timestamp = Timestamp(0);

/// The time-limited right to append to a run. The next lease on the same run ends this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run that the lease is for.
    pub run_id: RunId,
    /// The fencing number: the leases of a run are numbered from 1, and only the lease with the highest number may append.
    pub epoch: u64,
}

/// Some events of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The events after the requested number, as many as fit.
    pub events: Vec<NumberedEvent>,
    /// The highest number appended.
    pub head: u64,
    /// Set if the run has ended, so that no event will follow the head.
    pub closed: bool,
}

/// A control message from any replica to the holder of a run's lease.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Control {
    /// Cancels the run.
    Cancel,
    /// A reply to an interrupt.
    Reply(InterruptReply),
    /// Any other message between replicas. The log does not interpret it.
    Message(Value),
}

/// A value that a host stores with a run beside its events. Watchers do not receive it, and it has no number.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The input of the run, in the form of the host.
    Input(Arc<Value>),
    /// The last checkpoint of the agent, in the form of the agent's adapter.
    Checkpoint(Arc<Value>),
}

impl Note {
    /// Returns the value of the note.
    pub fn value(&self) -> &Arc<Value> {
        let (Self::Input(value) | Self::Checkpoint(value)) = self;
        value
    }
}

/// Returns `true` for an event that belongs to the log and not to the content of the run: the position of a source
/// ([`position_of`]), and the notes that version 0.1 stored among the events. Readers skip it.
pub fn is_log_metadata(event: &BlockEvent) -> bool {
    let names = [wellknown::INPUT, wellknown::UPSTREAM, wellknown::POSITION];
    matches!(event, BlockEvent::Custom(custom) if names.contains(&&*custom.name))
}

/// Returns the event that stores the position of a source in its own stream, in the root lane of its run.
pub fn position_event(root: Arc<Lane>, position: Value) -> BlockEvent {
    BlockEvent::Custom(Box::new(CustomEvent {
        id: BlockId::from(wellknown::POSITION),
        lane: root,
        name: ByteString::from_static(wellknown::POSITION),
        value: position,
        channel: Channel::default(),
        origin: Origin::default(),
    }))
}

/// Returns the position that an event stores. Returns `None` for any other event.
pub fn position_of(event: &BlockEvent) -> Option<&Value> {
    match event {
        BlockEvent::Custom(custom) if *custom.name == *wellknown::POSITION => Some(&custom.value),
        _ => None,
    }
}

/// The processes that can share a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogScope {
    /// Only this process.
    #[default]
    Process,
    /// One process at a time: a process finds the runs of the process before it.
    Machine,
    /// Several replicas at once.
    Replicas,
}

/// Stores the events of runs. Engines differ in durability; the conformance suite defines what they have in common.
///
/// Every future may be dropped at any time: the operation has then happened completely or not at all.
pub trait RunLog: Send + Sync + 'static {
    /// Creates a run and takes its lease, which lapses at `until`.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Exists`] if the id is in use, and [`LogError::Full`] if the log is full of open runs.
    fn open(&self, meta: RunMeta, until: Timestamp) -> LogFuture<'_, Lease>;

    /// Takes the lease of an open run if it has lapsed by `now`. The former holder can no longer append. Of several
    /// simultaneous callers exactly one succeeds.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Held`] if the lease has not lapsed, [`LogError::Closed`] if the run has ended, and
    /// [`LogError::NotFound`] if it does not exist.
    fn take_over(&self, run: &RunId, now: Timestamp, until: Timestamp) -> LogFuture<'_, Lease>;

    /// Extends leases to `until`, and returns the leases that are lost: taken over, or of runs that ended or were deleted.
    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> LogFuture<'_, Vec<Lease>>;

    /// Releases leases, so that other replicas can take the runs over at once. Leases that are already lost are ignored.
    fn release(&self, leases: Vec<Lease>) -> LogFuture<'_, ()> {
        Box::pin(async move { self.renew(leases, RELEASED).await.map(drop) })
    }

    /// Waits until any replica releases a lease. Never completes for an engine that no other process shares.
    fn released(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Sends a heartbeat of this replica, and releases the leases of replicas without heartbeat for longer than `silence`.
    /// Returns the number of released leases. Must be called several times within `silence`. Has no effect on an engine that
    /// no other process shares.
    fn beat(&self, silence: Duration) -> LogFuture<'_, usize> {
        let _ = silence;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Appends all events or none, and returns the number of the last event. A terminal event must be the last of its batch
    /// and closes the run at `now`; a batch that ends with it is accepted beyond the limits.
    ///
    /// # Errors
    ///
    /// Returns the batch with [`LogError::Fenced`] if the lease is lost, [`LogError::Closed`] if the run has ended,
    /// [`LogError::RunTooLong`] if a limit is exceeded, [`LogError::AfterTerminal`] if events follow a terminal event, and
    /// [`LogError::Lost`] if the engine lost acknowledged events. After [`LogError::Unavailable`] the same batch can be retried.
    fn append(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> LogFuture<'_, u64, Refused>;

    /// Stores a note of the run, which replaces an earlier note of the same kind. The size of every note counts towards the
    /// run's limit of bytes, also after it was replaced.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Fenced`] if the lease is lost, [`LogError::Closed`] if the run has ended, and
    /// [`LogError::RunTooLong`] if a limit is exceeded.
    fn annotate(&self, lease: &Lease, note: Note) -> LogFuture<'_, ()>;

    /// Returns the [`Note::Input`] of a run. Returns `None` if the run has none.
    fn input(&self, run: &RunId) -> LogFuture<'_, Option<Arc<Value>>>;

    /// Returns which processes can share the log.
    fn scope(&self) -> LogScope {
        LogScope::Process
    }

    /// Reads at most `max` events with numbers above `after`.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Gone`] if the next event is no longer stored, [`LogError::NotFound`] if the run does not exist, and
    /// [`LogError::Unreadable`] if its bytes cannot be decoded.
    fn read(&self, run: &RunId, after: u64, max: usize) -> LogFuture<'_, Page>;

    /// Like [`read`](Self::read), without a future. Returns `None` if the engine has to fetch the events. A watcher that
    /// keeps up reads once per event, so it would allocate a future per event.
    fn read_now(&self, run: &RunId, after: u64, max: usize) -> Option<Result<Page, LogError>> {
        let _ = (run, after, max);
        None
    }

    /// Waits until the run has events with numbers above `after`, or has ended.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::NotFound`] if the run does not exist. An engine that only finds out by a request to its server
    /// may complete instead: the next read then returns the error.
    fn changed(&self, run: &RunId, after: u64) -> LogFuture<'_, ()>;

    /// Like [`changed`](Self::changed), but the future owns the engine, so that a watcher can store it. An engine can
    /// override the method to save a nested future.
    fn changed_owned(self: Arc<Self>, run: &RunId, after: u64) -> LogFuture<'static, ()> {
        let run = run.clone();
        Box::pin(async move { self.changed(&run, after).await })
    }

    /// Records that the run has a watcher until `until`, so that an owner without watchers of its own does not cancel the
    /// run.
    fn watched(&self, run: &RunId, until: Timestamp) -> LogFuture<'_, ()>;

    /// Returns the state of a run.
    fn state(&self, run: &RunId) -> LogFuture<'_, RunState>;

    /// Returns at most `max` runs, oldest first unless the query reverses the order.
    fn list(&self, query: RunQuery, max: usize) -> LogFuture<'_, Vec<RunState>>;

    /// Returns at most `max` open runs whose lease lapsed before `now`.
    fn lapsed(&self, now: Timestamp, max: usize) -> LogFuture<'_, Vec<RunState>>;

    /// Sends a message to the holder of the lease. The message is stored with the run, and a later holder receives it, too.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::RunTooLong`] if the queue of messages is full (a cancel is refused only if the queue already
    /// contains a cancel), and [`LogError::Closed`] if the run has ended.
    fn control(&self, run: &RunId, message: Control) -> LogFuture<'_, ()>;

    /// Waits until more than `seen` messages were sent to the run, and returns the messages after the first `seen`. A new
    /// holder starts with 0 and receives all messages.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Fenced`] or [`LogError::Closed`] once the lease is lost.
    fn controls(&self, lease: &Lease, seen: usize) -> LogFuture<'_, Vec<Control>>;

    /// Relates keys to the run until about `until`. Relation keys have a name space of their own, and one key may relate to
    /// several runs. An engine that no other process shares may store none, because the driver of a run in the same process
    /// knows the keys of the run.
    fn relate(&self, run: &RunId, keys: Vec<String>, until: Timestamp) -> LogFuture<'_, ()> {
        let _ = (run, keys, until);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Removes the relation of keys to the run.
    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> LogFuture<'_, ()> {
        let _ = (run, keys);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the runs that each key relates to, in the order of the keys. Some of the runs may have ended or been
    /// deleted.
    fn related(&self, keys: Vec<String>) -> LogFuture<'_, Vec<Vec<RunId>>> {
        Box::pin(std::future::ready(Ok(vec![Vec::new(); keys.len()])))
    }

    /// Claims a key for `value` until `until`. Returns the value that holds the key: `value`, or the value of an earlier
    /// claim that has not lapsed. Of several simultaneous callers with different values exactly one succeeds. A claim with
    /// the same value moves the end of the claim. With an `until` that is not after `now`, the holder releases the key, and
    /// any other caller only reads it.
    fn claim(&self, key: String, value: String, now: Timestamp, until: Timestamp) -> LogFuture<'_, String>;

    /// Returns how many connections to the log's server were lost and re-established. Returns `None` for an engine without a
    /// server.
    fn reconnects(&self) -> Option<u64> {
        None
    }

    /// Checks whether the log is writable, without retries.
    fn check(&self) -> LogFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Removes events with numbers below `earliest`; the last event is always kept.
    fn trim(&self, run: &RunId, earliest: u64) -> LogFuture<'_, ()>;

    /// Deletes runs that ended before `before`, and returns their number.
    fn expire(&self, before: Timestamp) -> LogFuture<'_, usize>;
}
