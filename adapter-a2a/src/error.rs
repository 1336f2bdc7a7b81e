//! The errors of this crate, whose fault they are, and the codes by which programs distinguish failures.

use thiserror::Error;

pub use aqueduct_core::RunFailure;

/// The agent refused the task (state `rejected`).
pub const REJECTED: &str = "agent_rejected";
/// The agent responded with an error instead of content.
pub const UPSTREAM_ERROR: &str = "upstream_error";
/// The agent does not know the task.
pub const TASK_NOT_FOUND: &str = "task_not_found";
/// The agent requires credentials, or refuses those it received.
pub const UNAUTHORIZED: &str = "upstream_unauthorized";
/// The agent supports no protocol version of this crate.
pub const VERSION_NOT_SUPPORTED: &str = "version_not_supported";
/// No connection to the agent.
pub const UNREACHABLE: &str = "upstream_unreachable";
/// The agent did not respond, or sent nothing, for too long.
pub const TIMEOUT: &str = "upstream_timeout";
/// The address responded with something that is not A2A: a page, a redirect.
pub const REFUSED: &str = "upstream_refused";
/// The agent reports that the request is invalid.
pub const INVALID_REQUEST: &str = "upstream_refused_request";

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer sent malformed data.
    Peer,
    /// The caller requested something that is not possible.
    Caller,
}

/// Why a frame could not be decoded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is not JSON, or not the expected JSON.
    #[error("an event of the agent is not valid A2A ({0}): check the binding and the version of the agent")]
    Json(#[from] serde_json::Error),
    /// The bytes are not the expected protobuf message.
    #[cfg(feature = "proto")]
    #[error("a message of the agent is not valid A2A over gRPC ({0}): check the version of the agent")]
    Proto(#[from] prost::DecodeError),
}

impl DecodeError {
    /// Returns whose fault the error is.
    pub fn fault(&self) -> Fault {
        Fault::Peer
    }

    /// Returns `true`: the event is lost, the stream can continue.
    pub fn can_continue(&self) -> bool {
        true
    }
}

/// Why a card cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CardError {
    /// The card is malformed.
    #[error("the agent card is not valid ({0}): check the address, which must return the JSON of a card")]
    Json(#[from] serde_json::Error),
    /// No interface of the card can be used.
    #[error(
        "the agent card offers no interface that can be used (it has {offered}): enable one of its bindings or versions"
    )]
    NoInterface {
        /// The interfaces of the card.
        offered: String,
    },
}

impl CardError {
    /// Returns whose fault the error is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Json(_) => Fault::Peer,
            Self::NoInterface { .. } => Fault::Caller,
        }
    }

    /// Returns `false`: without a card there is no stream.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a request cannot be encoded.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The version of the peer has no such method.
    #[error("A2A {version} has no method {method}: use an agent with version 1.0")]
    NotInVersion {
        /// The method.
        method: &'static str,
        /// The version.
        version: &'static str,
    },
    /// The binding does not use HTTP.
    #[error("the interface has the binding {0}, which does not use HTTP: choose JSONRPC or HTTP+JSON")]
    NotHttp(&'static str),
    /// A filter has a value that protobuf cannot represent.
    #[error("the filter {filter} cannot be {value:?}: use a name or a time in the form of the protocol")]
    Filter {
        /// The name of the filter.
        filter: &'static str,
        /// The value of the filter.
        value: String,
    },
}

impl RequestError {
    /// Returns whose fault the error is.
    pub fn fault(&self) -> Fault {
        Fault::Caller
    }

    /// Returns `true`: nothing was sent.
    pub fn can_continue(&self) -> bool {
        true
    }
}
