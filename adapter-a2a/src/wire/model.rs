//! Tasks, messages, artifacts and the four things a stream carries.

use serde::de::{Deserialize, Deserializer, Visitor};

use super::object::object;
use super::part::Part;
use super::state::{Role, TaskState};
use super::text::{Extra, Raw, Text};
use std::fmt;

object! {
    /// A unit of work of an agent, whole.
    pub struct Task {
        /// The task's id, chosen by the server.
        id: Text<'a> = "id",
        /// The conversation it belongs to.
        context_id: Text<'a> = "contextId" | "context_id",
        /// Where it stands.
        status: TaskStatus<'a> = "status",
        /// What it has produced, each whole.
        artifacts: Vec<Artifact<'a>> = "artifacts",
        /// What was said, oldest first. Servers may leave out any of it.
        history: Vec<Message<'a>> = "history",
        /// What the agent says about it.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }
}

object! {
    /// Where a task stands.
    pub struct TaskStatus {
        /// The state.
        state: TaskState<'a> = "state",
        /// What the agent says about it.
        message: Option<Message<'a>> = "message" | "update",
        /// Since when (RFC 3339).
        timestamp: Text<'a> = "timestamp",
    }
}

/// Something said, by the user or the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message<'a> {
    /// Chosen by whoever said it.
    pub message_id: Text<'a>,
    /// The conversation.
    pub context_id: Text<'a>,
    /// The task it belongs to.
    pub task_id: Text<'a>,
    /// Who said it.
    pub role: Role<'a>,
    /// What.
    pub parts: Vec<Part<'a>>,
    /// What the sender says about it.
    pub metadata: Option<Raw<'a>>,
    /// Extensions that took part in it.
    pub extensions: Vec<Text<'a>>,
    /// Other tasks it speaks of.
    pub reference_task_ids: Vec<Text<'a>>,
    /// True if the parts came under the name `content`, as only 0.3 over REST does.
    pub parts_as_content: bool,
    /// Members that no rule knows.
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

/// A message is an object; some agents put a plain string where one belongs, which is read as its text.
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
    /// Its text parts, joined without separator.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }

    /// The same, borrowing from nothing.
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
    /// Something an agent produces: a chunk of it, or the whole.
    pub struct Artifact {
        /// Unique in the task.
        artifact_id: Text<'a> = "artifactId" | "artifact_id",
        /// A name for people; some frameworks give it a meaning.
        name: Text<'a> = "name",
        /// A sentence for people.
        description: Text<'a> = "description",
        /// The content.
        parts: Vec<Part<'a>> = "parts",
        /// What the agent says about it.
        metadata: Option<Raw<'a>> = "metadata",
        /// Extensions that took part in it.
        extensions: Vec<Text<'a>> = "extensions",
    }
}

impl Artifact<'_> {
    /// Its text parts, joined without separator: chunks become parts, and no server puts anything between them.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
    }
}

object! {
    /// A task changed its state, or says more about it.
    pub struct StatusUpdate {
        /// Which task.
        task_id: Text<'a> = "taskId" | "task_id",
        /// Which conversation.
        context_id: Text<'a> = "contextId" | "context_id",
        /// The state from now on.
        status: TaskStatus<'a> = "status",
        /// 0.3 only, and not to be relied on: what ends a stream is the state (client rule 10).
        is_final: bool = "final",
        /// What the agent says about it.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }
}

object! {
    /// A task produced something.
    pub struct ArtifactUpdate {
        /// Which task.
        task_id: Text<'a> = "taskId" | "task_id",
        /// Which conversation.
        context_id: Text<'a> = "contextId" | "context_id",
        /// The chunk, or the whole.
        artifact: Artifact<'a> = "artifact",
        /// True if it follows what came before under the same id; false or absent: it is the artifact from now
        /// on (client rule 6).
        append: bool = "append",
        /// True if nothing more follows for this artifact.
        last_chunk: bool = "lastChunk" | "last_chunk",
        /// What the agent says about it.
        metadata: Option<Raw<'a>> = "metadata",
        /// The 0.3 discriminator.
        kind: Text<'a> = "kind",
    }
}

/// What one event of a stream, or the answer to a message, holds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamItem<'a> {
    /// A task, whole.
    Task(Task<'a>),
    /// A reply without a task.
    Message(Message<'a>),
    /// A change of state.
    Status(StatusUpdate<'a>),
    /// Something produced.
    Artifact(ArtifactUpdate<'a>),
}

impl<'a> StreamItem<'a> {
    /// Visits every part of it, wherever it is.
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

    /// The task it belongs to; empty if none is named.
    pub fn task_id(&self) -> &str {
        match self {
            Self::Task(task) => &task.id,
            Self::Message(message) => &message.task_id,
            Self::Status(update) => &update.task_id,
            Self::Artifact(update) => &update.task_id,
        }
    }

    /// The conversation it belongs to; empty if none is named.
    pub fn context_id(&self) -> &str {
        match self {
            Self::Task(task) => &task.context_id,
            Self::Message(message) => &message.context_id,
            Self::Status(update) => &update.context_id,
            Self::Artifact(update) => &update.context_id,
        }
    }
}
