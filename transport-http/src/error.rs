//! What can go wrong, whose fault it is, and whether the stream can go on.

#[cfg(any(feature = "server", feature = "client"))]
use thiserror::Error;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The other side sent something that cannot be carried, or stopped answering.
    Peer,
    /// The code or the configuration on this side.
    Caller,
    /// The network or the machine.
    Network,
    /// The service behind the other side.
    Service,
}

/// Why a server cannot run.
#[cfg(feature = "server")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address or stop what uses it")]
    Bind {
        /// The address.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The listening socket cannot be asked for its address.
    #[error("the listening socket is unusable: {0}")]
    Socket(std::io::Error),
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
}

#[cfg(feature = "server")]
impl ServerError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Bind { .. } => Fault::Caller,
            Self::Socket(_) => Fault::Network,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
        }
    }

    /// A server that cannot start cannot go on.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a stream of events is cut short: seen by the peer as a broken connection, never as a clean end.
#[cfg(feature = "server")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The events ended without a terminal one.
    #[error("the events of the run ended without a terminal event: the service lost the run")]
    LostRun,
    /// The peer took nothing for too long.
    #[error("the peer took no byte of the stream within the limit `write_stall`: it may resume")]
    WriteStall,
    /// The proof of the reader expired or was revoked.
    #[error("the token expired or was revoked: resume from the last position with a new one")]
    ProofEnded,
}

#[cfg(feature = "server")]
impl StreamError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::LostRun => Fault::Caller,
            Self::WriteStall | Self::ProofEnded => Fault::Peer,
        }
    }

    /// The stream is over; the run may be watched again.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a request to an upstream failed, or a stream from it.
#[cfg(feature = "client")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The upstream answered with something other than the stream that was asked for. The response is given back
    /// with its body, so that an adapter can read the error in it.
    #[error("the upstream answered {} with {:?} instead of a stream", .0.status(), content_type(.0))]
    NotAStream(Box<http::Response<bytes::Bytes>>),
    /// No connection could be made.
    #[error("cannot connect to {upstream}: {reason}")]
    Connect {
        /// Scheme, host and port.
        upstream: String,
        /// Why not.
        reason: String,
    },
    /// The watch of the client did not let the call pass.
    #[error("{reason}")]
    NotSent {
        /// Host and port.
        upstream: String,
        /// A stable word of the watch.
        code: &'static str,
        /// Why not, and what to do.
        reason: String,
    },
    /// The request was sent, but no proper response came.
    #[error("the request to {upstream} failed: {reason}")]
    Request {
        /// Scheme, host and port.
        upstream: String,
        /// Why.
        reason: String,
    },
    /// A time limit passed.
    #[error("the upstream {upstream} did not answer within {limit:?} (timeout `{timeout}`)")]
    Timeout {
        /// Scheme, host and port.
        upstream: String,
        /// The field of [`ClientTimeouts`](crate::ClientTimeouts).
        timeout: &'static str,
        /// Its value.
        limit: std::time::Duration,
    },
    /// The body is too long.
    #[error("the response of {upstream} is longer than {limit} bytes (limit `body_bytes`)")]
    BodyTooLong {
        /// Scheme, host and port.
        upstream: String,
        /// The limit.
        limit: usize,
    },
    /// The connection broke while the body was read.
    #[error("the response of {upstream} was cut: {reason}")]
    Cut {
        /// Scheme, host and port.
        upstream: String,
        /// Why.
        reason: String,
    },
    /// The body is no event stream.
    #[error("the event stream of {upstream} cannot be read: {source}")]
    Events {
        /// Scheme, host and port.
        upstream: String,
        /// Why not.
        source: crate::sse::DecodeError,
    },
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
}

#[cfg(feature = "client")]
impl ClientError {
    /// Whose fault it is.
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

    /// The stream is over after any error; another request may work.
    pub fn can_continue(&self) -> bool {
        false
    }
}

#[cfg(feature = "client")]
fn content_type(response: &http::Response<bytes::Bytes>) -> &str {
    let value = response.headers().get(http::header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}
