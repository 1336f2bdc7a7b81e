//! [`TlsError`]: certificates or keys that cannot be used. Always the fault of the caller; there is no way to continue.

use thiserror::Error;

/// Why a TLS configuration cannot be created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or contains no usable PEM.
    #[error("cannot read {what} from {path}: {reason}; give a PEM file that contains it")]
    Pem {
        /// The expected item.
        what: &'static str,
        /// The path of the file.
        path: String,
        /// The cause.
        reason: String,
    },
    /// Certificates, key or authorities do not match.
    #[error(
        "the TLS configuration is invalid: {0}; check that certificate, key and authorities belong together"
    )]
    Unusable(String),
}

impl TlsError {
    pub(crate) fn unusable(error: impl std::fmt::Display) -> Self {
        Self::Unusable(error.to_string())
    }
}
