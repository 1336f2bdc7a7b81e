//! The server side: an agent behind A2A 1.0 and 0.3, whatever the binding. `docs/a2a.md` §8 is the contract.
//!
//! ```text
//! HttpCall ──► JSON-RPC, HTTP+JSON ──┐                      ┌─► recorder (one per run) ──► task, kept and bounded
//! gRPC (module `pb`) ────────────────┴─► CallHandler ─► RunService                              │ snapshot, place
//! HttpAnswer ◄── payloads ◄── Answer, TaskStream ◄───── run log ◄── watcher (own cursor) ◄──────┘
//! ```
//!
//! * [`AgentServer`] serves one agent over any [`RunService`](aqueduct_core::service::RunService); [`Host`] is the world
//!   around it, [`ServerConfig`] and [`TaskLimits`] its settings, [`CardConfig`] its card.
//! * [`CallHandler`] answers [`Call`]s: it is what a binding (JSON-RPC, HTTP+JSON, gRPC) is built on.
//! * [`Answer`], [`TaskStream`]: what it answers with; [`ServerError`]: why it does not, in the words of each binding.
//!
//! Tasks are held in memory, and found again in the log of their runs where the [`Host`] has one ([`TaskLog`]). What is not here: sockets, clocks and tasks of a runtime.

mod adopt;
mod agent;
mod answer;
mod card;
mod check;
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

/// What a request says beside its call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallContext {
    /// The version that the client speaks. The reader of the request has refused other versions.
    pub version: Version,
    /// The tenant of the path or the request; empty if none is named.
    pub tenant: String,
    /// The extensions that the client asks for.
    pub extensions: Vec<String>,
}

impl CallContext {
    /// A client of that version, without tenant or extensions.
    pub fn new(version: Version) -> Self {
        Self { version, tenant: String::new(), extensions: Vec::new() }
    }
}

/// Answers calls, whatever binding they came by.
///
/// Calls are the same for all versions: the reader of a 0.3 request turns its `historyLength: 0` into "absent" and
/// its `blocking` into [`SendMessage::return_immediately`](crate::call::SendMessage::return_immediately).
pub trait CallHandler: Send + Sync + 'static {
    /// Answers a call. Dropping the future stops nothing that has begun.
    fn handle_call(
        &self,
        caller: Caller,
        context: CallContext,
        call: Call,
    ) -> BoxFuture<'_, Result<Answer, ServerError>>;
}
