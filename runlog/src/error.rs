//! [`LogError`]: why an engine refuses a call; [`Refused`]: a refused batch of events.

use std::fmt;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use thiserror::Error;

/// Why an engine refuses a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The run does not exist, or was deleted after its retention time.
    #[error("there is no run {0:?}: it was never opened here, or its time to live is over")]
    NotFound(RunId),
    /// A run of that id exists already.
    #[error("run {0:?} exists already: choose another run id")]
    Exists(RunId),
    /// The requested events are no longer stored.
    #[error("run {run:?} keeps events from number {earliest} on: start there, or from the thread's history")]
    Gone {
        /// The run.
        run: RunId,
        /// The lowest stored number.
        earliest: u64,
    },
    /// The lease has not lapsed.
    #[error("run {run:?} is held until {}: take it over after that", until.0)]
    Held {
        /// The run.
        run: RunId,
        /// The time at which the lease lapses.
        until: Timestamp,
    },
    /// Another holder has taken the lease over.
    #[error("the lease {epoch} on run {run:?} has been taken over: stop writing")]
    Fenced {
        /// The run.
        run: RunId,
        /// The epoch of the lost lease.
        epoch: u64,
    },
    /// The run has ended.
    #[error("run {0:?} has ended and accepts no more events: open another run")]
    Closed(RunId),
    /// A terminal event is not the last of its batch.
    #[error("run {0:?}: events follow the terminal event in one batch: append nothing after it")]
    AfterTerminal(RunId),
    /// The run exceeds a limit.
    #[error("run {run:?} has more than {max} {what} (limit `{limit}`): raise the limit or end the run")]
    RunTooLong {
        /// The run.
        run: RunId,
        /// The name of the limit.
        limit: &'static str,
        /// The kind of content that is limited.
        what: &'static str,
        /// The value of the limit.
        max: usize,
    },
    /// The log is full, and no run has ended.
    #[error(
        "the log holds {max} runs, and none of them has ended (limit `runs`): end some or raise the limit"
    )]
    Full {
        /// The value of the limit.
        max: usize,
    },
    /// The engine cannot be reached, or cannot write.
    #[error("the run log is unavailable: {0}; retry later, or check its engine")]
    Unavailable(String),
    /// A file of the engine is damaged or missing.
    #[error(
        "{file}: {what}: `aqueduct log check {folder}` shows what is lost, `aqueduct log repair {folder}` keeps what can be read"
    )]
    Damaged {
        /// The folder of the log, as the repair command needs it.
        folder: String,
        /// The damaged or missing file.
        file: String,
        /// The damage.
        what: String,
    },
    /// What is stored cannot be read.
    #[error("run {run:?} cannot be read from the log: {what}; start the run again")]
    Unreadable {
        /// The run.
        run: RunId,
        /// A description of the defect.
        what: String,
    },
    /// The engine lost acknowledged events, more than the writer still holds.
    #[error(
        "the log lost events of run {run:?} from number {from} on, because its engine came back with old data: start the run again"
    )]
    Lost {
        /// The run.
        run: RunId,
        /// The number of the first lost event.
        from: u64,
    },
}

impl LogError {
    /// Returns `true` if a retry of the same call may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable(_))
    }
}

/// A refused batch. None of its events is in the log; the caller can retry it or end the run.
#[derive(Clone, PartialEq, Error)]
#[error("{error}")]
pub struct Refused {
    /// Why the batch was refused.
    pub error: Box<LogError>,
    /// The events of the batch.
    pub events: Vec<BlockEvent>,
}

impl Refused {
    /// Returns a refusal of `events`.
    pub fn new(error: LogError, events: Vec<BlockEvent>) -> Self {
        Self { error: Box::new(error), events }
    }
}

/// Omits the events: content of agents does not belong in logs.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).field("events", &self.events.len()).finish()
    }
}

/// Drops the batch.
impl From<Refused> for LogError {
    fn from(refused: Refused) -> Self {
        *refused.error
    }
}
