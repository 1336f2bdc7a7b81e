//! The names of the subprotocols, for both sides.

/// Addressed messages with JSON payloads.
pub const SUBPROTOCOL_JSON: &str = "aqueduct.v1.json";
/// Addressed messages with binary payloads.
pub const SUBPROTOCOL_PROTO: &str = "aqueduct.v1.proto";
/// The plain mode by name, for browsers that must offer a subprotocol to send a token.
pub const SUBPROTOCOL_PLAIN: &str = "aqueduct.v1.plain";
/// The prefix of a token among the subprotocols, the only place where a browser can send one. Never returned.
pub const SUBPROTOCOL_BEARER: &str = "aqueduct.bearer.";
