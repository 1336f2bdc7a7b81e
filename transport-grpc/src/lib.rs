//! gRPC for Aqueduct: canonical events as typed messages.
//!
//! The service `aqueduct.v1.AgentStream` starts, watches, cancels, lists and publishes runs. Users of other languages compile
//! its .proto file (`proto/aqueduct/v1/agent_stream.proto`); `docs/grpc.md` is for them. This crate knows no agent protocol:
//! it carries the [`BlockEvent`](aqueduct_core::BlockEvent)s of a [`RunService`](aqueduct_core::service::RunService) without
//! loss.
//!
//! ```text
//!  RunService ── EventStream ──► driver ── StreamMessage ──► tonic, HTTP/2 ──► peer
//!             ◄─ RunInput ────── convert ◄─ RunRequest ─────
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`server`] | [`AgentStreamServer`], a tower service; [`Services`], the routes of all services with health and reflection, for the server of `transport-http` |
//! | [`client`] | [`Client`]: calls with core types |
//! | [`convert`] | conversion between canonical values and messages |
//! | [`raw`] | any other service, as bytes: [`RawClient`](raw::RawClient), [`RawServer`](raw::RawServer) |
//! | [`config`] | limits and timeouts, with their reasons |
//! | [`status`] | refusals to statuses and back |
//! | [`proto`] | the generated messages |
//!
//! Features: `server` and `client` (both on), `tls` (rustls, for the client).

#[cfg(feature = "server")]
mod call;
#[cfg(feature = "client")]
pub mod client;
pub mod codec;
pub mod config;
pub mod convert;
#[path = "generated/description.rs"]
mod description;
#[cfg(feature = "server")]
mod driver;
pub mod error;
#[path = "generated/aqueduct_v1.rs"]
pub mod proto;
#[cfg(feature = "server")]
mod publish;
pub mod raw;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
mod stall;
pub mod status;

#[cfg(feature = "tls")]
pub use aqueduct_transport_http::tls::{self, TlsError};
#[cfg(feature = "client")]
pub use client::{Client, Publisher, RunStream};
#[cfg(feature = "client")]
pub use config::{ClientConfig, ClientLimits, ClientTimeouts};
#[cfg(feature = "server")]
pub use config::{Config, Limits, Timeouts};
pub use description::FILE_DESCRIPTOR_SET;
pub use error::{Error, Fault};
#[cfg(feature = "server")]
pub use server::{AgentStreamServer, Services, unimplemented};
