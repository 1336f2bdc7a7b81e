//! Shared decisions of all converters: whether a lane is shown, its tag and labels, and the base of an event.

use std::sync::{Arc, LazyLock};

use aqueduct_core::event::Origin;
use aqueduct_core::{BlockHead, ByteString, Channel, Lane, Metadata};
use serde_json::Value;

use crate::config::{Settings, Subagents};
use crate::wire::{Base, MAX_SAFE_INTEGER};

/// Metadata key: the block that this one continues after an interruption.
pub const META_CONTINUES: &str = "aqueduct.continues";
/// Metadata key: the block whose text this one replaces.
pub const META_REPLACES: &str = "aqueduct.replaces";
/// Metadata key: `intermediate` for a text on the way to the answer.
pub const META_CHANNEL: &str = "aqueduct.channel";
/// Metadata key: `true` on a tool result that is an error; the protocol has no member for it.
pub const META_IS_ERROR: &str = "aqueduct.isError";
/// Metadata key: the outcome of a sub-agent that is shown as a step.
pub const META_OUTCOME: &str = "aqueduct.outcome";
/// Metadata key: the name of a text's author, where no sub-agent is known.
pub const META_AUTHOR: &str = "aqueduct.author";

/// The value of [`META_CHANNEL`].
const META_INTERMEDIATE: &str = "intermediate";

/// The metadata of an intermediate text without any of its own.
static INTERMEDIATE: LazyLock<Arc<Metadata>> =
    LazyLock::new(|| Arc::new(Metadata::from_iter([(META_CHANNEL.to_owned(), META_INTERMEDIATE.into())])));

/// The name of an agent without name.
const UNNAMED_AGENT: &str = "agent";

/// The separator between the names of agents, and between an agent and its tool, where sub-agents are shown as tool calls.
const NAME_SEPARATOR: &str = " › ";

/// Declares a converter that holds the settings.
macro_rules! converter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            settings: crate::config::Settings,
        }

        impl $name {
            /// Returns a converter with these settings.
            pub fn new(settings: crate::config::Settings) -> Self {
                Self { settings }
            }
        }
    };
}

pub(super) use converter;

impl Settings {
    /// Returns `true` if the lane is hidden.
    pub(super) fn hides(self, lane: &Lane) -> bool {
        self.subagents == Subagents::Hidden && !lane.is_root()
    }

    /// Returns `true` if the text is hidden. The answer of the run is shown for every agent; where sub-agents are tool calls,
    /// their other texts are the results of those.
    pub(super) fn hides_text(self, block: &BlockHead) -> bool {
        let is_silent = matches!(self.subagents, Subagents::Hidden | Subagents::Tool);
        is_silent && !block.lane.is_root() && block.channel != Channel::Answer
    }

    /// Returns the tag of a lane's events. Returns `None` for the root, and where sub-agents are not shown as such.
    pub(super) fn tag(self, lane: &Lane) -> Option<ByteString> {
        let is_tagged = matches!(self.subagents, Subagents::Attributed | Subagents::Inline);
        (is_tagged && !lane.is_root()).then(|| lane.id.as_bytes().clone())
    }

    /// Returns the label of a sub-agent whose work is shown within the root's.
    pub(super) fn label(self, lane: &Lane) -> Option<String> {
        if self.subagents == Subagents::Tool { label(lane) } else { None }
    }
}

/// Returns the name of a lane's agent, with a default for one without name.
pub(super) fn shown_name(lane: &Lane) -> ByteString {
    agent_name(lane).unwrap_or(ByteString::from_static(UNNAMED_AGENT))
}

/// Returns the names of the agents from the one that the root called down to the lane's own. Returns `None` for the root.
fn label(lane: &Lane) -> Option<String> {
    let parent = lane.parent.as_ref()?;
    let above = label(parent).map(|above| above + NAME_SEPARATOR).unwrap_or_default();
    Some(above + &shown_name(lane))
}

/// Returns the prefix of the names of a sub-agent's tools.
pub(crate) fn tool_prefix(lane: &Lane) -> Option<String> {
    label(lane).map(|label| label + NAME_SEPARATOR)
}

/// Returns the prefix of a sub-agent's texts, in Markdown.
pub(crate) fn text_prefix(lane: &Lane) -> Option<String> {
    label(lane).map(|label| format!("**{label}:** "))
}

/// Returns the prefix of a sub-agent's thinking.
pub(crate) fn thought_prefix(lane: &Lane) -> Option<String> {
    label(lane).map(|label| label + ": ")
}

/// Returns the name of a lane's agent. Returns `None` for the root.
pub(super) fn agent_name(lane: &Lane) -> Option<ByteString> {
    Some(lane.name()).filter(|name| !name.is_empty()).map(ByteString::from)
}

/// Returns the base of a block's first event: time, the source's metadata, and the relation to other blocks.
pub(super) fn head_base(head: &BlockHead) -> Base {
    let mut base = origin_base(&head.origin);
    if head.continues.is_none() && head.replaces.is_none() && base.rare.is_none() {
        // Most blocks: nothing is noted, or what all progress reports share.
        if head.channel == Channel::Intermediate {
            base.rare_mut().metadata = Some(Arc::clone(&INTERMEDIATE));
        }
        return base;
    }
    let mut note = |key: &str, value: &str| {
        base.metadata_mut().insert(key.to_owned(), Value::from(value));
    };
    if let Some(earlier) = &head.continues {
        note(META_CONTINUES, earlier.as_str());
    }
    if let Some(earlier) = &head.replaces {
        note(META_REPLACES, earlier.as_str());
    }
    if head.channel == Channel::Intermediate {
        note(META_CHANNEL, META_INTERMEDIATE);
    }
    base
}

/// Returns a base with the time and metadata of the source.
pub(super) fn origin_base(origin: &Origin) -> Base {
    let mut base = Base::default();
    let in_range = |stamp: &i64| stamp.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs();
    base.timestamp = origin.created_at.map(|stamp| stamp.0).filter(in_range);
    if let Some(metadata) = origin.metadata.as_ref().filter(|metadata| !metadata.is_empty()) {
        base.rare_mut().metadata = Some(Arc::clone(metadata));
    }
    base
}

/// Returns a base with this metadata.
pub(super) fn with_metadata(metadata: Metadata) -> Base {
    let mut base = Base::default();
    if !metadata.is_empty() {
        base.rare_mut().metadata = Some(Arc::new(metadata));
    }
    base
}
