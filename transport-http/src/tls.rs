//! TLS of this transport: the settings are those of [`aqueduct_transport_tls`]; here is what they are offered with.

pub use aqueduct_transport_tls::*;

/// What a server offers: HTTP/2 first, and HTTP/1.1 for everybody else. A client's offer is set by its connector.
#[cfg(feature = "server")]
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];
