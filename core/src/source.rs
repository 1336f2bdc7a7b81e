//! [`Source`]: an agent and its ancestors. It determines the *lane* of the agent's output.
//!
//! An adapter creates one `Source` per agent and clones it onto every update (a reference count). Two agents with one key
//! under different parents are two sources. A source does not identify an *invocation*: the
//! [`StreamContext`](crate::StreamContext) opens a lane at the first update of a source, and a new lane at the first update
//! after that lane was closed.

use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

use crate::Metadata;
use crate::id::ToolCallId;

/// Separates the keys in a path. A key that contains it can make two sources equal, which merges their lanes.
const PATH_SEPARATOR: char = '\u{1f}';

/// An agent and its ancestors. Cheap to clone.
///
/// # Examples
///
/// ```
/// use aqueduct_core::Source;
///
/// let researcher = Source::root().child("researcher").named("Researcher");
/// assert_eq!((researcher.key(), researcher.name()), ("researcher", "Researcher"));
/// assert!(researcher.parent().is_some_and(Source::is_root));
/// ```
#[derive(Clone, Default)]
pub struct Source(Option<Arc<Agent>>);

struct Agent {
    path: ByteString,
    key: ByteString,
    name: ByteString,
    description: Option<ByteString>,
    parent: Source,
    parent_call: Option<ToolCallId>,
    metadata: Option<Arc<Metadata>>,
}

impl Source {
    /// Returns the agent that the run was started for. Its lane is the root lane.
    pub const fn root() -> Self {
        Self(None)
    }

    /// Returns a sub-agent of this agent. `key` is unique among its siblings, and its name until [`named`](Self::named).
    pub fn child(&self, key: impl Into<ByteString>) -> Self {
        let key = key.into();
        let path = match &self.0 {
            None => key.clone(),
            Some(parent) => ByteString::from(format!("{}{PATH_SEPARATOR}{key}", parent.path)),
        };
        Self(Some(Arc::new(Agent {
            path,
            name: key.clone(),
            key,
            description: None,
            parent: self.clone(),
            parent_call: None,
            metadata: None,
        })))
    }

    /// Sets the display name.
    pub fn named(self, name: impl Into<ByteString>) -> Self {
        self.with(|agent| agent.name = name.into())
    }

    /// Sets a description of the agent.
    pub fn described(self, description: impl Into<ByteString>) -> Self {
        self.with(|agent| agent.description = Some(description.into()))
    }

    /// Sets the tool call of the parent that started the agent.
    pub fn called_by(self, call: ToolCallId) -> Self {
        self.with(|agent| agent.parent_call = Some(call))
    }

    /// Sets the metadata of the lane.
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        self.with(|agent| agent.metadata = Some(Arc::new(metadata)))
    }

    /// Returns `true` for the agent that the run was started for.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the key, unique among siblings; empty for the root.
    pub fn key(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.key)
    }

    /// Returns the keys from the outermost ancestor to this source, joined. Identifies the source in the run; empty for the root.
    pub fn path(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.path)
    }

    /// Returns the display name; empty for the root.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.name)
    }

    /// Returns the description of the agent, if it has one.
    pub fn description(&self) -> Option<&ByteString> {
        self.0.as_ref()?.description.as_ref()
    }

    /// Returns the calling agent. Returns `None` for the root.
    pub fn parent(&self) -> Option<&Source> {
        self.0.as_ref().map(|agent| &agent.parent)
    }

    /// Returns the tool call of the parent that started this agent, under the source's id.
    pub fn parent_call(&self) -> Option<&ToolCallId> {
        self.0.as_ref()?.parent_call.as_ref()
    }

    /// Returns the metadata of the lane, if it has any.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.0.as_ref()?.metadata.as_ref()
    }

    /// Returns `true` if both are the same allocation: a cheap test that the source has not changed.
    pub fn same(&self, other: &Source) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Applies a change in place if the source is not shared, otherwise to a copy.
    fn with(self, change: impl FnOnce(&mut Agent)) -> Self {
        let Some(agent) = self.0 else { return Self::root() };
        let mut agent = Arc::try_unwrap(agent).unwrap_or_else(|shared| Agent {
            path: shared.path.clone(),
            key: shared.key.clone(),
            name: shared.name.clone(),
            description: shared.description.clone(),
            parent: shared.parent.clone(),
            parent_call: shared.parent_call.clone(),
            metadata: shared.metadata.clone(),
        });
        change(&mut agent);
        Self(Some(Arc::new(agent)))
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.path() == other.path()
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", self.path())
    }
}
