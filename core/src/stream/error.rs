//! What can go wrong when a [`StreamContext`](super::StreamContext) takes input.

use thiserror::Error;

use crate::run::RunFailure;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The source sent something that cannot be carried.
    Source,
    /// The code that drives the machine called it wrongly.
    Caller,
}

/// Why an input was refused. The machine is as it was before: it can go on, be finished or be failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A limit was reached.
    #[error(
        "the source holds more than {max} {what} (limit `{limit}`) in lane {lane:?}: raise the limit or stop the source"
    )]
    LimitExceeded {
        /// The field of [`Limits`](super::Limits).
        limit: &'static str,
        /// What there is too much of.
        what: &'static str,
        /// The value of the limit.
        max: usize,
        /// The path of the lane; empty for the root.
        lane: String,
    },
    /// The run has ended; nothing can follow.
    #[error("the run has ended and takes no more input: start a new run")]
    Ended,
}

impl StreamError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::LimitExceeded { .. } => Fault::Source,
            Self::Ended => Fault::Caller,
        }
    }

    /// True if the stream can go on without the refused input. After a limit it can, but content is missing:
    /// [`StreamContext::handle_failure`](super::StreamContext::handle_failure) says so to the reader.
    pub fn can_continue(&self) -> bool {
        matches!(self, Self::LimitExceeded { .. })
    }
}

impl From<&StreamError> for RunFailure {
    fn from(error: &StreamError) -> Self {
        Self::new(Self::LIMIT_EXCEEDED, error.to_string())
    }
}
