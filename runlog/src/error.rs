//! Why an engine refuses, and what becomes of a batch that was refused.

use std::fmt;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use thiserror::Error;

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
    /// The events asked for are no longer kept.
    #[error("run {run:?} keeps events from number {earliest} on: start there, or from the thread's history")]
    Gone {
        /// The run.
        run: RunId,
        /// The lowest number kept.
        earliest: u64,
    },
    /// The lease has not lapsed.
    #[error("run {run:?} is held until {}: take it over after that", until.0)]
    Held {
        /// The run.
        run: RunId,
        /// When the lease lapses.
        until: Timestamp,
    },
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
    /// The engine cannot be reached, or cannot write.
    #[error("the run log cannot be used now: {0}")]
    Unavailable(String),
    /// A file of the engine is damaged or missing.
    #[error(
        "{file}: {what}: `aqueduct log check {folder}` shows what is lost, `aqueduct log repair {folder}` keeps what can be read"
    )]
    Damaged {
        /// The folder of the log.
        folder: String,
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// What is stored cannot be read.
    #[error("run {run:?} cannot be read from the log: {what}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        what: String,
    },
    /// The engine lost events that it had acknowledged, more than the writer still has.
    #[error("the log lost events of run {run:?} from number {from} on: its engine came back with old data")]
    Lost {
        /// The run.
        run: RunId,
        /// The first number that is missing.
        from: u64,
    },
}

impl LogError {
    /// True if the same call may work later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable(_))
    }
}

/// A batch that was refused. None of it is in the log; all of it is here, to be tried again or ended otherwise.
#[derive(Clone, PartialEq, Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: Box<LogError>,
    /// The batch.
    pub events: Vec<BlockEvent>,
}

impl Refused {
    /// A refusal of that batch.
    pub fn new(error: LogError, events: Vec<BlockEvent>) -> Self {
        Self { error: Box::new(error), events }
    }
}

/// What agents say stays out of logs.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).field("events", &self.events.len()).finish()
    }
}

/// The refusal without its batch.
impl From<Refused> for LogError {
    fn from(refused: Refused) -> Self {
        *refused.error
    }
}
