//! Aqueduct carries the stream of any agent to any agent frontend. This is the crate to start with.
//!
//! ```no_run
//! use aqueduct::prelude::*;
//!
//! fn agent(input: RunInput) -> impl Stream<Item = Update> {
//!     stream! {
//!         yield Update::thinking("Let me look that up.");
//!         yield Update::text(format!("You asked: {}", input.text()));
//!     }
//! }
//!
//! # #[cfg(all(feature = "agui", feature = "http"))]
//! # async fn run() -> Result<(), aqueduct::Error> {
//! let runs = Runs::new().agent("oracle", agent);
//! aqueduct::serve("127.0.0.1:8000", agui::router(&runs)).await
//! # }
//! ```
//!
//! | surface | routes | feature |
//! |---|---|---|
//! | AG-UI | [`agui::router`] | `agui`, `http` |
//! | A2A: JSON-RPC, HTTP+JSON | [`a2a::router`] | `a2a`, `http` |
//! | WebSocket | [`ws::router`] | `ws` |
//! | gRPC, with A2A's service | [`grpc::router`], [`grpc::a2a_router`] | `grpc` |
//!
//! All are axum routers and merge into one. Remote agents are agents: [`a2a::RemoteAgent`], [`agui::RemoteAgent`];
//! [`FanOut`] makes one of several. `log-disk` and `log-redis` add engines of the run log; `magentic` the format in which
//! Microsoft Agent Framework workflows are published; `tls` TLS for every transport that is on.

#[cfg(feature = "a2a")]
pub mod a2a;
#[cfg(feature = "agui")]
pub mod agui;
mod error;
mod fan_out;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "magentic")]
pub mod magentic;
pub mod prelude;
#[cfg(feature = "http")]
pub mod remote;
#[cfg(feature = "http")]
mod router;
#[cfg(feature = "http")]
mod serve;
#[cfg(feature = "ws")]
pub mod ws;

pub use aqueduct_core as core;
pub use aqueduct_runlog as runlog;
pub use aqueduct_runs as runs;
pub use error::Error;
pub use fan_out::FanOut;
#[cfg(feature = "http")]
pub use router::router;
#[cfg(feature = "http")]
pub use serve::serve;

/// Returns a builder of [`Runs`](runs::Runs) with everything that the enabled features add: inputs of AG-UI in the log,
/// so that threads can be read again, and the payload formats of publishers.
///
/// # Examples
///
/// ```
/// let runs = aqueduct::builder().build();
/// assert!(runs.agent_names().is_empty());
/// ```
pub fn builder() -> runs::RunsBuilder {
    let builder = runs::Runs::builder();
    #[cfg(feature = "agui")]
    let builder = builder
        .record_input(aqueduct_adapter_agui::fold::asked)
        .guard_events(|input| Box::new(aqueduct_adapter_agui::fold::state_guard(input)));
    #[cfg(feature = "magentic")]
    let builder = builder.ingest_format("magentic", magentic::decoder);
    builder
}
