//! The imports of a program with its own agents.
//!
//! `Agent` and its events, `Runs`, the modules of the enabled surfaces, and the macros that agents are written with.

pub use aqueduct_core::{
    Agent, AgentRequest, Interrupt, Message, RunInput, RunOutcome, Source, SourceEvent, SourceStream, Update,
};
pub use aqueduct_runs::{AgentOptions, OnDisconnect, Runs};
pub use async_stream::stream;
pub use futures_core::Stream;
pub use serde_json::{Value, json};

#[cfg(all(feature = "a2a", feature = "http"))]
pub use crate::a2a::{self, Card};
#[cfg(feature = "agui")]
pub use crate::agui;
#[cfg(feature = "grpc")]
pub use crate::grpc;
#[cfg(feature = "ws")]
pub use crate::ws;
#[cfg(feature = "http")]
pub use axum::Router;
