//! The names of the subprotocols, for both sides.

/// Addressed messages, payloads as JSON.
pub const SUBPROTOCOL_JSON: &str = "aqueduct.v1.json";
/// Addressed messages, payloads as bytes.
pub const SUBPROTOCOL_PROTO: &str = "aqueduct.v1.proto";
/// The plain mode by name: for browsers that must offer something to carry a token.
pub const SUBPROTOCOL_PLAIN: &str = "aqueduct.v1.plain";
/// A token among the subprotocols, the only place a browser can put one. Never sent back.
pub const SUBPROTOCOL_BEARER: &str = "aqueduct.bearer.";
