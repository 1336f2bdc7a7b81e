//! [`Command`]: a call of the engine on its way to the writer's thread, with the channel for its result.

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use tokio::sync::oneshot;

use crate::error::{LogError, Refused};
use crate::log::{Control, Lease, Note, RunMeta};

/// The channel for the result of a command. The writer sends after its changes are synced.
pub(super) type Answer<T> = oneshot::Sender<Result<T, LogError>>;

/// A command to the writer thread.
pub(super) enum Command {
    /// Opens a run with its first lease.
    Open { meta: RunMeta, until: Timestamp, answer: Answer<Lease> },
    /// Starts a lease with the next epoch, if the present one has lapsed at `now`.
    TakeOver { run: RunId, now: Timestamp, until: Timestamp, answer: Answer<Lease> },
    /// Extends leases to `until`. Returns those that are lost.
    Renew { leases: Vec<Lease>, until: Timestamp, answer: Answer<Vec<Lease>> },
    /// Appends events, and returns the new head. A refusal returns the events.
    Append {
        lease: Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
        answer: oneshot::Sender<Result<u64, Refused>>,
    },
    /// Stores a note.
    Annotate { lease: Lease, note: Note, answer: Answer<()> },
    /// Extends the time until which the run counts as watched.
    Watched { run: RunId, until: Timestamp, answer: Answer<()> },
    /// Sends a message to the owner of a run.
    Control { run: RunId, message: Control, answer: Answer<()> },
    /// Removes the events below `earliest`.
    Trim { run: RunId, earliest: u64, answer: Answer<()> },
    /// Deletes runs that ended before a time, and returns their number.
    Expire { before: Timestamp, answer: Answer<usize> },
    /// Makes a test write.
    Check { answer: Answer<()> },
}

impl Command {
    /// Answers with an error. An append returns its events.
    pub(super) fn refuse(self, error: LogError) {
        // A caller that dropped its future needs no answer.
        match self {
            Self::Open { answer, .. } | Self::TakeOver { answer, .. } => drop(answer.send(Err(error))),
            Self::Renew { answer, .. } => drop(answer.send(Err(error))),
            Self::Append { events, answer, .. } => drop(answer.send(Err(Refused::new(error, events)))),
            Self::Annotate { answer, .. }
            | Self::Watched { answer, .. }
            | Self::Control { answer, .. }
            | Self::Trim { answer, .. }
            | Self::Check { answer } => drop(answer.send(Err(error))),
            Self::Expire { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}
