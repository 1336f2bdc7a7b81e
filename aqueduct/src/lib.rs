//! Aqueduct carries the stream of any agent to any agent frontend. This is the crate to start with: remote agents as
//! streams, and several agents as one.
//!
//! | feature | what it adds |
//! |---|---|
//! | `agui` | AG-UI; with `http`: [`agui::RemoteAgent`] |
//! | `a2a` | A2A; with `http`: [`a2a::RemoteAgent`], and with `grpc` its third binding |
//! | `http` | HTTP client and server |
//! | `grpc` | gRPC client and server |
//! | `tls` | TLS for every transport that is on |
//!
//! An [`Agent`](aqueduct_core::Agent) answers a request with a stream of source events, which the driver of the run
//! polls: this crate spawns nothing for a run.

#[cfg(feature = "a2a")]
pub mod a2a;
#[cfg(feature = "agui")]
pub mod agui;
mod error;
mod fan_out;
#[cfg(feature = "http")]
pub mod remote;

pub use error::Error;
pub use fan_out::FanOut;
