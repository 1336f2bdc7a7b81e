//! The error of this crate, for AG-UI input and output.
//!
//! Every error returns its [`Fault`] and whether the stream can continue. An invalid event of a peer is the peer's fault and
//! costs only that event; invalid framing ends the stream.

use std::fmt;

pub use aqueduct_core::error::Fault;

use crate::encode::MAX_FRAME;

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

/// Why input cannot be decoded, or an event cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The payload is not JSON.
    #[error("the payload is not JSON ({0}): send one JSON object per frame")]
    Json(#[from] serde_json::Error),
    /// The payload is JSON, but not an AG-UI event.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A text is not valid UTF-8.
    #[error("the payload is not UTF-8: encode JSON as UTF-8")]
    Utf8,
    /// A protobuf frame is malformed.
    #[error("the protobuf frame is malformed ({0}): send one encoded event per frame")]
    Proto(&'static str),
    /// A protobuf frame contains an unknown event.
    #[error(
        "the protobuf frame contains an event with the unknown number {0}: send it as JSON, or as CUSTOM"
    )]
    UnknownArm(u32),
    /// The stream ends inside a protobuf frame.
    #[error("the stream ends inside a protobuf frame: the peer cut it; run the agent again")]
    CutOff,
    /// A received frame exceeds the limit.
    #[error(
        "a frame of {size} bytes is over the limit of {limit} bytes: send less per event, or raise the limit"
    )]
    FrameTooLarge {
        /// The size of the frame, in bytes.
        size: usize,
        /// The value of the limit, in bytes.
        limit: usize,
    },
    /// The first chunk of a stream lacks a member that the start needs.
    #[error("the first {event} of a stream has no {member}: only later chunks may leave it out")]
    FirstChunkWithout {
        /// The type of the event.
        event: &'static str,
        /// The missing member.
        member: &'static str,
    },
    /// A chunk contradicts the start of its stream.
    #[error(
        "{event} has {member} {found:?}, but its stream started with {began:?}: repeat the same value, or leave it out"
    )]
    ChunkConflict {
        /// The type of the event.
        event: &'static str,
        /// The conflicting member.
        member: &'static str,
        /// The value in the chunk.
        found: String,
        /// The value at the start of the stream; empty for none.
        began: String,
    },
    /// A chunk has neither id nor tag, and several lanes have an open stream that it could belong to.
    #[error("{event} has neither an id nor a tag, and {lanes} lanes have an open stream: tag it")]
    AmbiguousChunk {
        /// The type of the event.
        event: &'static str,
        /// The number of lanes.
        lanes: usize,
    },
    /// An event follows the end of the run.
    #[error("{0} after the end of the run: nothing may follow RUN_FINISHED or RUN_ERROR")]
    AfterEnd(String),
    /// A limit of [`PatchLimits`](crate::fold::patch::PatchLimits) is exceeded.
    #[error(
        "operation {operation} of the JSON Patch passes the limit `{limit}` = {max}: send a snapshot, or less"
    )]
    PatchLimit {
        /// The index of the operation.
        operation: usize,
        /// The name of the limit.
        limit: &'static str,
        /// The value of the limit.
        max: usize,
    },
    /// An operation of a JSON Patch does not match the value: no such path, a failed test, an invalid pointer.
    #[error("operation {operation} of the JSON Patch does not fit the value: send a snapshot of it first")]
    PatchRefused {
        /// The index of the operation.
        operation: usize,
    },
    /// The event cannot be serialized as JSON.
    #[error("the event cannot be written as JSON: {0}")]
    NotWritten(serde_json::Error),
    /// The protobuf encoding has no form for the event.
    #[error("the protobuf encoding has no form for {0}: send it as JSON, or as CUSTOM")]
    NoProto(String),
    /// The id of an SSE frame contains a line break or a NUL.
    #[error("the id of an SSE frame has line breaks or NUL characters: remove them")]
    SseId,
    /// An encoded frame is larger than clients accept.
    #[error("a frame of {size} bytes is over the {MAX_FRAME} bytes that clients accept: send less per event")]
    OversizedEvent {
        /// The size of the frame, in bytes.
        size: usize,
    },
}

impl Error {
    /// Returns the party that caused the error: the caller for events that it encodes, the peer for its input.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotWritten(_) | Self::NoProto(_) | Self::SseId | Self::OversizedEvent { .. } => {
                Fault::Caller
            }
            _ => Fault::Peer,
        }
    }

    /// Returns `true` if the following frames can still be decoded or encoded. Only invalid framing prevents that.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::CutOff | Self::FrameTooLarge { .. })
    }
}
