//! The names of content without a kind of its own, carried in [`Custom`](crate::block::Custom) blocks.
//!
//! One list for all adapters: the decoder that reads a file and the converter that writes one both use [`FILE`]. A source's
//! own custom content keeps the source's name; names of this list start with `aqueduct.`.
//!
//! | name | value |
//! |---|---|
//! | [`FILE`] | `{"url" or "data" (base64), "mediaType"?, "name"?}` |
//! | [`DATA`] | any JSON: a data part that no decoder recognises |
//! | [`PLAN`] | `{"steps": [{"id", "title", "agent"?, "status"}], "text"?}` |
//! | [`CITATION`] | `{"url"?, "title"?, "text"?, …}` |
//! | [`ACTIVITY`] | `{"type", "content": object}`: a self-contained progress card |
//! | [`ACTIVITY_DELTA`] | `{"type", "patch": [RFC 6902]}` on the activity with the same message id |
//! | [`TOOL_PROGRESS`] | `{"toolCallId", "toolName", "text"}`: a tool that still runs; emitted by the stream machine |
//! | [`NOTICE`] | `{"text", "level"?: "info" / "warning" / "error"}`: a message beside the answer |
//! | [`MESSAGES`] | a list of whole messages that restate a history |
//! | [`INPUT`] | `{"messages": [AG-UI messages], "state"?}`: the input of the run, from which the history of the thread is restored. No protocol shows it |
//! | [`UPSTREAM`] | the position of the agent's own work on the run, in the adapter's form, for a takeover. No protocol shows it |
//! | [`POSITION`] | the position of the source in its own stream ([`SourceEvent::Position`](crate::SourceEvent::Position)), stored with the events before it. No protocol shows it |
//! | [`IDS`] | `{"texts": {id: [id]}, "calls": {call id: message id}, "results": {call id: message id}}`: ids under which the source repeated content that it had sent under others, for the history that is sent to the source. No protocol shows it |
//! | [`SEALED`] | `{"subtype": "message" / "tool-call", "id", "value"}`: the encrypted form of a message or call that is no thinking block; the stream machine replaces `id` by the emitted one |
//! | [`RAW`] | input that no decoder recognises, as `{"event", "source"?}` |

/// A file, inline or by URL.
pub const FILE: &str = "aqueduct.file";
/// A structured part that no decoder recognises.
pub const DATA: &str = "aqueduct.data";
/// The steps that the agent plans.
pub const PLAN: &str = "aqueduct.plan";
/// The source of a statement.
pub const CITATION: &str = "aqueduct.citation";
/// A self-contained progress card.
pub const ACTIVITY: &str = "aqueduct.activity";
/// A change of an [`ACTIVITY`] card.
pub const ACTIVITY_DELTA: &str = "aqueduct.activity.delta";
/// Progress of a tool that still runs.
pub const TOOL_PROGRESS: &str = "aqueduct.tool.progress";
/// A message beside the answer.
pub const NOTICE: &str = "aqueduct.notice";
/// A restated history.
pub const MESSAGES: &str = "aqueduct.messages";
/// The input of a run.
pub const INPUT: &str = "aqueduct.input";
/// The position of the agent's own work on a run.
pub const UPSTREAM: &str = "aqueduct.upstream";
/// The position of a source in its own stream.
pub const POSITION: &str = "aqueduct.position";
/// Ids under which the source repeated content that it had sent under others.
pub const IDS: &str = "aqueduct.ids";
/// The encrypted form of a message or tool call.
pub const SEALED: &str = "aqueduct.sealed";
/// Input that no decoder recognises.
pub const RAW: &str = "aqueduct.raw";

/// Returns `true` for content of the run log that no protocol shows: [`INPUT`], [`UPSTREAM`], [`POSITION`], [`IDS`].
pub fn is_internal(name: &str) -> bool {
    matches!(name, INPUT | UPSTREAM | POSITION | IDS)
}

/// Metadata key: a response id that was replaced because the turn already had another.
pub const META_RESPONSE_ID: &str = "aqueduct.responseId";
/// Metadata key: `completion` if a text comes from the event that ends a turn instead of from the stream.
pub const META_TEXT_FROM: &str = "aqueduct.textFrom";
