//! HTTP for agent streams: a server and a client around hyper, and a sans-IO codec for server-sent events.
//!
//! This crate carries frames and knows no agent protocol. An adapter interprets the payloads, through the seams of
//! [`aqueduct_core::service`].
//!
//! | module | feature | what |
//! |---|---|---|
//! | [`sse`] | | writer and incremental reader of `text/event-stream`, without IO |
//! | `server` | `server` | HTTP/1.1 and h2c on one port, limits, timeouts, graceful shutdown; WebSocket and gRPC are mounted on it |
//! | `driver` | `server` | the events of a run as a response |
//! | `endpoint`, `refusal` | `server` | from a `POST` to a run; errors as JSON |
//! | `admission` | `server` | `Host` and `Origin` checks, CORS |
//! | `quota` | `server` | what callers use at once, for all transports |
//! | `counters` | `server` | live counts, for all transports |
//! | `position` | `server` | event ids and `Last-Event-ID` |
//! | `client` | `client` | requests and streams from upstreams |
//! | `tls` | `tls` | certificates for both sides, also of the other transports |
//!
//! Invariants, in addition to those of the modules: a named field of `config` bounds every queue, buffer and wait; a stalled
//! reader costs a bounded amount of memory, in the process and in the kernel, and blocks no other reader; a peer that
//! disconnects is noticed at once; everything that is opened is closed on every path.
//!
//! # An endpoint for an agent
//!
//! ```
//! # #[cfg(feature = "server")] {
//! use std::sync::Arc;
//!
//! use aqueduct_core::service::RunService;
//! use aqueduct_transport_http::{
//!     CancelToken, Refusal, RunRequest, Server, ServerConfig, StreamOptions, Admission, run_endpoint,
//! };
//! use axum::Router;
//!
//! async fn serve(
//!     agent: Arc<dyn RunService>,
//!     parse: fn(&http::request::Parts, &bytes::Bytes) -> Result<RunRequest, Refusal>, // an adapter's
//! ) -> Result<(), aqueduct_transport_http::Error> {
//!     let routes = Router::new().route("/", run_endpoint(agent, "my-agent", parse, StreamOptions::default()));
//!     let server = Server::bind("127.0.0.1:8000", ServerConfig::default()).await?;
//!     server.serve(Admission::default().apply(routes), CancelToken::new()).await;
//!     Ok(())
//! }
//! # }
//! ```

#[cfg(feature = "server")]
mod admission;
#[cfg(feature = "client")]
mod client;
#[cfg(any(feature = "server", feature = "client"))]
mod config;
#[cfg(feature = "server")]
mod counters;
#[cfg(feature = "server")]
mod driver;
#[cfg(feature = "server")]
mod endpoint;
mod error;
#[cfg(feature = "server")]
mod position;
#[cfg(feature = "server")]
mod proof;
#[cfg(feature = "server")]
mod quota;
#[cfg(feature = "server")]
mod refusal;
#[cfg(feature = "server")]
mod server;
pub mod sse;
#[cfg(feature = "tls")]
pub mod tls;

#[cfg(feature = "server")]
pub use admission::Admission;
#[cfg(feature = "server")]
pub use aqueduct_core::CancelToken;
#[cfg(feature = "client")]
pub use client::{ByteStream, CallGuard, CallRefused, CallWatch, Client, Dial, Dialing, Duplex, SseStream};
#[cfg(any(feature = "server", feature = "client"))]
pub use config::HttpVersions;
#[cfg(feature = "client")]
pub use config::{ClientConfig, ClientLimits, ClientTimeouts};
#[cfg(feature = "server")]
pub use config::{Limits, ServerConfig, StreamOptions, Timeouts};
#[cfg(feature = "server")]
pub use counters::{Counters, Gauge, OpenGuard, Sample, Total};
#[cfg(feature = "server")]
pub use driver::{payload_response, stream_response};
#[cfg(feature = "server")]
pub use endpoint::{
    RunRequest, Surface, caller, caller_from, read_body, read_json, run_endpoint, start_run, watch_run,
};
pub use error::{Error, Fault};
#[cfg(feature = "server")]
pub use position::EventPosition;
#[cfg(feature = "server")]
pub use proof::{authenticated, proof_end};
#[cfg(feature = "server")]
pub use quota::{BodyCharge, Network, QuotaLimits, Quotas};
#[cfg(feature = "server")]
pub use refusal::{Refusal, RefusalReason};
#[cfg(feature = "server")]
pub use server::{
    BodyLimitLift, Drained, PeerAddr, PeerCertificate, Server, StallWatched, Stopping, Workers,
};
#[cfg(feature = "tls")]
pub use tls::TlsError;
