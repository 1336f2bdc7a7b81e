//! A2A 1.0 and 0.3 for Aqueduct: converts between A2A and canonical events. No sockets, no clock.
//!
//! ```text
//! card::card_urls ► (fetch) ► card::parse ► card::choose ► Endpoint
//! Call ► Endpoint::http_request ► (send) ► frames ► client::TaskClient ► SourceEvents
//!                                   ▲                     │
//!                                   └── Calls, delays ◄───┘   (subscribe, get, cancel)
//! ```
//!
//! * [`wire`]: the model, borrowed from the frame; unknown members, states and parts are kept.
//! * [`card`], [`version`]: discovery and the choice of interface, binding and version.
//! * [`call`], [`jsonrpc`], [`rest`]: requests of all client methods; [`input`]: the message for the input of a run.
//! * [`decode`], [`recognise`]: decodes what agents send into canonical events.
//! * [`client`]: one task from the first message to its end, over cuts and reconnects.
//! * [`convert`], [`encode`]: encodes canonical events as the items of a task's stream; [`mark`]: metadata for what A2A cannot express.
//! * [`relay`]: what a proxy reads from calls that it forwards, and writes into them.
//! * `server` (feature `server`): serves an agent over A2A: calls, responses, errors.
//! * `pb` (feature `proto`): the messages of gRPC, to and from the same model.
//!
//! Not here: framing (SSE, HTTP, gRPC) and sockets, which belong to the transports; and the decision when blocks open
//! and close, which belongs to `aqueduct_core::StreamContext`.

pub mod call;
pub mod card;
pub mod client;
pub mod config;
pub mod convert;
pub mod decode;
pub mod encode;
pub mod error;
pub mod frontend;
pub mod input;
pub mod jsonrpc;
pub mod mark;
#[cfg(feature = "proto")]
pub mod pb;
mod question;
pub mod recognise;
pub mod relay;
pub mod rest;
#[cfg(feature = "server")]
pub mod server;
pub mod signature;
pub mod version;
pub mod wire;

pub use client::TaskClient;
pub use config::{ClientConfig, DecodeConfig, Notes, Settings};
pub use convert::converters;
pub use decode::{Decoder, Settled, TaskMemory};
pub use encode::{Envelope, ItemWriter, StreamEncoder};
