//! One event of a stream or one response body, read into a [`StreamItem`] or a [`WireError`].
//!
//! A payload is told by its members: the JSON-RPC envelope (`result`, `error`), the 1.0 wrapper (`task`,
//! `message`, `statusUpdate`, `artifactUpdate`), the 0.3 discriminator (`kind`), or what a bare object has.

use aqueduct_core::ByteString;
use serde::de::Deserialize;

use super::Dialect;
use super::error::WireError;
use super::model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
use super::object::object;
use super::part::Part;
use super::state::Role;
use super::text::{Raw, Text};
use crate::error::DecodeError;

/// One event of a stream, without its framing.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The SSE event name, where the stream has one.
    pub event: Option<&'a str>,
    /// The payload. Text deltas are slices of it.
    pub data: &'a ByteString,
}

impl<'a> Frame<'a> {
    /// An event without a name.
    pub fn data(data: &'a ByteString) -> Self {
        Self { event: None, data }
    }

    /// Reads the payload.
    pub fn parse(&self, dialect: Dialect) -> Result<FrameContent<'a>, DecodeError> {
        let content = FrameContent::parse(self.data, dialect)?;
        Ok(match content {
            // Whatever the payload of an `event: error` looks like, it is one.
            FrameContent::Unknown(raw) if self.event == Some("error") => {
                FrameContent::Error(WireError::from_unknown(&raw))
            }
            other => other,
        })
    }
}

