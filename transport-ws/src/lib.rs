//! WebSocket server and client of Aqueduct: several runs on one socket, with resume, cancel and ingest.
//!
//! ```text
//! socket ─► codec (tungstenite) ─► driver ─► session ─► RunService
//!        ◄─ one flush per batch ◄─ driver ◄─ EventEncoder ◄─ EventStream
//! ```
//!
//! * An [`Endpoint`] is a set of routes for the server of `transport-http`, alone or merged with others, and upgrades their
//!   requests. It has no socket of its own.
//! * The protocol `aqueduct.v1` carries several runs on one socket; its messages are documented in `docs/websocket.md`.
//!   Without a subprotocol a connection is *plain*: one run input in, one event per message out.
//! * Feature `client`: [`client::Client`] starts, watches, cancels and publishes; [`client::ResumingPublisher`]
//!   survives lost connections.
//!
//! Invariants:
//! 1. A stalled reader holds one batch of bytes and no resources of the service; it is disconnected after a timeout and can
//!    resume.
//! 2. A peer that disconnects is noticed at once: its event streams and ingests are dropped, and the service decides what that
//!    means for the runs.
//! 3. One task per connection, without further tasks: when it ends, everything it held has ended.
//! 4. Every limit and timeout has a name and a reason in [`config`].
//!
//! The crate contains no sockets, TLS or admission (the server has them), no agent protocols (a
//! [`Protocol`](aqueduct_core::Protocol) provides them), no run logs, and no decisions about access (the
//! [`RunService`](aqueduct_core::service::RunService) makes them).
//!
//! | feature | what |
//! |---|---|
//! | `server` | the endpoint (on by default) |
//! | `client` | the connecting side |
//! | `tls` | TLS by rustls for the client |
//! | `testing` | checks of messages for the fuzz targets, and an echo for conformance suites |

#[cfg(feature = "client")]
pub mod client;
pub mod close;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
mod driver;
#[cfg(feature = "server")]
pub mod endpoint;
pub mod error;
#[cfg(feature = "server")]
pub mod handshake;
#[cfg(any(feature = "client", feature = "server"))]
mod message;
pub mod subprotocol;
#[cfg(feature = "testing")]
pub mod testing;

pub use aqueduct_core::protocol::Encoding;
#[cfg(feature = "tls")]
pub use aqueduct_transport_http::tls;
pub use close::CloseReason;
#[cfg(feature = "server")]
pub use config::{Config, Limits, Timeouts};
#[cfg(feature = "server")]
pub use endpoint::Endpoint;
pub use error::{Error, Fault};
#[cfg(feature = "server")]
pub use handshake::{Mode, Upgrade};
#[cfg(feature = "server")]
pub use message::request::OPERATIONS;
