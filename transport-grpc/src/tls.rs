//! TLS of this transport: the settings are those of [`aqueduct_transport_tls`]; here is what they are offered with.

pub use aqueduct_transport_tls::*;

/// What both sides offer: HTTP/2 only, because gRPC speaks nothing else.
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"h2"];