/// What a payload holds.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one lives for one frame; a box would cost an allocation each")]
pub enum FrameContent<'a> {
    /// Content.
    Item(StreamItem<'a>),
    /// An error.
    Error(WireError),
    /// Well-formed JSON that no rule knows.
    Unknown(Raw<'a>),
}

impl<'a> FrameContent<'a> {
    /// Reads a payload. The dialect matters only for data parts of 0.3 over REST: all else is told by its
    /// members, so a peer that answers in another dialect than it was asked in is understood.
    pub fn parse(data: &'a str, dialect: Dialect) -> Result<Self, DecodeError> {
        let mut content = Self::parse_any(data)?;
        if dialect == Dialect::V03Rest
            && let Self::Item(item) = &mut content
        {
            item.for_each_part(Part::unwrap_data);
        }
        Ok(content)
    }

    fn parse_any(data: &'a str) -> Result<Self, DecodeError> {
        // The envelope is looked for by its text first, so that a REST payload is read once and not twice. A
        // REST payload that quotes the word is read twice, to the same result.
        if data.contains("\"jsonrpc\"") {
            let envelope: Envelope<'a> = serde_json::from_str(data)?;
            if let Some(error) = envelope.error {
                return Ok(Self::Error(WireError::from_rpc(&error)));
            }
            if let Some(result) = envelope.result {
                return Ok(result.into_content().unwrap_or_else(|| Self::raw(data)));
            }
        }
        let payload: Payload<'a> = serde_json::from_str(data)?;
        Ok(payload.into_content().unwrap_or_else(|| Self::raw(data)))
    }

    fn raw(data: &'a str) -> Self {
        let raw: Result<Raw<'a>, _> = serde_json::from_str(data);
        // It was parsed a moment ago; a second failure would be an empty value, which says nothing.
        Self::Unknown(raw.unwrap_or_else(|_| Raw::from_value(&serde_json::Value::Null)))
    }
}

object! {
    struct Envelope {
        jsonrpc: Text<'a> = "jsonrpc",
        id: Option<Raw<'a>> = "id",
        result: Option<Payload<'a>> = "result",
        error: Option<Raw<'a>> = "error",
    }
}

object! {
    /// The union of all that can stand at the top of a payload.
    struct Payload {
        kind: Text<'a> = "kind",
        task: Option<Task<'a>> = "task",
        message: Option<Message<'a>> = "message" | "msg",
        status_update: Option<StatusUpdate<'a>> = "statusUpdate" | "status_update",
        artifact_update: Option<ArtifactUpdate<'a>> = "artifactUpdate" | "artifact_update",
        error: Option<Raw<'a>> = "error",
        id: Option<Raw<'a>> = "id",
        context_id: Text<'a> = "contextId" | "context_id",
        task_id: Text<'a> = "taskId" | "task_id",
        status: Option<StatusShape<'a>> = "status",
        artifact: Option<Artifact<'a>> = "artifact",
        append: bool = "append",
        last_chunk: bool = "lastChunk" | "last_chunk",
        is_final: bool = "final",
        artifacts: Vec<Artifact<'a>> = "artifacts",
        history: Vec<Message<'a>> = "history",
        metadata: Option<Raw<'a>> = "metadata",
        message_id: Text<'a> = "messageId" | "message_id",
        role: Role<'a> = "role",
        parts: Option<Vec<Part<'a>>> = "parts",
        content: Option<Vec<Part<'a>>> = "content",
        extensions: Vec<Text<'a>> = "extensions",
        reference_task_ids: Vec<Text<'a>> = "referenceTaskIds" | "reference_task_ids",
    }
}

/// A task's status is an object; in a foreign body (an error page, say) `status` is often a number or a word.
#[derive(Debug, Clone, PartialEq)]
struct StatusShape<'a>(Option<TaskStatus<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for StatusShape<'a> {
    fn deserialize<D: serde::de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StatusVisitor;
        impl<'de> serde::de::Visitor<'de> for StatusVisitor {
            type Value = StatusShape<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a status")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                TaskStatus::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    .map(|status| StatusShape(Some(status)))
            }

            fn visit_borrowed_str<E>(self, _: &'de str) -> Result<Self::Value, E> {
                Ok(StatusShape(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(StatusShape(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(StatusShape(None))
            }
        }
        deserializer.deserialize_any(StatusVisitor)
    }
}

impl<'a> Payload<'a> {
    fn into_content(mut self) -> Option<FrameContent<'a>> {
        if let Some(error) = self.error.take() {
            return Some(FrameContent::Error(WireError::from_rest(&error)));
        }
        self.into_item().map(FrameContent::Item)
    }

    fn into_item(mut self) -> Option<StreamItem<'a>> {
        if let Some(task) = self.task {
            return Some(StreamItem::Task(task));
        }
        if let Some(update) = self.status_update {
            return Some(StreamItem::Status(update));
        }
        if let Some(update) = self.artifact_update {
            return Some(StreamItem::Artifact(update));
        }
        match self.kind.as_str() {
            "task" => return Some(StreamItem::Task(self.into_task())),
            "status-update" => return Some(StreamItem::Status(self.into_status())),
            "artifact-update" => return Some(StreamItem::Artifact(self.into_artifact())),
            "message" => return Some(StreamItem::Message(self.into_message())),
            _ => {}
        }
        if let Some(message) = self.message.take_if(|message| !message.parts.is_empty()) {
            return Some(StreamItem::Message(message));
        }
        self.into_bare_item()
    }

    /// 0.3-like objects without a discriminator, and the bare tasks that `GetTask` answers with.
    fn into_bare_item(self) -> Option<StreamItem<'a>> {
        if self.artifact.is_some() {
            return Some(StreamItem::Artifact(self.into_artifact()));
        }
        if matches!(self.status, Some(StatusShape(Some(_)))) {
            let of_task = !self.task_id.is_empty();
            return Some(if of_task {
                StreamItem::Status(self.into_status())
            } else {
                StreamItem::Task(self.into_task())
            });
        }
        if self.parts.is_some() || self.content.is_some() {
            return Some(StreamItem::Message(self.into_message()));
        }
        None
    }

    fn into_task(self) -> Task<'a> {
        Task {
            id: self.id.and_then(|raw| id_text(&raw)).unwrap_or_default(),
            context_id: self.context_id,
            status: self.status.and_then(|shape| shape.0).unwrap_or_default(),
            artifacts: self.artifacts,
            history: self.history,
            metadata: self.metadata,
            kind: self.kind,
            extra: self.extra,
        }
    }

    fn into_status(self) -> StatusUpdate<'a> {
        StatusUpdate {
            task_id: self.task_id,
            context_id: self.context_id,
            status: self.status.and_then(|shape| shape.0).unwrap_or_default(),
            is_final: self.is_final,
            metadata: self.metadata,
            kind: self.kind,
            extra: self.extra,
        }
    }

    fn into_artifact(self) -> ArtifactUpdate<'a> {
        ArtifactUpdate {
            task_id: self.task_id,
            context_id: self.context_id,
            artifact: self.artifact.unwrap_or_default(),
            append: self.append,
            last_chunk: self.last_chunk,
            metadata: self.metadata,
            kind: self.kind,
            extra: self.extra,
        }
    }

    fn into_message(self) -> Message<'a> {
        let parts = self.parts.unwrap_or_default();
        let content = self.content.unwrap_or_default();
        let parts_as_content = parts.is_empty() && !content.is_empty();
        Message {
            message_id: self.message_id,
            context_id: self.context_id,
            task_id: self.task_id,
            role: self.role,
            parts: if parts_as_content { content } else { parts },
            metadata: self.metadata,
            extensions: self.extensions,
            reference_task_ids: self.reference_task_ids,
            parts_as_content,
            extra: self.extra,
        }
    }
}

/// An id as text, also where a server sends a number.
fn id_text<'a>(raw: &Raw<'a>) -> Option<Text<'a>> {
    match raw.to_value() {
        serde_json::Value::String(id) => Some(Text::from(id)),
        serde_json::Value::Number(id) => Some(Text::from(id.to_string())),
        _ => None,
    }
}
