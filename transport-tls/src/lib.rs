//! Certificates and keys for the transports: PEM in, ready rustls configurations out, with the ring provider.
//!
//! | feature | module | for |
//! |---|---|---|
//! | | [`pem`] | [`Identity`] (who one is), [`Authorities`] (whom one trusts) |
//! | | [`server`] | [`ServerTls`]: what a server shows, and whether it asks clients for certificates |
//! | `client` | [`client`] | [`ClientTls`]: whom a client trusts, and who it is |
//!
//! Each transport names the protocols that it offers (ALPN) and hands the configuration to its own acceptor or
//! connector. Nothing here opens a socket, and nothing is global: no process-wide provider is installed, so a program may
//! use another one beside.

#[cfg(feature = "client")]
pub mod client;
pub mod error;
pub mod pem;
pub mod server;

#[cfg(feature = "client")]
pub use client::ClientTls;
pub use error::TlsError;
pub use pem::{Authorities, Identity};
pub use server::ServerTls;

fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

fn owned(protocols: &[&[u8]]) -> Vec<Vec<u8>> {
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}
