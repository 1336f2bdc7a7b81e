//! [`Error`](enum@Error): the one error of this crate, with its fault; and the codes of failures that programs
//! match on.

pub use aqueduct_core::RunFailure;
pub use aqueduct_core::error::Fault;

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

/// Why a frame or a card cannot be read, or a request cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A frame is not JSON, or not the JSON of an A2A event.
    #[error("an event of the agent is not valid A2A ({0}): check the binding and the version of the agent")]
    Json(#[from] serde_json::Error),
    /// A message is not the protobuf message of its method.
    #[cfg(feature = "proto")]
    #[error("a message of the agent is not valid A2A over gRPC ({0}): check the version of the agent")]
    Proto(#[from] prost::DecodeError),
    /// The card is not JSON, or not an agent card.
    #[error("the agent card is not valid ({0}): check the address, which must return the JSON of a card")]
    Card(serde_json::Error),
    /// No interface of the card can be used.
    #[error(
        "the agent card offers no interface that can be used (it has {offered}): enable one of its bindings or versions"
    )]
    NoInterface {
        /// The interfaces of the card.
        offered: String,
    },
    /// The version of the agent has no such method.
    #[error("A2A {version} has no method {method}: use an agent with version 1.0")]
    NotInVersion {
        /// The method.
        method: &'static str,
        /// The version.
        version: &'static str,
    },
    /// The binding is not one of HTTP.
    #[error("the interface has the binding {0}, which does not use HTTP: choose JSONRPC or HTTP+JSON")]
    NotHttp(&'static str),
    /// A filter has a value that protobuf cannot carry.
    #[error("the filter {filter} cannot be {value:?}: use a name or a time in the form of the protocol")]
    Filter {
        /// The filter.
        filter: &'static str,
        /// The value of the filter.
        value: String,
    },
}

impl Error {
    /// Returns the party that caused the error: the agent for what it sent, the caller for the rest.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Json(_) | Self::Card(_) => Fault::Peer,
            #[cfg(feature = "proto")]
            Self::Proto(_) => Fault::Peer,
            _ => Fault::Caller,
        }
    }

    /// Returns `true` if the stream can continue: an unreadable event costs that event, a request that cannot be
    /// written is not sent. Without a usable card there is no stream.
    pub fn can_continue(&self) -> bool {
        !matches!(self, Self::Card(_) | Self::NoInterface { .. })
    }
}
