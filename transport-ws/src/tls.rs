//! TLS of this transport: the settings are those of [`aqueduct_transport_tls`]; here is what they are offered with.

pub use aqueduct_transport_tls::*;

/// What both sides offer: `WebSocket`s are upgraded from HTTP/1.1.
pub(crate) const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
