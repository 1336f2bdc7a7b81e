//! [`Error`]: the one error of this crate, with its [`Fault`] and whether the stream can continue.

use aqueduct_core::RunFailure;
pub use aqueduct_core::error::Fault;

/// Why a line cannot be decoded, or a reply cannot be converted.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_magentic::{Decoder, Fault};
///
/// let error = Decoder::default().handle_line(&"not JSON".into()).unwrap_err();
/// assert_eq!((error.fault(), error.can_continue()), (Fault::Peer, true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line is longer than the limit. Its end is unknown, so no further line can be decoded.
    #[error("a line has more than {max} bytes (limit `line_bytes`): raise the limit or send less per event")]
    LineTooLong {
        /// The value of the limit, in bytes.
        max: usize,
    },
    /// A line is not UTF-8.
    #[error("a line is not UTF-8: write the lines as JSON with `ensure_ascii` or in UTF-8")]
    NotUtf8,
    /// A line is not a JSON object.
    #[error("line {number} is not a JSON object ({reason}): write one object per line")]
    NotAnObject {
        /// The number of earlier lines.
        number: u64,
        /// The error of the parser.
        reason: String,
    },
    /// No request of that id waits, or it was dropped by the limit `pending_requests`.
    #[error(
        "no request {id:?} waits for a reply: it was answered, or is older than the limit `pending_requests`"
    )]
    UnknownRequest {
        /// The id in the reply.
        id: String,
    },
    /// The workflow has no form for declining the request.
    #[error("request {id:?} ({kind}) cannot be declined: answer it, or cancel the run")]
    CannotDecline {
        /// The id of the request.
        id: String,
        /// The kind of request.
        kind: &'static str,
    },
    /// The payload of a reply has the wrong form.
    #[error("the answer to request {id:?} must be {expected}")]
    WrongShape {
        /// The id of the request.
        id: String,
        /// The expected form.
        expected: &'static str,
    },
}

impl Error {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::LineTooLong { .. } | Self::NotUtf8 | Self::NotAnObject { .. } => Fault::Peer,
            Self::UnknownRequest { .. } | Self::CannotDecline { .. } | Self::WrongShape { .. } => {
                Fault::Caller
            }
        }
    }

    /// Returns `true` if the following lines can be decoded, or if the request still waits for another reply.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::LineTooLong { .. })
    }
}

impl From<&Error> for RunFailure {
    fn from(error: &Error) -> Self {
        Self::new(Self::UPSTREAM_INVALID, error.to_string())
    }
}
