//! The messages of the protocol `aqueduct.v1`: what a client may say, what a server answers.
//!
//! Control messages are JSON objects with a `type` in text messages. Inputs and payloads inside them are opaque: they
//! are cut out of the received bytes and never parsed or written again. `docs/websocket.md` has every field.
//!
//! What is not here: sockets, and what the payloads mean.

pub(crate) mod binary;
#[cfg(feature = "server")]
pub(crate) mod depth;
#[cfg(feature = "server")]
pub(crate) mod reply;
#[cfg(feature = "server")]
pub(crate) mod request;

#[cfg(feature = "server")]
pub(crate) use reply::Reply;
#[cfg(feature = "server")]
pub(crate) use request::Request;
