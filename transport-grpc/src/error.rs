//! What can go wrong, whose fault it is, and whether it can go on.

#[cfg(any(feature = "client", feature = "server"))]
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
    /// The service behind the server.
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
    /// The description of a service for reflection cannot be read.
    #[error("the descriptions of the services do not hold: {0}; register each service's own descriptor set")]
    Description(String),
    /// The certificates cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] aqueduct_transport_tls::TlsError),
}

#[cfg(feature = "server")]
impl ServerError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Bind { .. } | Self::Description(_) => Fault::Caller,
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
    Tls(#[from] aqueduct_transport_tls::TlsError),
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
