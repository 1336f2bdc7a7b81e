//! Helpers that the converters share: items with the ids of the task, and the marks of heads and origins.

use aqueduct_core::event::Origin;
use aqueduct_core::{BlockHead, BlockId, EventKind, MessageId, ResponseId};
use serde_json::Value;

use crate::config::Settings;
use crate::decode::metadata::ARTIFACT_NAME;
use crate::mark::{MEDIA_TYPE, Mark, channel_name, role_name};
use crate::wire::{
    Artifact, ArtifactUpdate, Message, Part, Raw, Role, StatusUpdate, StreamItem, TaskState, TaskStatus, Text,
};

/// Declares a converter that holds the settings.
macro_rules! converter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            settings: std::sync::Arc<crate::config::Settings>,
        }

        impl $name {
            /// Returns a converter for these settings.
            pub fn new(settings: std::sync::Arc<crate::config::Settings>) -> Self {
                Self { settings }
            }
        }
    };
}
pub(super) use converter;

/// Returns a text that owns its content: items outlive the event that they are made from.
pub(super) fn owned(text: &str) -> Text<'static> {
    Text::from(text.to_owned())
}

/// Returns the name of the artifact at its source, if the block was decoded from A2A: an agent behind the gateway
/// keeps its artifact names.
pub(super) fn artifact_name(origin: &Origin) -> Option<&str> {
    origin.metadata.as_ref()?.get(ARTIFACT_NAME)?.as_str()
}

/// How a chunk is joined to its artifact: `append` and `lastChunk` of the update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Begins the artifact; more follows.
    First,
    /// Is appended; more may follow.
    More,
    /// Is appended, and ends the artifact.
    Last,
    /// Is the complete artifact.
    Whole,
}

/// One chunk of an artifact.
pub(super) struct Piece<'p> {
    /// The id of the artifact, which is that of the block.
    pub(super) id: &'p str,
    /// The display name, sent with the first chunk; empty otherwise.
    pub(super) name: &'p str,
    pub(super) part: Part<'static>,
    /// The mark: of the block on the first chunk, of its end on the last, none between them.
    pub(super) mark: Option<Mark>,
    pub(super) chunk: Chunk,
}

/// Returns an update of an artifact.
pub(super) fn artifact(settings: &Settings, piece: Piece<'_>) -> StreamItem<'static> {
    StreamItem::Artifact(ArtifactUpdate {
        task_id: owned(&settings.task_id),
        context_id: owned(&settings.context_id),
        artifact: Artifact {
            artifact_id: owned(piece.id),
            name: owned(piece.name),
            parts: vec![piece.part],
            metadata: piece.mark.map(Mark::into_metadata),
            ..Artifact::default()
        },
        append: matches!(piece.chunk, Chunk::More | Chunk::Last),
        last_chunk: matches!(piece.chunk, Chunk::Last | Chunk::Whole),
        ..ArtifactUpdate::default()
    })
}

/// Returns a status, with or without a message. `final` of 0.3 is set for every state that ends the turn. The server
/// adds the time: a converter reads no clock.
pub(super) fn status(
    settings: &Settings,
    state: TaskState<'static>,
    message: Option<Message<'static>>,
) -> StreamItem<'static> {
    let is_final = !matches!(state, TaskState::Working | TaskState::Submitted);
    StreamItem::Status(StatusUpdate {
        task_id: owned(&settings.task_id),
        context_id: owned(&settings.context_id),
        status: TaskStatus { state, message, ..TaskStatus::default() },
        is_final,
        ..StatusUpdate::default()
    })
}

/// Returns a message of the agent about its task.
pub(super) fn message(
    settings: &Settings,
    id: String,
    parts: Vec<Part<'static>>,
    mark: Mark,
) -> Message<'static> {
    Message {
        message_id: id.into(),
        context_id: owned(&settings.context_id),
        task_id: owned(&settings.task_id),
        role: Role::Agent,
        parts,
        metadata: Some(mark.into_metadata()),
        ..Message::default()
    }
}

/// Returns a data part of Aqueduct's own media type, by which a client can skip it.
pub(super) fn data(value: &Value) -> Part<'static> {
    let mut part = Part::data(value);
    part.media_type = Text::new(MEDIA_TYPE);
    part
}

/// Returns the mark of a block's first chunk: lane, channel, role, the blocks that it continues, replaces or belongs
/// to, and the ids of the source.
pub(super) fn head_mark(kind: &str, block: &BlockHead) -> Mark {
    let mut mark = Mark::new(kind).of_lane(&block.lane);
    mark.put_set("channel", channel_name(block.channel));
    mark.put_set("role", role_name(block.role));
    let links = [("parent", &block.parent), ("continues", &block.continues), ("replaces", &block.replaces)];
    for (key, id) in links {
        mark.put_set(key, id.as_ref().map(BlockId::as_str));
    }
    put_origin(&mut mark, &block.origin);
    mark
}

/// Adds the ids of the source to a mark, for a client that restores the original stream.
pub(super) fn put_origin(mark: &mut Mark, origin: &Origin) {
    mark.put_set("message", origin.message_id.as_ref().map(MessageId::as_str));
    mark.put_set("response", origin.response_id.as_ref().map(ResponseId::as_str));
    mark.put_set("track", Some(origin.track.as_str()));
    if let Some(at) = origin.created_at {
        mark.put("createdAt", at.0);
    }
    if let Some(metadata) = origin.metadata.as_ref().filter(|own| !own.is_empty()) {
        mark.put("metadata", Value::Object((**metadata).clone()));
    }
}

/// Adds the metadata by which other clients recognise thinking.
pub(super) fn thought(part: Part<'static>) -> Part<'static> {
    Part { metadata: Some(Raw::from_value(&serde_json::json!({"thought": true}))), ..part }
}

/// Returns `true` if events of that kind are sent under these settings. Content, interrupts and the end always are.
pub(super) fn tells(settings: &Settings, kind: EventKind) -> bool {
    match kind {
        EventKind::Thinking => settings.thinking,
        EventKind::Lane | EventKind::Step | EventKind::State | EventKind::Usage => settings.signals,
        _ => true,
    }
}
