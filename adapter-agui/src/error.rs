//! What can be wrong with AG-UI input.
//!
//! Every error says whose fault it is ([`Fault`]) and whether the stream can go on. A peer's bad event is the
//! peer's fault and costs only that event; broken framing ends the stream.

use std::fmt;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The peer sent something that its protocol does not allow.
    Peer,
    /// The caller used this crate in a way that it does not offer.
    Caller,
}

/// A JSON value that is not what the protocol says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The event type or object, and the way to the member: `TEXT_MESSAGE_START.messageId`.
    pub place: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A required member is not there.
    Missing {
        /// What should be there.
        expected: &'static str,
    },
    /// An optional member is `null` instead of absent.
    Null {
        /// What should be there, or nothing.
        expected: &'static str,
    },
    /// An id is longer than the limit.
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The value is of the wrong kind.
    Wrong {
        /// What should be there.
        expected: &'static str,
        /// What is there.
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

/// Input that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload is not JSON.
    #[error("the payload is not JSON ({0}): send one JSON object per frame")]
    Json(#[from] serde_json::Error),
    /// The payload is JSON, but not an AG-UI event.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Text that is not UTF-8.
    #[error("the payload is not UTF-8 text")]
    Utf8,
    /// A protobuf frame that is not well formed.
    #[error("the protobuf frame is not well formed: {0}")]
    Proto(&'static str),
    /// A protobuf frame with an event that no rule knows.
    #[error("the protobuf frame holds an event with the unknown number {0}")]
    UnknownArm(u32),
    /// The stream ends inside a protobuf frame.
    #[error("the stream ends inside a protobuf frame")]
    CutOff,
    /// A frame that is larger than the limit.
    #[error("a frame of {size} bytes is over the limit of {limit} bytes")]
    FrameTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Chunk events that cannot be told apart, or that contradict each other.
    #[error(transparent)]
    Chunk(#[from] crate::chunks::ChunkError),
    /// The run is over and something follows.
    #[error("{0} after the end of the run: nothing may follow RUN_FINISHED or RUN_ERROR")]
    AfterEnd(String),
}

impl DecodeError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Peer
    }

    /// True if the frames that follow can still be read. Only broken framing makes that impossible.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::CutOff | Self::FrameTooLarge { .. })
    }
}
