//! What can go wrong here, whose fault it is, and the words programs can tell failures by.

use thiserror::Error;

pub use aqueduct_core::RunFailure;

/// The agent refused the task (state `rejected`).
pub const REJECTED: &str = "agent_rejected";
/// The agent answered with an error instead of content.
pub const UPSTREAM_ERROR: &str = "upstream_error";
/// The agent does not know the task any more.
pub const TASK_NOT_FOUND: &str = "task_not_found";
/// The agent wants credentials, or other ones.
pub const UNAUTHORIZED: &str = "upstream_unauthorized";
/// The agent speaks no version that we do.
pub const VERSION_NOT_SUPPORTED: &str = "version_not_supported";
/// No connection to the agent.
pub const UNREACHABLE: &str = "upstream_unreachable";
/// The agent did not answer, or went silent, for too long.
pub const TIMEOUT: &str = "upstream_timeout";
/// The agent's address answered with something that is not A2A: a page, a redirect.
pub const REFUSED: &str = "upstream_refused";
/// The agent says that our request is wrong.
pub const INVALID_REQUEST: &str = "upstream_refused_request";

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer sent something that cannot be read.
    Peer,
    /// The caller asked for something that cannot be done.
    Caller,
}

/// Why a frame could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is not JSON, or not the JSON it should be.
    #[error("an event of the agent is not readable as A2A: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not the protobuf message it should be.
    #[cfg(feature = "proto")]
    #[error("a message of the agent is not readable as A2A over gRPC: {0}")]
    Proto(#[from] prost::DecodeError),
}

impl DecodeError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Peer
    }

    /// True: the event is lost, the stream can go on.
    pub fn can_continue(&self) -> bool {
        true
    }
}

/// Why a card or a request could not be made use of.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CardError {
    /// The card is not readable.
    #[error("the agent card is not readable: {0}")]
    Json(#[from] serde_json::Error),
    /// None of its interfaces can be used.
    #[error(
        "the agent card offers no interface that can be used (it has {offered}): enable one of its bindings or versions"
    )]
    NoInterface {
        /// What the card has.
        offered: String,
    },
}

impl CardError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Json(_) => Fault::Peer,
            Self::NoInterface { .. } => Fault::Caller,
        }
    }

    /// False: without a card there is no stream.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a request cannot be written.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The peer's version has no such method.
    #[error("A2A {version} has no method {method}: use an agent that speaks 1.0")]
    NotInVersion {
        /// The method.
        method: &'static str,
        /// The version.
        version: &'static str,
    },
    /// The binding is not one of HTTP.
    #[error("the interface speaks {0}, which is not a binding over HTTP")]
    NotHttp(&'static str),
    /// A filter has a value that protobuf cannot carry.
    #[error("the filter {filter} cannot be {value:?}: use a name or a time as the protocol writes it")]
    Filter {
        /// The filter.
        filter: &'static str,
        /// Its value.
        value: String,
    },
}

impl RequestError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Caller
    }

    /// True: nothing was sent.
    pub fn can_continue(&self) -> bool {
        true
    }
}
