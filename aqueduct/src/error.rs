//! [`Error`]: the errors of setting up agents and servers.

use thiserror::Error;

/// Why an agent or a server could not be set up. Failures of runs are events of the run, not errors.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An address of a remote agent cannot be used.
    #[error("`{url}` is not the address of an agent: {reason}; write it as http://host:port/path")]
    Address {
        /// The address.
        url: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent: names are tokens, values are visible ASCII")]
    Header {
        /// The name of the header.
        name: String,
    },
    /// The HTTP client cannot be set up.
    #[cfg(feature = "http")]
    #[error("the client of a remote agent cannot be set up: {0}")]
    Client(#[source] aqueduct_transport_http::Error),
    /// A key of agent cards cannot be used.
    #[error("the key of agent cards cannot be read: {reason}; give a PEM file with an Ed25519 or P-256 key")]
    Key {
        /// The cause.
        reason: String,
    },
    /// An address to listen on cannot be resolved.
    #[error("cannot listen: {reason}; write the address as host:port")]
    Bind {
        /// The cause.
        reason: String,
    },
    /// The server cannot be set up.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Server(aqueduct_transport_http::Error),
    /// A setting needs a feature of this crate that is not enabled.
    #[error("{what} needs the feature `{feature}` of the crate `aqueduct`: enable it")]
    Unsupported {
        /// The setting.
        what: &'static str,
        /// The feature.
        feature: &'static str,
    },
}

impl Error {
    #[cfg(feature = "http")]
    pub(crate) fn address(url: &str, reason: &dyn std::fmt::Display) -> Self {
        Self::Address { url: url.to_owned(), reason: reason.to_string() }
    }
}
