//! WebSocket server and client of Aqueduct: several runs on one socket, with resume, cancel and ingest.
//!
//! ```text
//! socket ─► codec (tungstenite) ─► driver ─► session ─► RunService
//!        ◄─ one flush per batch ◄─ driver ◄─ EventEncoder ◄─ EventStream
//! ```
//!
//! * An [`Endpoint`] serves connections: on a port of its own ([`Server`]), or upgraded by somebody else's HTTP server
//!   ([`handshake::accept`] is a pure function over headers).
//! * The protocol `aqueduct.v1` carries several runs on one socket; its messages are documented in `docs/websocket.md`.
//!   Without a subprotocol a connection is *plain*: one run input in, one event per message out.
//! * Feature `client`: [`client::Client`] starts, watches, cancels and publishes; [`client::ResumingPublisher`]
//!   survives cuts.
//!
//! Invariants:
//! 1. A reader that stalls holds one batch of bytes here and nothing of the service; it is dropped after a timeout and
//!    can resume.
//! 2. A peer that goes is noticed at once: its event streams and ingests are dropped, and the service decides what that
//!    means for the runs.
//! 3. One task per connection, nothing spawned beside it: when it ends, all it held has ended.
//! 4. Every limit and timeout has a name and a reason in [`config`].
//!
//! What is *not* here: agent protocols (a [`Dialect`] brings them), run logs, and decisions about who may do what (the
//! [`RunService`](aqueduct_core::service::RunService) makes them).
//!
//! | feature | what |
//! |---|---|
//! | `client` | the connecting side |
//! | `tls` | TLS by rustls, both sides |

#[cfg(feature = "client")]
pub mod client;
pub mod close;
pub mod config;
pub mod counters;
pub mod dialect;
mod driver;
pub mod error;
pub mod handshake;
mod head;
mod message;
mod origin;
pub mod server;
pub mod shutdown;
#[cfg(feature = "tls")]
pub mod tls;

pub use close::CloseReason;
pub use config::{Admission, Config, Limits, Timeouts};
pub use counters::{CounterSnapshot, Counters};
pub use dialect::{Dialect, ReadInput};
pub use error::{Error, Fault};
pub use handshake::{Encoding, Mode, Refusal, Upgrade};
pub use server::{Endpoint, Server};
pub use shutdown::Shutdown;
