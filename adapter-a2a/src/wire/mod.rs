//! The wire model: what both versions and all bindings have in common, in memory.
//!
//! One reducer, two front ends: JSON of 1.0, of 0.3 (JSON-RPC) and of 0.3 (REST, which is `ProtoJSON` of another
//! package) is read into the same types, told apart by the members that are there ([`Dialect`] is asked only
//! where that is not enough). Everything borrows from the frame; unknown members, states and parts are kept.
//!
//! What is not here: what the data *means*, and how requests are addressed
//! ([`jsonrpc`](crate::jsonrpc), [`rest`](crate::rest)).

pub mod card;
pub(crate) mod chunk;
pub mod error;
pub mod frame;
pub mod model;
pub(crate) mod object;
pub mod part;
pub(crate) mod shape;
pub mod state;
pub(crate) mod template;
pub mod text;
pub(crate) mod time;
pub mod write;

pub use card::AgentCard;
pub use error::{ErrorKind, WireError};
pub use frame::{Frame, FrameContent};
pub use model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
pub use part::{Content, Part};
pub use state::{Role, StateClass, TaskState};
pub use text::{Extra, Raw, Text};
pub(crate) use write::Shown;

/// How a peer spells the model in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// A2A 1.0, all bindings.
    #[default]
    V1,
    /// A2A 0.3 over JSON-RPC: objects with `kind`.
    V03JsonRpc,
    /// A2A 0.3 over REST: `ProtoJSON` of package `a2a.v1` (`content`, `fileWithBytes`, `data.data`).
    V03Rest,
}

#[cfg(test)]
mod tests;
