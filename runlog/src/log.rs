//! [`RunLog`]: what an engine must do.

use aqueduct_core::service::{BoxFuture, NumberedEvent};
use aqueduct_core::{BlockEvent, RunId, ThreadId, Timestamp};
use thiserror::Error;

/// What is known of a run beside its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMeta {
    /// The run.
    pub run_id: RunId,
    /// Its conversation.
    pub thread_id: ThreadId,
    /// The agent.
    pub agent: String,
    /// Who may see it: compared with the caller's identity on every verb, and nothing else. Empty if nobody is asked who
    /// they are.
    pub owner: String,
    /// When it was opened.
    pub opened_at: Timestamp,
}

/// The right to append to a run. A later lease on the same run ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run_id: RunId,
    /// Counts the leases of the run; only the highest may append.
    pub epoch: u64,
}

/// Some events of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The events after the number asked for, as many as fit.
    pub events: Vec<NumberedEvent>,
    /// The highest number appended.
    pub head: u64,
    /// True if the run has ended, so that nothing will follow the head.
    pub closed: bool,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// What is known of it.
    pub meta: RunMeta,
    /// The highest number appended.
    pub head: u64,
    /// When it ended, if it has.
    pub closed_at: Option<Timestamp>,
}

/// Keeps the events of runs. Engines differ in what survives what; the conformance suite says what all of them do.
pub trait RunLog: Send + Sync + 'static {
    /// Creates a run and takes its lease. A run of that id that is there already is refused.
    fn open(&self, meta: RunMeta) -> BoxFuture<'_, Result<Lease, LogError>>;

    /// Takes the lease of a run that has not ended; whoever held it before can no longer append.
    fn take_over(&self, run: &RunId) -> BoxFuture<'_, Result<Lease, LogError>>;

    /// Appends events, all or none, and gives the number of the last. A terminal event must be the last of its batch and
    /// closes the run at `now`.
    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, LogError>>;

    /// Reads at most `max` events with numbers above `after`.
    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>>;

    /// Waits until there are events above `after`, or the run has ended.
    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>>;

    /// What is known of a run.
    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>>;

    /// All runs, newest last.
    fn list(&self) -> BoxFuture<'_, Result<Vec<RunState>, LogError>>;

    /// Forgets runs that ended before `before`, and gives how many.
    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>>;
}

/// Why an engine refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no such run, or no longer.
    #[error("there is no run {0:?}: it was never opened here, or its time to live is over")]
    NotFound(RunId),
    /// A run of that id is there already.
    #[error("run {0:?} is there already: choose another run id")]
    Exists(RunId),
    /// Somebody else holds the lease.
    #[error("the lease {epoch} on run {run:?} has been taken over: stop writing")]
    Fenced {
        /// The run.
        run: RunId,
        /// The epoch that no longer counts.
        epoch: u64,
    },
    /// The run has ended.
    #[error("run {0:?} has ended and takes no more events")]
    Closed(RunId),
    /// A terminal event that is not the last of its batch.
    #[error("run {0:?}: events follow the terminal event in one batch")]
    AfterTerminal(RunId),
    /// The run is longer than one may be.
    #[error("run {run:?} has more than {max} {what} (limit `{limit}`): raise the limit or end the run")]
    RunTooLong {
        /// The run.
        run: RunId,
        /// The limit's name.
        limit: &'static str,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// There are too many runs.
    #[error(
        "the log holds {max} runs, and none of them has ended (limit `runs`): end some or raise the limit"
    )]
    Full {
        /// The limit.
        max: usize,
    },
}

impl LogError {
    /// True if the same call may work later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
