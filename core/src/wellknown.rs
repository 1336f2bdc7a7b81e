//! The names under which content without a kind of its own travels in [`Custom`](crate::block::Custom) blocks.
//!
//! One list for all adapters: a decoder that meets a file and a converter that shows one meet here, and only here.
//! A source's own custom content keeps the source's name; names of this list start with `aqueduct.`.
//!
//! | name | value |
//! |---|---|
//! | [`FILE`] | `{"url" or "data" (base64), "mediaType"?, "name"?}` |
//! | [`DATA`] | any JSON: a data part that no rule knows |
//! | [`PLAN`] | `{"steps": [{"id", "title", "agent"?, "status"}], "text"?}` |
//! | [`CITATION`] | `{"url"?, "title"?, "text"?, …}` |
//! | [`ACTIVITY`] | `{"type", "content": object}`: a self-contained progress card |
//! | [`ACTIVITY_DELTA`] | `{"type", "patch": [RFC 6902]}` on the activity with the same message id |
//! | [`TOOL_PROGRESS`] | `{"toolCallId", "toolName", "text"}`: a tool that still works; made by the stream machine |
//! | [`NOTICE`] | `{"text", "level"?: "info" / "warning" / "error"}`: words beside the answer |
//! | [`MESSAGES`] | a list of whole messages that restate a history |
//! | [`INPUT`] | `{"messages": [AG-UI messages], "state"?}`: what the run was asked, for whoever restates the thread. No protocol shows it |
//! | [`UPSTREAM`] | what leads back to the agent's own work on the run, as its adapter spells it, for whoever takes the run over. No protocol shows it |
//! | [`IDS`] | `{"texts": {id: [id]}, "calls": {call id: message id}, "results": {call id: message id}}`: ids under which the source restated what it had sent under others, for the history that goes upstream. No protocol shows it |
//! | [`SEALED`] | `{"subtype": "message" / "tool-call", "id", "value"}`: the sealed form of a message or call that is no thinking block; the stream machine turns `id` into the emitted one |
//! | [`RAW`] | what the source sent and no rule knows, with `{"event", "source"?}` |

/// A file, inline or by address.
pub const FILE: &str = "aqueduct.file";
/// A structured part that no rule knows.
pub const DATA: &str = "aqueduct.data";
/// Steps that the agent means to take.
pub const PLAN: &str = "aqueduct.plan";
/// Where something was found.
pub const CITATION: &str = "aqueduct.citation";
/// A self-contained progress card.
pub const ACTIVITY: &str = "aqueduct.activity";
/// A change of such a card.
pub const ACTIVITY_DELTA: &str = "aqueduct.activity.delta";
/// A sign of life of a tool that still works.
pub const TOOL_PROGRESS: &str = "aqueduct.tool.progress";
/// Words beside the answer.
pub const NOTICE: &str = "aqueduct.notice";
/// A history restated.
pub const MESSAGES: &str = "aqueduct.messages";
/// What a run was asked.
pub const INPUT: &str = "aqueduct.input";
/// Where the agent's own work on a run is found again.
pub const UPSTREAM: &str = "aqueduct.upstream";
/// Ids under which the source restated what it had sent under others.
pub const IDS: &str = "aqueduct.ids";
/// The sealed form of a message or tool call.
pub const SEALED: &str = "aqueduct.sealed";
/// Input that no rule knows.
pub const RAW: &str = "aqueduct.raw";

/// Returns `true` for content of the run log that no protocol shows: [`INPUT`], [`UPSTREAM`], [`IDS`].
pub fn is_internal(name: &str) -> bool {
    matches!(name, INPUT | UPSTREAM | IDS)
}

/// Metadata key: a response id that was normalised away because the turn already had another.
pub const META_RESPONSE_ID: &str = "aqueduct.responseId";
/// Metadata key: `completion` if a text comes from the event that ends a turn instead of from the stream.
pub const META_TEXT_FROM: &str = "aqueduct.textFrom";
