//! Tasks, messages, artifacts and the four items of a stream.
//!
//! The types are those of 1.0; members that only 0.3 has (`kind`, `final`, `content`) are kept beside them.
//! Everything borrows from the frame; `into_owned` copies what outlives it. No member is required: a peer that
//! omits an id is understood as far as possible, and the decoder decides what is missing.

use serde::de::{Deserialize, Deserializer, Visitor};

use super::object::object;
use super::part::Part;
use super::state::{Role, TaskState};
use super::text::{Extra, Raw, Text};
use std::fmt;

object! {
    /// A complete task.
    pub struct Task {
        /// The id of the task, chosen by the server.
        id: Text<'a> = "id",
        /// The context of the task.
        context_id: Text<'a> = "contextId" | "context_id",
        /// The current status.
        status: TaskStatus<'a> = "status",
        /// The artifacts, each complete.
        artifacts: Vec<Artifact<'a>> = "artifacts",
        /// The messages, oldest first. Servers may omit any of them.
        history: Vec<Message<'a>> = "history",
        /// Metadata of the agent.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }

    /// The status of a task.
    pub struct TaskStatus {
        /// The state.
        state: TaskState<'a> = "state",
        /// The message of the agent about the status.
        message: Option<Message<'a>> = "message" | "update",
        /// The time of the status (RFC 3339).
        timestamp: Text<'a> = "timestamp",
    }
}

/// A message of the user or the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message<'a> {
    /// The id of the message, chosen by its sender.
    pub message_id: Text<'a>,
    /// The context of the message.
    pub context_id: Text<'a>,
    /// The task of the message.
    pub task_id: Text<'a>,
    /// The role of the sender.
    pub role: Role<'a>,
    /// The content.
    pub parts: Vec<Part<'a>>,
    /// Metadata of the sender.
    pub metadata: Option<Raw<'a>>,
    /// Active extensions.
    pub extensions: Vec<Text<'a>>,
    /// Ids of other tasks that the message refers to.
    pub reference_task_ids: Vec<Text<'a>>,
    /// Set if the parts had the name `content`, which occurs only in 0.3 over REST.
    pub parts_as_content: bool,
    /// Unknown members.
    pub extra: Extra<'a>,
}

object! {
    struct MessageShape {
        message_id: Text<'a> = "messageId" | "message_id",
        context_id: Text<'a> = "contextId" | "context_id",
        task_id: Text<'a> = "taskId" | "task_id",
        role: Role<'a> = "role",
        parts: Vec<Part<'a>> = "parts",
        content: Vec<Part<'a>> = "content",
        metadata: Option<Raw<'a>> = "metadata",
        extensions: Vec<Text<'a>> = "extensions",
        reference_task_ids: Vec<Text<'a>> = "referenceTaskIds" | "reference_task_ids",
        kind: Text<'a> = "kind",
    }
}

impl<'a> From<MessageShape<'a>> for Message<'a> {
    fn from(shape: MessageShape<'a>) -> Self {
        let parts_as_content = shape.parts.is_empty() && !shape.content.is_empty();
        Self {
            message_id: shape.message_id,
            context_id: shape.context_id,
            task_id: shape.task_id,
            role: shape.role,
            parts: if parts_as_content { shape.content } else { shape.parts },
            metadata: shape.metadata.filter(|raw| !raw.is_empty_object()),
            extensions: shape.extensions,
            reference_task_ids: shape.reference_task_ids,
            parts_as_content,
            extra: shape.extra,
        }
    }
}

/// A message is an object; some agents send a plain string instead, which is parsed as its text.
impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessageVisitor;
        impl<'de> Visitor<'de> for MessageVisitor {
            type Value = Message<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message object or a string")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Message<'de>, A::Error> {
                MessageShape::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Into::into)
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Message<'de>, E> {
                Ok(Message { parts: vec![Part::text(text)], ..Message::default() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Message<'de>, E> {
                Ok(Message { parts: vec![Part::text(text.to_owned())], ..Message::default() })
            }
        }
        deserializer.deserialize_any(MessageVisitor)
    }
}

