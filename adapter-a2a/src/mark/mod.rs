//! The marks by which Aqueduct tells its own client what A2A has no words for: what a piece is (a thought, a tool
//! call, a step), whose it is (its lane), and what it belongs to. Foreign clients see metadata they may ignore.
//!
//! A mark is one object under [`KEY`] in the metadata of an artifact or a message. Converters write it, the
//! decoder reads it; both spell it here and only here. The table of its members is in `docs/a2a.md` §7.

mod codec;

use aqueduct_core::{ByteString, Channel, Lane, LaneId, Metadata, Role, Source, ToolCallId};
use serde_json::{Map, Value, json};

pub(crate) use codec::{
    failure_of, failure_value, interrupt_of, interrupt_value, outcome_of, outcome_value, usage_of,
    usage_value,
};

use crate::wire::Raw;

/// The metadata key of a mark; its number changes when an older reader would misread it.
pub const KEY: &str = "aqueduct/v1";

/// The URI of the A2A extension whose clients are sent marks, and the pieces of a stream that have no other place in A2A:
/// tool calls, lanes, thoughts, steps, state and usage. `docs/a2a.md` §7 is its specification.
pub const EXTENSION: &str = "urn:aqueduct:a2a:stream:v1";

/// The media type of data parts that carry steps, state, usage and lanes.
pub const MEDIA_TYPE: &str = "application/vnd.aqueduct.v1+json";

/// The member that names the block which a status message belongs to.
pub(crate) const BLOCK: &str = "block";

/// The member that says why a block ended.
pub(crate) const END: &str = "end";

/// A status message says so if its block is complete; of an artifact, `lastChunk` says it.
pub(crate) const COMPLETE: &str = "complete";

/// What a mark says a piece is.
pub mod kind {
    /// Words for the reader.
    pub const TEXT: &str = "text";
    /// Thoughts.
    pub const THINKING: &str = "thinking";
    /// A tool call.
    pub const TOOL_CALL: &str = "tool-call";
    /// What a tool answered.
    pub const TOOL_RESULT: &str = "tool-result";
    /// Content by name.
    pub const CUSTOM: &str = "custom";
    /// A sub-agent began.
    pub const LANE_OPENED: &str = "lane-opened";
    /// A sub-agent ended.
    pub const LANE_CLOSED: &str = "lane-closed";
    /// A named phase began.
    pub const STEP_STARTED: &str = "step-started";
    /// A named phase ended.
    pub const STEP_FINISHED: &str = "step-finished";
    /// The shared state, whole.
    pub const STATE: &str = "state";
    /// A change of it.
    pub const STATE_PATCH: &str = "state-patch";
    /// Tokens spent.
    pub const USAGE: &str = "usage";
    /// A question, before the turn ends.
    pub const INTERRUPT: &str = "interrupt";
    /// The turn ended well.
    pub const FINISHED: &str = "finished";
    /// The turn failed.
    pub const FAILED: &str = "failed";
}

/// A mark, to be written or as read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Map<String, Value>);

impl Mark {
    pub(crate) fn new(kind: &str) -> Self {
        Self(Map::from_iter([("kind".to_owned(), kind.into())]))
    }

    /// The same, for a piece of that lane. The root's have no lane.
    pub(crate) fn of_lane(mut self, lane: &Lane) -> Self {
        let mut path = Vec::new();
        let mut at = Some(lane);
        while let Some(lane) = at.filter(|lane| !lane.is_root()) {
            path.push(lane_value(lane));
            at = lane.parent.as_deref();
        }
        path.reverse();
        if !path.is_empty() {
            self.put("lane", Value::Array(path));
        }
        self
    }

    /// A mark that only says whose a piece is, in the words of another one.
    pub(crate) fn of_path(path: Option<&Value>) -> Self {
        Self(path.map(|path| ("lane".to_owned(), path.clone())).into_iter().collect())
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    pub(crate) fn put_set(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put(key, text);
        }
    }

    /// The metadata that holds it.
    pub(crate) fn into_metadata(self) -> Raw<'static> {
        Raw::from_value(&json!({ KEY: self.0 }))
    }

    /// Reads the mark in some metadata. Most metadata has none, and is not parsed.
    pub(crate) fn read(metadata: Option<&Raw<'_>>) -> Option<Self> {
        let raw = metadata.filter(|raw| raw.as_str().contains(KEY))?;
        match raw.to_object()?.remove(KEY)? {
            Value::Object(mark) => Some(Self(mark)),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        self.text("kind").unwrap_or_default()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<ByteString> {
        self.text(key).map(ByteString::from)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        self.0.get("metadata")?.as_object()
    }

    pub(crate) fn channel(&self) -> Channel {
        if self.text("channel") == Some("intermediate") { Channel::Intermediate } else { Channel::Answer }
    }

    pub(crate) fn role(&self) -> Role {
        match self.text("role") {
            Some("user") => Role::User,
            Some("system") => Role::System,
            Some("developer") => Role::Developer,
            Some("tool") => Role::Tool,
            _ => Role::Assistant,
        }
    }

    /// The agent, below the one that the task is about. `call` finds the id that a call goes by here.
    pub(crate) fn source(&self, base: &Source, call: impl Fn(&str) -> ByteString) -> Source {
        let mut source = base.clone();
        for step in self.0.get("lane").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| step.get(key).and_then(Value::as_str);
            source = source.child(text("key").unwrap_or_default());
            if let Some(name) = text("name") {
                source = source.named(name);
            }
            if let Some(description) = text("description") {
                source = source.described(description);
            }
            if let Some(id) = text("call") {
                source = source.called_by(call(id).into());
            }
        }
        source
    }
}

fn lane_value(lane: &Lane) -> Value {
    let mut step = Map::new();
    let mut put = |key: &str, text: Option<&str>| {
        if let Some(text) = text {
            step.insert(key.to_owned(), text.into());
        }
    };
    put("id", Some(LaneId::as_str(&lane.id)));
    put("key", Some(lane.source.key()));
    put("name", Some(lane.name()).filter(|name| *name != lane.source.key()));
    put("description", lane.source.description().map(|text| &**text));
    put("call", lane.parent_call.as_ref().map(ToolCallId::as_str));
    Value::Object(step)
}

pub(crate) fn channel_name(channel: Channel) -> Option<&'static str> {
    (channel == Channel::Intermediate).then_some("intermediate")
}

pub(crate) fn role_name(role: Role) -> Option<&'static str> {
    match role {
        Role::User => Some("user"),
        Role::System => Some("system"),
        Role::Developer => Some("developer"),
        Role::Tool => Some("tool"),
        _ => None,
    }
}
