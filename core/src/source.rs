//! Who speaks: [`Source`] is an agent and its ancestors, and names the *lane* its output belongs to.
//!
//! An adapter makes one `Source` per agent it hears and clones it onto every update (a reference count). Two
//! agents with one key under different parents are two sources. What a source does not say is *which invocation*
//! it is: the [`StreamContext`](crate::StreamContext) opens a lane when a source is first heard, and a new one
//! when it is heard again after its lane was closed.

use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

use crate::Metadata;
use crate::id::ToolCallId;

/// Separates the keys in a path; agents do not have it in their names, and a name that has it only costs clarity.
const PATH_SEPARATOR: char = '\u{1f}';

/// An agent, and the agents it works for. Cheap to clone.
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
    /// The agent that the run is about: the root lane.
    pub const fn root() -> Self {
        Self(None)
    }

    /// A sub-agent of this one. `key` tells it apart from its siblings and is its name until one is given.
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

    /// The same source with the name that a reader is to see.
    pub fn named(self, name: impl Into<ByteString>) -> Self {
        self.with(|agent| agent.name = name.into())
    }

    /// The same source with a sentence about what the agent is for.
    pub fn described(self, description: impl Into<ByteString>) -> Self {
        self.with(|agent| agent.description = Some(description.into()))
    }

    /// The same source, started by that tool call of its parent.
    pub fn called_by(self, call: ToolCallId) -> Self {
        self.with(|agent| agent.parent_call = Some(call))
    }

    /// The same source with metadata for its lane.
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        self.with(|agent| agent.metadata = Some(Arc::new(metadata)))
    }

    /// True for the agent that the run is about.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Tells this source apart from its siblings; empty for the root.
    pub fn key(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.key)
    }

    /// The keys from the outermost ancestor to this source, joined: its identity in the run. Empty for the root.
    pub fn path(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.path)
    }

    /// The name for a reader; empty for the root.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |agent| &agent.name)
    }

    /// A sentence about what the agent is for.
    pub fn description(&self) -> Option<&ByteString> {
        self.0.as_ref()?.description.as_ref()
    }

    /// The agent this one works for. The root has none.
    pub fn parent(&self) -> Option<&Source> {
        self.0.as_ref().map(|agent| &agent.parent)
    }

    /// The tool call of the parent that started this agent, under the parent's own id for it.
    pub fn parent_call(&self) -> Option<&ToolCallId> {
        self.0.as_ref()?.parent_call.as_ref()
    }

    /// Metadata for the lane.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.0.as_ref()?.metadata.as_ref()
    }

    /// True if both are one value in memory: the quick way to see that nothing changed.
    pub fn same(&self, other: &Source) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Applies a change to a source nobody shares yet, or to a copy of one that is shared.
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
