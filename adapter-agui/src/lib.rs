//! AG-UI for Aqueduct: 1.0 and its 0.0.59 dialect, in both directions, with no way to produce a stream that a client
//! rejects.
//!
//! ```text
//!   AG-UI agent ── payloads ──► decode ──► canonical source events ──► (core: StreamContext) ──► canonical events
//!                                                                                                      │
//!   AG-UI client ◄── payloads ── encode ◄── AG-UI events ◄──────────────── convert ◄───────────────────┘
//!        │                                       │
//!        └── RunAgentInput ──► input             └──► verify
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`wire`] | the protocol's own types |
//! | [`convert`] | canonical events as AG-UI events, by [`config::Settings`] |
//! | [`encode`] | AG-UI events as JSON, SSE frames or protobuf frames |
//! | [`decode`] | an AG-UI agent as a source |
//! | [`input`] | the input of a run, both ways |
//! | [`ids`] | emitted ids mapped to the source's, for inputs to the source |
//! | [`resume`] | replies to interrupts: a user's text as `resume` |
//! | [`verify`] | whether a client would accept a stream, and what it would lose |
//! | [`version`] | dialect and encoding for a peer |
//! | [`chunks`] | expansion of chunk events |
//! | [`fold`] | the messages and state after a stream |
//! | `proto` | the protobuf encoding (feature `proto`) |
//!
//! # From updates to bytes
//!
//! ```
//! use aqueduct_adapter_agui::{config::Settings, convert::converters, encode};
//! use aqueduct_core::{RunInfo, RunOutcome, SourceEvent, StreamContext, Update};
//!
//! let mut context = StreamContext::new(RunInfo::new("thread-1", "run-1"));
//! context.handle_update(Update::text("Hello"))?;
//! context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None })?;
//!
//! // No version declared: the conservative dialect.
//! let set = converters(&Settings::for_declared(None));
//! let (mut events, mut bytes) = (Vec::new(), Vec::new());
//! while let Some(event) = context.poll_event() {
//!     set.convert(&event, &mut events);
//! }
//! for event in &events {
//!     encode::sse(event, None, &mut bytes)?;
//! }
//! let text = String::from_utf8(bytes)?;
//! assert!(text.contains(r#""delta":"Hello""#));
//! assert!(text.ends_with("\n\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Settings and defaults
//!
//! [`config`] has the table. In short: a peer that declares `protocolVersion` gets 1.0 with attributed sub-agents and
//! interrupts; a peer without declared version gets what 0.0.59 accepts, with sub-agents as tool calls and interrupts as
//! text.
//!
//! # What this crate does not do
//!
//! It opens no socket, reads no clock and spawns no task. It knows no other protocol. It does not decide when blocks open and
//! close: the stream machine does, and guarantees the order of the output.
//!
//! | feature | what it adds |
//! |---|---|
//! | `proto` | the protobuf encoding, without further dependencies |
#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table of cases is read from top to bottom"))]

pub mod chunks;
pub mod config;
pub mod convert;
pub mod decode;
pub mod encode;
pub mod error;
pub mod fold;
pub mod ids;
pub mod input;
#[cfg(feature = "proto")]
pub mod proto;
pub mod protocol;
pub mod resume;
pub mod verify;
pub mod version;
pub mod wire;

pub use config::{Dialect, Errors, Interrupts, Settings, Subagents};
pub use error::{Error, WireError};
