//! The messages of the protocol `aqueduct.v1`: requests of a client, replies of a server.
//!
//! Control messages are JSON objects with a `type` in text messages. Inputs and payloads inside them are opaque: they are
//! slices of the received bytes, never parsed or serialized again. `docs/websocket.md` documents every field.
//!
//! The module uses no socket and does not interpret payloads.

pub(crate) mod binary;
#[cfg(feature = "server")]
pub(crate) mod reply;
#[cfg(feature = "server")]
pub(crate) mod request;

#[cfg(feature = "server")]
pub(crate) use reply::Reply;
#[cfg(feature = "server")]
pub(crate) use request::Request;
