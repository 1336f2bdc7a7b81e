//! Certificates and keys: rustls configurations from PEM, with the ring provider.
//!
//! | module | for |
//! |---|---|
//! | [`pem`] | [`Identity`] (certificate and key), [`Authorities`] (trusted issuers) |
//! | [`server`] | [`ServerTls`]: the identity of a server, and whether it requires certificates of clients |
//! | [`client`] | [`ClientTls`]: the issuers that a client trusts, and its identity |
//!
//! Needs neither feature `server` nor `client`: the clients of other transports use the same settings and set the protocols
//! that they offer (ALPN). The module opens no socket and has no global state: no process-wide provider is installed, so a
//! program may use another one as well.

pub mod client;
pub mod error;
pub mod pem;
pub mod server;

pub use client::ClientTls;
pub use error::TlsError;
pub use pem::{Authorities, Identity};
#[cfg(feature = "server")]
pub use server::LiveTls;
pub use server::ServerTls;

/// Returns the cryptographic provider of all TLS configurations of this crate.
fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns ALPN names in the form of rustls.
fn owned(protocols: &[&[u8]]) -> Vec<Vec<u8>> {
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}
