//! The errors of the server, of streams and of the client, each with [`Fault`] and whether the stream can continue.

pub use aqueduct_core::error::Fault;
#[cfg(any(feature = "server", feature = "client"))]
use thiserror::Error;

/// Why a server cannot start.
#[cfg(feature = "server")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
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
}

#[cfg(feature = "server")]
impl ServerError {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Bind { .. } => Fault::Caller,
            Self::Socket(_) => Fault::Network,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
        }
    }

    /// Returns `false`: a server that cannot start cannot continue.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a stream of events is cut: the peer sees a broken connection, never a clean end.
#[cfg(feature = "server")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The events ended without a terminal one.
    #[error("the events of the run ended without a terminal event: the service lost the run")]
    LostRun,
    /// The peer accepted no byte in time.
    #[error("the peer took no byte of the stream within the limit `write_stall`: it may resume")]
    WriteStall,
    /// The proof of the reader expired or was revoked.
    #[error("the token expired or was revoked: resume from the last position with a new one")]
    ProofEnded,
}

#[cfg(feature = "server")]
impl StreamError {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::LostRun => Fault::Caller,
            Self::WriteStall | Self::ProofEnded => Fault::Peer,
        }
    }

    /// Returns `false`: the stream is over. The run can be watched again.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a request to an upstream, or a stream from it, failed.
#[cfg(feature = "client")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The response is not the requested stream. It is returned with its body, so that an adapter can read the error in it.
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
    #[error("the request to {upstream} failed: {reason}")]
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
        /// The field of [`ClientTimeouts`](crate::ClientTimeouts).
        timeout: &'static str,
        /// The value of the timeout.
        limit: std::time::Duration,
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
    #[error("the response of {upstream} was cut: {reason}")]
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
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
}

#[cfg(feature = "client")]
impl ClientError {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotAStream(response) if response.status().is_client_error() => Fault::Caller,
            Self::NotAStream(_) | Self::BodyTooLong { .. } | Self::Events { .. } => Fault::Peer,
            Self::Connect { .. } | Self::Request { .. } | Self::Cut { .. } | Self::Timeout { .. } => {
                Fault::Network
            }
            Self::NotSent { .. } => Fault::Caller,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
        }
    }

    /// Returns `false`: the stream is over after any error. Another request may succeed.
    pub fn can_continue(&self) -> bool {
        false
    }
}

#[cfg(feature = "client")]
fn content_type(response: &http::Response<bytes::Bytes>) -> &str {
    let value = response.headers().get(http::header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}
