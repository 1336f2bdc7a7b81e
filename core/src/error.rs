//! [`Error`]: the one error of this crate, and [`Fault`]: the party that caused an error.
//!
//! | returned by | variants | after it |
//! |---|---|---|
//! | [`StreamContext`](crate::StreamContext) | [`LimitExceeded`](Error::LimitExceeded), [`Ended`](Error::Ended) | balanced; can continue, be finished or be failed |
//! | [`Accumulator`](crate::Accumulator) | [`TurnTooLong`](Error::TurnTooLong), [`TooManyTurns`](Error::TooManyTurns) | earlier text is kept |
//! | [`MessageMerger`](crate::MessageMerger), [`RunMerger`](crate::RunMerger) | [`TooManyMessages`](Error::TooManyMessages), [`TooLong`](Error::TooLong), [`TooManyAccounts`](Error::TooManyAccounts) | earlier content is kept |
//! | [`Turn`](crate::Turn) | [`ConflictingResponseIds`](Error::ConflictingResponseIds) | unchanged |
//!
//! A machine that returns an error has not applied the rejected part of the input. Refusals to callers are
//! [`ServiceError`](crate::service::ServiceError)s; failures of runs are [`RunFailure`]s.

use crate::id::ResponseId;
use crate::run::RunFailure;

/// The party that caused an error, for the errors of all crates of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The peer (an agent, a client, a server) sent what its protocol or a limit does not allow, or stopped answering.
    Peer,
    /// The code or the configuration on this side called in a wrong state or with wrong values.
    Caller,
    /// The network or the machine.
    Network,
    /// The service behind the peer.
    Service,
}

/// Why a machine of this crate rejected an input.
///
/// # Examples
///
/// ```
/// use aqueduct_core::error::Fault;
/// use aqueduct_core::{Error, RunInfo, SourceEvent, StreamContext, Update};
///
/// let mut context = StreamContext::new(RunInfo::new("thread", "run"));
/// context.handle_event(SourceEvent::finished())?;
/// let error = context.handle_update(Update::text("too late")).unwrap_err();
/// assert_eq!(error, Error::Ended);
/// assert_eq!((error.fault(), error.can_continue()), (Fault::Caller, false));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The open state of a run exceeds a limit.
    #[error(
        "the source holds more than {max} {what} (limit `{limit}`) in lane {lane:?}: raise the limit or stop the source"
    )]
    LimitExceeded {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// The kind of state that is limited.
        what: &'static str,
        /// The value of the limit.
        max: usize,
        /// The path of the lane; empty for the root.
        lane: String,
    },
    /// The run has ended.
    #[error("the run has ended and accepts no more input: start a new run")]
    Ended,
    /// The text of one turn of an agent exceeds the limit.
    #[error("agent {agent:?} sent more than {max} bytes in one turn: raise the limit or stop the agent")]
    TurnTooLong {
        /// The name of the agent.
        agent: String,
        /// The value of the limit, in bytes.
        max: usize,
    },
    /// Too many agents have an open turn.
    #[error("more than {max} agents have an open turn: raise the limit or end turns")]
    TooManyTurns {
        /// The value of the limit.
        max: usize,
    },
    /// The merged turn has too many messages.
    #[error(
        "the turn has more than {max} messages: raise `MergeLimits::messages` or read the stream instead"
    )]
    TooManyMessages {
        /// The value of the limit.
        max: usize,
    },
    /// The merged turn has too much text.
    #[error(
        "the turn has more than {max} bytes of text: raise `MergeLimits::bytes` or read the stream instead"
    )]
    TooLong {
        /// The value of the limit, in bytes.
        max: usize,
    },
    /// The merged turn reports usage of too many agents, providers and models.
    #[error("the turn reports usage for more than {max} accounts: raise `MergeLimits::usage_accounts`")]
    TooManyAccounts {
        /// The value of the limit.
        max: usize,
    },
    /// The agent sent a second response id in one turn.
    #[error(
        "the agent sent response id {second:?} in a turn that has {first:?}: make the agent keep one id per turn, or use `ConflictPolicy::Normalise`"
    )]
    ConflictingResponseIds {
        /// The id of the turn.
        first: ResponseId,
        /// The conflicting id.
        second: ResponseId,
    },
}

impl Error {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Ended => Fault::Caller,
            _ => Fault::Peer,
        }
    }

    /// Returns `true` if the machine accepts further input after the rejected one. The rejected content is then missing;
    /// [`StreamContext::handle_failure`](crate::StreamContext::handle_failure) reports that to the reader.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::Ended)
    }
}

impl From<&Error> for RunFailure {
    fn from(error: &Error) -> Self {
        Self::new(Self::LIMIT_EXCEEDED, error.to_string())
    }
}
