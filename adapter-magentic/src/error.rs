//! What can go wrong, whose fault it is, and whether the stream can go on.

use aqueduct_core::RunFailure;
use thiserror::Error;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The framework or the forwarder sent something that cannot be read.
    Source,
    /// Whoever answered a request sent an answer that does not fit.
    Client,
}

/// Why input was not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A line is longer than the limit. Where it ends is unknown, so nothing after it can be read.
    #[error("a line has more than {max} bytes (limit `line_bytes`): raise the limit or send less per event")]
    LineTooLong {
        /// The limit.
        max: usize,
    },
    /// A line is not UTF-8.
    #[error("a line is not UTF-8: write the lines as JSON with `ensure_ascii` or in UTF-8")]
    NotUtf8,
    /// A line is not a JSON object.
    #[error("line {number} is not a JSON object ({reason}): write one object per line")]
    NotAnObject {
        /// How many lines came before it.
        number: u64,
        /// What the parser said.
        reason: String,
    },
}

impl DecodeError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Source
    }

    /// True if the lines after it can be read.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::LineTooLong { .. })
    }
}

impl From<&DecodeError> for RunFailure {
    fn from(error: &DecodeError) -> Self {
        Self::new(Self::UPSTREAM_INVALID, error.to_string())
    }
}

/// Why an answer cannot be given back to the workflow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// Nobody asked, or the request was forgotten by limit.
    #[error(
        "no request {id:?} waits for a reply: it was answered, or is older than the limit `pending_requests`"
    )]
    UnknownRequest {
        /// The id in the reply.
        id: String,
    },
    /// The request has no way to say no.
    #[error("request {id:?} ({kind}) cannot be declined: answer it, or cancel the run")]
    CannotDecline {
        /// The id of the request.
        id: String,
        /// What was asked.
        kind: &'static str,
    },
    /// The payload has another shape.
    #[error("the answer to request {id:?} must be {expected}")]
    WrongShape {
        /// The id of the request.
        id: String,
        /// What fits.
        expected: &'static str,
    },
}

impl ReplyError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Client
    }

    /// True: the request still waits, and another answer can be given.
    pub fn can_continue(&self) -> bool {
        true
    }
}
