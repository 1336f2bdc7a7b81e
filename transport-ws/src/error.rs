//! [`Error`](enum@Error): the one error of this crate, with its fault and whether the connection can continue.

use std::io;

pub use aqueduct_transport_http::Fault;
use thiserror::Error;
use tokio_tungstenite::tungstenite;

use crate::close::CloseReason;

/// An error of a client or its settings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is invalid.
    #[error("cannot use the address {url}: {problem}")]
    Address {
        /// The invalid address.
        url: String,
        /// A description of the defect.
        problem: String,
    },
    /// A time limit was exceeded.
    #[error("{what} took longer than {seconds} s: check that the peer is up, or raise the timeout")]
    Timeout {
        /// The operation.
        what: &'static str,
        /// The value of the limit.
        seconds: f32,
    },
    /// The server answered the upgrade with another status.
    #[error("the server refused the WebSocket with HTTP status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of the response body.
        message: String,
    },
    /// The peer closed the connection with a code.
    #[error("the connection was closed with code {}: {}", .0.code, .0.reason)]
    Closed(CloseReason),
    /// The connection ended without a close frame.
    #[error("the connection ended without a close frame: connect again and continue from the last number")]
    Cut,
    /// The server refused one request; the connection continues.
    #[error("the server refused ({code}): {message}")]
    Rejected {
        /// A stable code for programs.
        code: String,
        /// A message for people.
        message: String,
    },
    /// The requested events are no longer stored.
    #[error("events before number {earliest} are no longer kept: watch from there, or take the run as lost")]
    Gone {
        /// The earliest stored number.
        earliest: u64,
    },
    /// The peer sent a message that does not belong to this protocol.
    #[error("the peer does not follow this protocol ({0}): check its version and the path")]
    Protocol(String),
    /// Keys or certificates cannot be used.
    #[error("cannot use the TLS settings: {0}")]
    Tls(String),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Address { .. } | Self::Tls(_) => Fault::Caller,
            Self::Timeout { .. } | Self::Cut | Self::Io(_) => Fault::Network,
            Self::Refused { .. } | Self::Protocol(_) | Self::Closed(_) => Fault::Peer,
            Self::Rejected { .. } | Self::Gone { .. } => Fault::Service,
        }
    }

    /// Returns `true` if the connection continues.
    pub fn can_continue(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Gone { .. })
    }

    /// Returns `true` if a retry over a new connection may succeed.
    pub fn can_retry(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Cut | Self::Io(_) => true,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            Self::Closed(reason) => matches!(
                reason.code,
                CloseReason::GOING_AWAY
                    | CloseReason::TIMEOUT
                    | CloseReason::INTERNAL
                    | CloseReason::UNAVAILABLE
                    | 1012
                    | 1013
            ),
            Self::Rejected { code, .. } => matches!(&**code, "busy" | "unavailable" | "lost"),
            _ => false,
        }
    }
}

#[cfg(feature = "tls")]
impl From<aqueduct_transport_http::tls::TlsError> for Error {
    fn from(error: aqueduct_transport_http::tls::TlsError) -> Self {
        Self::Tls(error.to_string())
    }
}

impl From<tungstenite::Error> for Error {
    fn from(error: tungstenite::Error) -> Self {
        use tungstenite::Error as Codec;
        use tungstenite::error::ProtocolError;
        match error {
            Codec::Io(error) if is_cut(&error) => Self::Cut,
            Codec::Io(error) => Self::Io(error),
            Codec::ConnectionClosed
            | Codec::AlreadyClosed
            | Codec::Protocol(
                ProtocolError::ResetWithoutClosingHandshake
                | ProtocolError::SendAfterClosing
                | ProtocolError::HandshakeIncomplete,
            ) => Self::Cut,
            Codec::Http(response) => {
                let status = response.status().as_u16();
                let body = response.into_body().unwrap_or_default();
                let shown = body.get(..body.len().min(200)).unwrap_or_default();
                Self::Refused { status, message: String::from_utf8_lossy(shown).into_owned() }
            }
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// Returns `true` for errors of a lost connection, after which the client can resume.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
    )
}
