//! [`Error`]: the errors of server, streams and client, with the party at fault and whether the stream can continue.
//!
//! Server and client share one enum, so that a program that uses both handles one type. Variants do not depend on features,
//! except for two whose fields do. Errors of the SSE codec and of certificates are fields of theirs: both codecs are used
//! without sockets as well.

use std::time::Duration;

pub use aqueduct_core::error::Fault;
use thiserror::Error as ThisError;

/// Why a server cannot start, a served stream is cut, or a request to an upstream failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another address or stop what uses it")]
    Bind {
        /// The address to listen on.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The system does not return the address of the listening socket.
    #[error("the listening socket is unusable: {0}")]
    Socket(std::io::Error),
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// A served stream is cut because its events ended without a terminal one. The peer sees a broken connection, never a
    /// clean end; so for the next two.
    #[error("the events of the run ended without a terminal event: the service lost the run")]
    LostRun,
    /// A served stream is cut because the peer accepted no byte in time.
    #[error("the peer took no byte of the stream within the limit `write_stall`: it may resume")]
    WriteStall,
    /// A served stream is cut because the proof of the reader expired or was revoked.
    #[error("the token expired or was revoked: resume from the last position with a new one")]
    ProofEnded,
    /// The response is not the requested stream. It is returned with its body, so that an adapter can read the error in it.
    #[cfg(feature = "client")]
    #[error("the upstream answered {} with {:?} instead of a stream: check that the address is that of an agent", .0.status(), content_type(.0))]
    NotAStream(Box<http::Response<bytes::Bytes>>),
    /// The connection failed.
    #[error("cannot connect to {upstream}: {reason}; check the address, and that the upstream is up")]
    Connect {
        /// Scheme, host and port.
        upstream: String,
        /// The cause.
        reason: String,
    },
    /// The watch of the client refused the call.
    #[error("{reason}")]
    NotSent {
        /// Host and port.
        upstream: String,
        /// The stable code of the watch.
        code: &'static str,
        /// The reason, and what to do.
        reason: String,
    },
    /// The request was sent, but no valid response arrived.
    #[error("the request to {upstream} failed: {reason}; it may have been received")]
    Request {
        /// Scheme, host and port.
        upstream: String,
        /// The cause.
        reason: String,
    },
    /// A timeout elapsed.
    #[error(
        "the upstream {upstream} did not answer within {limit:?} (timeout `{timeout}`): raise the timeout, or check the upstream"
    )]
    Timeout {
        /// Scheme, host and port.
        upstream: String,
        /// The field of [`ClientTimeouts`](crate::config::ClientTimeouts).
        timeout: &'static str,
        /// The value of the timeout.
        limit: Duration,
    },
    /// The body is too long.
    #[error("the response of {upstream} is longer than {limit} bytes (limit `body_bytes`): raise the limit")]
    BodyTooLong {
        /// Scheme, host and port.
        upstream: String,
        /// The value of the limit, in bytes.
        limit: usize,
    },
    /// The connection was lost while the body was read.
    #[error("the response of {upstream} was cut: {reason}; retry, or resume the stream")]
    Cut {
        /// Scheme, host and port.
        upstream: String,
        /// The cause.
        reason: String,
    },
    /// The body is not a valid event stream.
    #[error("the event stream of {upstream} cannot be read: {source}")]
    Events {
        /// Scheme, host and port.
        upstream: String,
        /// The error of the decoder.
        source: crate::sse::DecodeError,
    },
}

impl Error {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Bind { .. } | Self::LostRun | Self::NotSent { .. } => Fault::Caller,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
            #[cfg(feature = "client")]
            Self::NotAStream(response) if response.status().is_client_error() => Fault::Caller,
            #[cfg(feature = "client")]
            Self::NotAStream(_) => Fault::Peer,
            Self::WriteStall | Self::ProofEnded | Self::BodyTooLong { .. } | Self::Events { .. } => {
                Fault::Peer
            }
            Self::Socket(_)
            | Self::Connect { .. }
            | Self::Request { .. }
            | Self::Cut { .. }
            | Self::Timeout { .. } => Fault::Network,
        }
    }

    /// Returns `false`: a server cannot start, or the stream is over. Another request, or another watch of the run, may
    /// succeed.
    pub fn can_continue(&self) -> bool {
        false
    }
}

#[cfg(feature = "client")]
fn content_type(response: &http::Response<bytes::Bytes>) -> &str {
    let value = response.headers().get(http::header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}
