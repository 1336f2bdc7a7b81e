//! Services of any package as bytes: for protocols whose messages are defined elsewhere.
//!
//! ```text
//!  RawClient ── path, metadata, bytes ──► HTTP/2 ──► RawServer ── RawCall ──► RawService
//!            ◄─ bytes, or a stream of them, or a status ◄──────── RawAnswer ◄─┘
//! ```
//!
//! * [`RawClient`] calls any path. Limits, timeouts, pings and TLS are those of [`Client`](crate::Client).
//! * [`RawServer`] is a tower service for one service name, with the limits, deadlines and stall watch of
//!   [`AgentStreamServer`](crate::AgentStreamServer). It is mounted like any other.
//!
//! The module does not interpret the bytes, and supports neither streams of requests, compression nor heartbeats (an empty
//! message has a meaning in every protocol, so only HTTP/2 pings keep such a stream alive).

#[cfg(feature = "client")]
mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod codec;
#[cfg(feature = "server")]
mod pump;
#[cfg(feature = "server")]
mod server;

use bytes::Bytes;
use tonic::{Code, Status};

#[cfg(feature = "client")]
pub use client::{RawClient, RawRequest, RawStream};
#[cfg(any(feature = "client", feature = "server"))]
pub use codec::BytesCodec;
#[cfg(feature = "server")]
pub use server::{Payloads, RawAnswer, RawCall, RawServer, RawService};

/// A status that is not `OK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawStatus {
    /// The status code; one that gRPC does not define becomes `UNKNOWN`.
    pub code: i32,
    /// A message for people.
    pub message: String,
    /// The encoded `google.rpc.Status` of `grpc-status-details-bin`; empty if there is none.
    pub details: Bytes,
}

impl RawStatus {
    /// Returns a status without details.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Bytes::new() }
    }

    /// Returns `UNIMPLEMENTED`: the service has no such method.
    pub fn no_such_method(method: &str) -> Self {
        let shown: String = method.chars().take(80).collect();
        Self::new(Code::Unimplemented as i32, format!("there is no method {shown:?}"))
    }
}

impl From<RawStatus> for Status {
    fn from(status: RawStatus) -> Self {
        // A failure with code OK would end the call as a success.
        let code = match Code::from_i32(status.code) {
            Code::Ok => Code::Unknown,
            code => code,
        };
        Self::with_details(code, status.message, status.details)
    }
}

impl From<Status> for RawStatus {
    fn from(status: Status) -> Self {
        Self {
            code: status.code() as i32,
            message: status.message().to_owned(),
            details: Bytes::copy_from_slice(status.details()),
        }
    }
}