impl Message<'_> {
    /// Returns the text parts, joined without separator.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }

    /// Returns the message with owned content.
    pub fn into_owned(self) -> Message<'static> {
        Message {
            message_id: self.message_id.into_owned(),
            context_id: self.context_id.into_owned(),
            task_id: self.task_id.into_owned(),
            role: self.role.into_owned(),
            parts: self.parts.into_iter().map(Part::into_owned).collect(),
            metadata: self.metadata.map(Raw::into_owned),
            extensions: self.extensions.into_iter().map(Text::into_owned).collect(),
            reference_task_ids: self.reference_task_ids.into_iter().map(Text::into_owned).collect(),
            parts_as_content: self.parts_as_content,
            extra: self.extra.into_owned(),
        }
    }
}

object! {
    /// An artifact: a chunk of it, or all of it.
    pub struct Artifact {
        /// The id, unique in the task.
        artifact_id: Text<'a> = "artifactId" | "artifact_id",
        /// The display name; some frameworks give it a meaning.
        name: Text<'a> = "name",
        /// The description for people.
        description: Text<'a> = "description",
        /// The content.
        parts: Vec<Part<'a>> = "parts",
        /// Metadata of the agent.
        metadata: Option<Raw<'a>> = "metadata",
        /// Active extensions.
        extensions: Vec<Text<'a>> = "extensions",
    }
}

impl Artifact<'_> {
    /// Returns the text parts, joined without separator: chunks become parts, and no server inserts anything between
    /// them.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }
}

object! {
    /// A change of a task's state, or a message about it.
    pub struct StatusUpdate {
        /// The id of the task.
        task_id: Text<'a> = "taskId" | "task_id",
        /// The id of the context.
        context_id: Text<'a> = "contextId" | "context_id",
        /// The new status.
        status: TaskStatus<'a> = "status",
        /// 0.3 only, and unreliable: the state ends a stream (client rule 10).
        is_final: bool = "final",
        /// Metadata of the agent.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }

    /// An artifact, or a chunk of one.
    pub struct ArtifactUpdate {
        /// The id of the task.
        task_id: Text<'a> = "taskId" | "task_id",
        /// The id of the context.
        context_id: Text<'a> = "contextId" | "context_id",
        /// The chunk, or the complete artifact.
        artifact: Artifact<'a> = "artifact",
        /// Set if the content is appended to the artifact with the same id; otherwise it replaces the artifact (client
        /// rule 6).
        append: bool = "append",
        /// Set if this is the last chunk of the artifact.
        last_chunk: bool = "lastChunk" | "last_chunk",
        /// Metadata of the agent.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }
}

/// The content of one event of a stream, or of the response to a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamItem<'a> {
    /// A complete task.
    Task(Task<'a>),
    /// A message without a task.
    Message(Message<'a>),
    /// A change of state.
    Status(StatusUpdate<'a>),
    /// An artifact or a chunk of one.
    Artifact(ArtifactUpdate<'a>),
}

impl<'a> StreamItem<'a> {
    /// Visits every part of the item.
    pub(crate) fn for_each_part(&mut self, mut visit: impl FnMut(&mut Part<'a>)) {
        match self {
            Self::Task(task) => {
                let messages = task.history.iter_mut().chain(&mut task.status.message);
                let parts = messages.flat_map(|message| &mut message.parts);
                parts
                    .chain(task.artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts))
                    .for_each(visit);
            }
            Self::Message(message) => message.parts.iter_mut().for_each(visit),
            Self::Status(update) => {
                update.status.message.iter_mut().flat_map(|message| &mut message.parts).for_each(&mut visit);
            }
            Self::Artifact(update) => update.artifact.parts.iter_mut().for_each(visit),
        }
    }

    /// Returns the id of the task; empty if none is named.
    pub fn task_id(&self) -> &str {
        match self {
            Self::Task(task) => &task.id,
            Self::Message(message) => &message.task_id,
            Self::Status(update) => &update.task_id,
            Self::Artifact(update) => &update.task_id,
        }
    }

    /// Returns the id of the context; empty if none is named.
    pub fn context_id(&self) -> &str {
        match self {
            Self::Task(task) => &task.context_id,
            Self::Message(message) => &message.context_id,
            Self::Status(update) => &update.context_id,
            Self::Artifact(update) => &update.context_id,
        }
    }
}
