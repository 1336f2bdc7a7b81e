//! What can go wrong, and whose fault it is.

use std::io;

pub use aqueduct_transport_http::Fault;
use thiserror::Error;
use tokio_tungstenite::tungstenite;

use crate::close::CloseReason;

/// An error of a client or its settings.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be used.
    #[error("cannot use the address {url}: {problem}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something took longer than allowed.
    #[error("{what} took longer than {seconds} s: check that the peer is up, or raise the timeout")]
    Timeout {
        /// What.
        what: &'static str,
        /// How long it may take.
        seconds: f32,
    },
    /// The server answered the upgrade with another status.
    #[error("the server refused the WebSocket with HTTP status {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The beginning of its answer.
        message: String,
    },
    /// The connection was closed by the peer, with a code.
    #[error("the connection was closed with code {}: {}", .0.code, .0.reason)]
    Closed(CloseReason),
    /// The connection ended without a word.
    #[error("the connection ended without a close frame: connect again and continue from the last number")]
    Cut,
    /// The server refused one request; the connection goes on.
    #[error("the server refused ({code}): {message}")]
    Rejected {
        /// A stable word.
        code: String,
        /// A sentence.
        message: String,
    },
    /// The events asked for are no longer kept.
    #[error("events before number {earliest} are no longer kept: watch from there, or take the run as lost")]
    Gone {
        /// The earliest number left.
        earliest: u64,
    },
    /// The peer sent what is no message of this protocol.
    #[error("the peer does not speak this protocol: {0}")]
    Protocol(String),
    /// Keys or certificates cannot be used.
    #[error("cannot use the TLS settings: {0}")]
    Tls(String),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Address { .. } | Self::Tls(_) => Fault::Caller,
            Self::Timeout { .. } | Self::Cut | Self::Io(_) => Fault::Network,
            Self::Refused { .. } | Self::Protocol(_) | Self::Closed(_) => Fault::Peer,
            Self::Rejected { .. } | Self::Gone { .. } => Fault::Service,
        }
    }

    /// True if the connection goes on.
    pub fn can_continue(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Gone { .. })
    }

    /// True if the same may work over a new connection.
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
