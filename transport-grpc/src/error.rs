//! [`Error`]: the errors of services and of the client, with the party at fault and whether the caller can continue.
//!
//! Services and client share one enum. [`ConvertError`](crate::convert::ConvertError) is the field of one variant: the
//! conversions are used without a service as well.

use thiserror::Error as ThisError;

pub use aqueduct_transport_http::Fault;

/// Why services cannot be mounted, or a call, or a stream from it, failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The descriptor of a service for reflection is invalid.
    #[error("a descriptor set is invalid: {0}; register each service's own descriptor set")]
    Description(String),
    /// The server of a raw call, or the network, ended it with a status.
    #[error("the call failed (gRPC code {}): {}", .0.code, .0.message)]
    Raw(crate::raw::RawStatus),
    /// The address is invalid.
    #[error("cannot use the address {address}: {problem}; write it as http://host:port or https://host:port")]
    Address {
        /// The invalid address.
        address: String,
        /// A description of the defect.
        problem: String,
    },
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] aqueduct_transport_http::tls::TlsError),
    /// The token is invalid.
    #[error("the token has characters that metadata cannot carry: use visible ASCII")]
    Token,
    /// The metadata is invalid.
    #[error("the metadata {name:?} cannot be sent: names are lower case, values visible ASCII")]
    Metadata {
        /// The name of the metadata.
        name: String,
    },
    /// The connection failed.
    #[error("cannot connect to {address}: {problem}; check that the service is up")]
    Connect {
        /// The address of the service.
        address: String,
        /// The cause.
        problem: String,
    },
    /// The service refused the call.
    #[error("the service refused: {0}")]
    Refused(#[from] aqueduct_core::service::ServiceError),
    /// The deadline of the call elapsed, or the service took too long to answer.
    #[error("{what} took longer than allowed: raise the timeout, or check the service")]
    Timeout {
        /// The operation.
        what: &'static str,
    },
    /// The stream ended early. A run can be watched again after the last number; a publisher can open its run again.
    #[error("the stream was cut ({code:?}): {message}; continue where it stopped")]
    Cut {
        /// The status code.
        code: tonic::Code,
        /// The message of the service or the network.
        message: String,
    },
    /// A status that the service itself does not use.
    #[error("the call failed ({code:?}): {message}")]
    Status {
        /// The status code.
        code: tonic::Code,
        /// The message of the service or a proxy.
        message: String,
    },
    /// The service sent an invalid message, or an input has no form in `aqueduct.v1`.
    #[error("the message cannot be converted: {0}")]
    Convert(#[from] crate::convert::ConvertError),
    /// The service violated the protocol of the stream.
    #[error("the service broke the protocol: {0}")]
    Protocol(&'static str),
}

impl Error {
    /// Returns the party that caused the error.
    pub fn fault(&self) -> Fault {
        use aqueduct_core::service::RefusalKind as Kind;
        match self {
            Self::Description(_) | Self::Address { .. } | Self::Token | Self::Metadata { .. } => {
                Fault::Caller
            }
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
            Self::Raw(_)
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Cut { .. }
            | Self::Status { .. } => Fault::Network,
            Self::Refused(refusal) => match refusal.kind {
                Kind::Busy | Kind::Unavailable | Kind::Internal => Fault::Service,
                _ => Fault::Caller,
            },
            Self::Convert(_) | Self::Protocol(_) => Fault::Peer,
        }
    }

    /// Returns `true` if a retry may succeed: the run continues where it stopped, or the refusal is temporary.
    pub fn can_continue(&self) -> bool {
        use aqueduct_core::service::RefusalKind as Kind;
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Cut { .. } => true,
            Self::Refused(refusal) => matches!(refusal.kind, Kind::Busy | Kind::Unavailable),
            _ => false,
        }
    }
}
