//! The wire model: the types that both versions and all bindings have in common.
//!
//! One reducer, several formats: JSON of 1.0, of 0.3 (JSON-RPC) and of 0.3 (REST, which is `ProtoJSON` of another
//! package) is parsed into the same types, classified by the members that are present ([`Dialect`] is used only where
//! that is not enough). Everything borrows from the frame; unknown members, states and parts are kept.
//!
//! Not here: the meaning of the data, and how requests are addressed ([`jsonrpc`](crate::jsonrpc),
//! [`rest`](crate::rest)).

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

/// The JSON dialect of a peer. It determines how items are written; reading recognises all of them by their
/// members.
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
