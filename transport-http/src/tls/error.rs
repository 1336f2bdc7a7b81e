//! Certificates or keys that cannot be used. It is always the caller's fault, and nothing can go on with them.

use thiserror::Error;

/// Why a configuration cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds no usable PEM.
    #[error("cannot read {what} from {path}: {reason}; give a PEM file that holds it")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The pieces do not fit together.
    #[error("the TLS configuration does not hold: {0}")]
    Unusable(String),
}

impl TlsError {
    pub(crate) fn unusable(error: impl std::fmt::Display) -> Self {
        Self::Unusable(error.to_string())
    }
}
