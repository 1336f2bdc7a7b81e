//! Marks: metadata with which Aqueduct's server sends its own client what A2A cannot express: the kind of a piece
//! (thinking, a tool call, a step), its lane, and what it belongs to. Other clients receive metadata that they may
//! ignore.
//!
//! A mark is one object under [`KEY`] in the metadata of an artifact or a message:
//!
//! ```text
//! {"artifactId": "run/2", "parts": [{"text": ""}],
//!  "metadata": {"aqueduct/v1": {"kind": "text", "lane": [{"id": "run/1", "key": "search"}], "track": "a"}}}
//! ```
//!
//! Converters write it and the decoder reads it; its members are defined only here. Their table is in `docs/a2a.md`
//! §7. A reader ignores members that it does not know, and decodes kinds that it does not know like the content of
//! any agent.

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

/// The URI of the A2A extension whose clients receive marks, and the pieces of a stream that have no other place in
/// A2A: tool calls, lanes, thinking, steps, state and usage. `docs/a2a.md` §7 is its specification.
pub const EXTENSION: &str = "urn:aqueduct:a2a:stream:v1";

/// The media type of data parts that carry steps, state, usage and lanes.
pub const MEDIA_TYPE: &str = "application/vnd.aqueduct.v1+json";

/// The member that names the block of a status message.
pub(crate) const BLOCK: &str = "block";

/// The member with the reason why a block ended.
pub(crate) const END: &str = "end";

/// The end reason of a complete block on a status message; an artifact has `lastChunk` for it.
pub(crate) const COMPLETE: &str = "complete";

/// The kinds of pieces.
pub mod kind {
    /// Text: of the answer on an artifact, intermediate on a status message.
    pub const TEXT: &str = "text";
    /// Thinking, on status messages.
    pub const THINKING: &str = "thinking";
    /// A tool call: an artifact with its name, fragments of its arguments, and its end.
    pub const TOOL_CALL: &str = "tool-call";
    /// A tool result: an artifact of one part.
    pub const TOOL_RESULT: &str = "tool-result";
    /// Custom content: an artifact whose mark has the name of the content.
    pub const CUSTOM: &str = "custom";
    /// The start of a lane, with the metadata of its agent.
    pub const LANE_OPENED: &str = "lane-opened";
    /// The end of a lane, with its outcome.
    pub const LANE_CLOSED: &str = "lane-closed";
    /// The start of a step.
    pub const STEP_STARTED: &str = "step-started";
    /// The end of a step.
    pub const STEP_FINISHED: &str = "step-finished";
    /// The complete shared state.
    pub const STATE: &str = "state";
    /// A change of the shared state.
    pub const STATE_PATCH: &str = "state-patch";
    /// Token usage.
    pub const USAGE: &str = "usage";
    /// An interrupt, before the turn ends.
    pub const INTERRUPT: &str = "interrupt";
    /// The turn ended without failure.
    pub const FINISHED: &str = "finished";
    /// The turn failed.
    pub const FAILED: &str = "failed";
}

/// A mark, parsed or to be encoded. Accessors return `None` or a default for members that are missing or of another
/// type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Map<String, Value>);

impl Mark {
    /// Returns a mark of that kind. Marks of the last chunk and of the task have no kind: `Mark::default()`.
    pub(crate) fn new(kind: &str) -> Self {
        Self(Map::from_iter([("kind".to_owned(), kind.into())]))
    }

    /// Adds the lane of a piece: the path from the outermost agent to the one that the piece belongs to. Pieces of
    /// the root have none.
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

    /// Returns a mark that contains only a lane, from the path in another one.
    pub(crate) fn of_path(path: Option<&Value>) -> Self {
        Self(path.map(|path| ("lane".to_owned(), path.clone())).into_iter().collect())
    }

    /// Sets a member.
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Sets a member, unless the text is absent or empty.
    pub(crate) fn put_set(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put(key, text);
        }
    }

    /// Returns the metadata that contain the mark.
    pub(crate) fn into_metadata(self) -> Raw<'static> {
        Raw::from_value(&json!({ KEY: self.0 }))
    }

    /// Parses the mark in metadata. Most metadata contain none, and are not parsed.
    pub(crate) fn read(metadata: Option<&Raw<'_>>) -> Option<Self> {
        let raw = metadata.filter(|raw| raw.as_str().contains(KEY))?;
        match raw.to_object()?.remove(KEY)? {
            Value::Object(mark) => Some(Self(mark)),
            _ => None,
        }
    }

    /// Returns the kind; empty if there is none.
    pub(crate) fn kind(&self) -> &str {
        self.text("kind").unwrap_or_default()
    }

    /// Returns a member.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns a member that is a string.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// Returns a member that is a string, as shared text.
    pub(crate) fn bytes(&self, key: &str) -> Option<ByteString> {
        self.text(key).map(ByteString::from)
    }

    /// Returns `true` if a member is `true`; a missing one is `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Value::Bool(true))
    }

    /// Returns the metadata that the source attached to the piece.
    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        self.0.get("metadata")?.as_object()
    }

    /// Returns the channel of the piece. Only `intermediate` is written; everything else is the answer.
    pub(crate) fn channel(&self) -> Channel {
        if self.text("channel") == Some("intermediate") { Channel::Intermediate } else { Channel::Answer }
    }

    /// Returns the author of the piece: the inverse of `role_name`. An absent or unknown role is the agent.
    pub(crate) fn role(&self) -> Role {
        match self.text("role") {
            Some("user") => Role::User,
            Some("system") => Role::System,
            Some("developer") => Role::Developer,
            Some("tool") => Role::Tool,
            _ => Role::Assistant,
        }
    }

    /// Returns the source of the piece: below `base`, the agent of the task, one child per step of the lane. `call`
    /// returns the id that a call has in this stream, because the call that started a sub-agent may have been
    /// renamed.
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

/// Returns one step of a lane's path: `{"id", "key", "name"?, "description"?, "call"?}`. The name is left out if it
/// equals the key.
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

/// Returns the name of a channel in a mark. Returns `None` for the answer, which is not written.
pub(crate) fn channel_name(channel: Channel) -> Option<&'static str> {
    (channel == Channel::Intermediate).then_some("intermediate")
}

/// Returns the name of a role in a mark. Returns `None` for the agent, which is not written.
pub(crate) fn role_name(role: Role) -> Option<&'static str> {
    match role {
        Role::User => Some("user"),
        Role::System => Some("system"),
        Role::Developer => Some("developer"),
        Role::Tool => Some("tool"),
        _ => None,
    }
}
