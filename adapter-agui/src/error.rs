//! Errors in AG-UI input.
//!
//! Every error returns its [`Fault`] and whether the stream can continue. An invalid event of a peer is the peer's fault and
//! costs only that event; invalid framing ends the stream.

use std::fmt;

/// The party that caused an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The peer sent input that its protocol does not allow.
    Peer,
    /// The caller used this crate in an unsupported way.
    Caller,
}

/// A JSON value that does not match the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The event type or object, and the path to the member: `TEXT_MESSAGE_START.messageId`.
    pub place: String,
    /// The defect of the value.
    pub problem: Problem,
}

/// The defect of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A required member is missing.
    Missing {
        /// The expected value.
        expected: &'static str,
    },
    /// An optional member is `null` instead of absent.
    Null {
        /// The expected value, if the member is present.
        expected: &'static str,
    },
    /// An id is longer than the limit.
    TooLong {
        /// The length of the id, in bytes.
        bytes: usize,
        /// The value of the limit, in bytes.
        limit: usize,
    },
    /// The value has the wrong type.
    Wrong {
        /// The expected value.
        expected: &'static str,
        /// The actual value.
        found: String,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match &self.problem {
            Problem::Missing { expected } => write!(f, "expected {expected}, found nothing"),
            Problem::Null { expected } => {
                write!(f, "expected {expected} or nothing, found null: leave the member out")
            }
            Problem::TooLong { bytes, limit } => {
                write!(f, "expected an id of at most {limit} bytes, found {bytes} bytes")
            }
            Problem::Wrong { expected, found } => write!(f, "expected {expected}, found {found}"),
        }
    }
}

impl std::error::Error for WireError {}

/// Why input cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload is not JSON.
    #[error("the payload is not JSON ({0}): send one JSON object per frame")]
    Json(#[from] serde_json::Error),
    /// The payload is JSON, but not an AG-UI event.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A text is not valid UTF-8.
    #[error("the payload is not UTF-8 text")]
    Utf8,
    /// A protobuf frame is malformed.
    #[error("the protobuf frame is not well formed: {0}")]
    Proto(&'static str),
    /// A protobuf frame contains an unknown event.
    #[error("the protobuf frame holds an event with the unknown number {0}")]
    UnknownArm(u32),
    /// The stream ends inside a protobuf frame.
    #[error("the stream ends inside a protobuf frame")]
    CutOff,
    /// A frame exceeds the limit.
    #[error("a frame of {size} bytes is over the limit of {limit} bytes")]
    FrameTooLarge {
        /// The size of the frame, in bytes.
        size: usize,
        /// The value of the limit, in bytes.
        limit: usize,
    },
    /// Chunk events are ambiguous or contradict each other.
    #[error(transparent)]
    Chunk(#[from] crate::chunks::ChunkError),
    /// An event follows the end of the run.
    #[error("{0} after the end of the run: nothing may follow RUN_FINISHED or RUN_ERROR")]
    AfterEnd(String),
}

impl DecodeError {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        Fault::Peer
    }

    /// Returns `true` if the following frames can still be decoded. Only invalid framing prevents that.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::CutOff | Self::FrameTooLarge { .. })
    }
}
