//! What can go wrong, whose fault it is, and whether it can go on.

#[cfg(any(feature = "client", feature = "server"))]
use thiserror::Error;

pub use aqueduct_transport_http::Fault;

/// Why services cannot be mounted.
#[cfg(feature = "server")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The description of a service for reflection cannot be read.
    #[error("the descriptions of the services do not hold: {0}; register each service's own descriptor set")]
    Description(String),
}

#[cfg(feature = "server")]
impl ServerError {
    /// Returns the side whose fault it is.
    pub fn fault(&self) -> Fault {
        Fault::Caller
    }

    /// Returns `false`: services that cannot be described are not mounted.
    pub fn can_continue(&self) -> bool {
        false
    }
}

/// Why a call failed, or a stream from it.
#[cfg(feature = "client")]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is none.
    #[error("cannot use the address {address}: {problem}; write it as http://host:port or https://host:port")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] aqueduct_transport_http::tls::TlsError),
    /// The token is none.
    #[error("the token has characters that metadata cannot carry: use visible ASCII")]
    Token,
    /// Metadata that cannot be sent.
    #[error("the metadata {name:?} cannot be sent: names are lower case, values visible ASCII")]
    Metadata {
        /// Its name.
        name: String,
    },
    /// There is no connection.
    #[error("cannot connect to {address}: {problem}; check that the service is up")]
    Connect {
        /// The address.
        address: String,
        /// Why not.
        problem: String,
    },
    /// The service refused.
    #[error("the service refused: {0}")]
    Refused(#[from] aqueduct_core::service::ServiceError),
    /// The deadline of the call passed, or the service took too long to answer.
    #[error("{what} took longer than allowed: raise the timeout, or check the service")]
    Timeout {
        /// What.
        what: &'static str,
    },
    /// The stream ended before its time. A run can be watched again after the last number; a publisher can open its
    /// run again.
    #[error("the stream was cut ({code:?}): {message}; continue where it stopped")]
    Cut {
        /// The status.
        code: tonic::Code,
        /// What the service or the network said.
        message: String,
    },
    /// Another status than those the service gives.
    #[error("the call failed ({code:?}): {message}")]
    Status {
        /// The status.
        code: tonic::Code,
        /// What the service or a proxy said.
        message: String,
    },
    /// The service sent something that does not hold, or an input has no form in `aqueduct.v1`.
    #[error("the message cannot be converted: {0}")]
    Convert(#[from] crate::convert::ConvertError),
    /// The service broke the rules of the stream.
    #[error("the service broke the protocol: {0}")]
    Protocol(&'static str),
}

#[cfg(feature = "client")]
impl ClientError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        use aqueduct_core::service::RefusalKind as Kind;
        match self {
            Self::Address { .. } | Self::Token | Self::Metadata { .. } => Fault::Caller,
            #[cfg(feature = "tls")]
            Self::Tls(_) => Fault::Caller,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Cut { .. } | Self::Status { .. } => {
                Fault::Network
            }
            Self::Refused(refusal) => match refusal.kind {
                Kind::Busy | Kind::Unavailable | Kind::Internal => Fault::Service,
                _ => Fault::Caller,
            },
            Self::Convert(_) | Self::Protocol(_) => Fault::Peer,
        }
    }

    /// True if the same can be asked for again: the run continues where it stopped, or later it may work.
    pub fn can_continue(&self) -> bool {
        use aqueduct_core::service::RefusalKind as Kind;
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Cut { .. } => true,
            Self::Refused(refusal) => matches!(refusal.kind, Kind::Busy | Kind::Unavailable),
            _ => false,
        }
    }
}
