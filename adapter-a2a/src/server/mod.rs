//! The server side: serves an agent over A2A 1.0 and 0.3 in every binding. `docs/a2a.md` §8 is the contract.
//!
//! ```text
//! HttpCall ──► JSON-RPC, HTTP+JSON ──┐                      ┌─► recorder (one per run) ──► task, kept and bounded
//! gRPC (module `pb`) ────────────────┴─► CallHandler ─► RunService                              │ snapshot, place
//! HttpAnswer ◄── payloads ◄── Answer, TaskStream ◄───── run log ◄── watcher (own cursor) ◄──────┘
//! ```
//!
//! * [`AgentServer`] serves one agent over any [`RunService`](aqueduct_core::service::RunService); [`Host`] is its
//!   environment, [`ServerConfig`] and [`TaskLimits`] are its settings, [`CardConfig`] is its card.
//! * [`CallHandler`] handles [`Call`]s: bindings (JSON-RPC, HTTP+JSON, gRPC) are built on it.
//! * [`Answer`], [`TaskStream`]: its responses; [`ServerError`]: its refusals, in the form of each binding.
//!
//! Tasks are held in memory, and found in the log of their runs if the [`Host`] provides one ([`TaskLog`]). Not here:
//! sockets, clocks and tasks of a runtime.

mod adopt;
mod agent;
mod answer;
mod card;
mod check;
mod chunk;
mod config;
mod error;
mod fold;
mod host;
mod http;
mod items;
mod jsonrpc;
mod list;
mod log;
mod params;
mod payload;
mod plain;
mod push;
mod record;
mod reply;
mod rest;
mod result;
mod send;
#[expect(
    clippy::disallowed_types,
    reason = "tasks are shared by callers: short locks, never held over an await"
)]
mod store;
#[expect(
    clippy::disallowed_types,
    reason = "tasks are shared by callers: short locks, never held over an await"
)]
mod task;
mod watch;

use aqueduct_core::service::{BoxFuture, Caller};

pub use agent::AgentServer;
pub use answer::{Answer, TaskPage, TaskStream};
pub use card::{CardConfig, Skill};
pub(crate) use chunk::Chunk;
pub use config::{ServerConfig, TaskLimits};
pub use error::{FieldViolation, GrpcCode, ServerError};
pub use fold::TRUNCATED;
pub use host::Host;
#[cfg(feature = "proto")]
pub(crate) use http::extensions;
pub use http::{HttpAnswer, HttpBody, HttpCall};
pub use log::{LoggedRun, LoggedWish, TaskLog, WishRecord, turn_of};
pub use params::method_names;
pub use payload::ItemPayloads;
pub use push::{PushPolicy, PushRequest, PushSender, is_public};
pub use reply::MESSAGE_REPLY;

use crate::call::Call;
use crate::version::Version;

/// The context of a call: version, tenant and extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallContext {
    /// The version of the client. The binding has refused other versions.
    pub version: Version,
    /// The tenant of the path or the request; empty if none is named.
    pub tenant: String,
    /// The extensions that the client requests.
    pub extensions: Vec<String>,
}

impl CallContext {
    /// Returns the context of a client of that version, without tenant or extensions.
    pub fn new(version: Version) -> Self {
        Self { version, tenant: String::new(), extensions: Vec::new() }
    }
}

/// Handles calls of every binding.
///
/// Calls are the same for all versions: the reader of a 0.3 request turns its `historyLength: 0` into "absent" and
/// its `blocking` into [`SendMessage::return_immediately`](crate::call::SendMessage::return_immediately).
pub trait CallHandler: Send + Sync + 'static {
    /// Handles a call. Dropping the future stops nothing that has started.
    fn handle_call(
        &self,
        caller: Caller,
        context: CallContext,
        call: Call,
    ) -> BoxFuture<'_, Result<Answer, ServerError>>;
}
