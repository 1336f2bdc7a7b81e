//! One event of a stream or one response body, parsed into a [`StreamItem`] or a [`WireError`].
//!
//! A payload is classified by its members, not by the version of the request: the JSON-RPC envelope (`result`,
//! `error`), the 1.0 wrapper (`task`, `message`, `statusUpdate`, `artifactUpdate`), the 0.3 discriminator
//! (`kind`), or the members of a bare object.
//!
//! ```text
//! {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{…}}}   1.0, JSON-RPC   ►  Item(Status)
//! {"statusUpdate":{…}}                                      1.0, REST       ►  Item(Status)
//! {"id":"1","result":{"kind":"status-update",…}}            0.3, JSON-RPC   ►  Item(Status)
//! {"id":"t","status":{…},"artifacts":[…]}                   GetTask         ►  Item(Task)
//! {"jsonrpc":"2.0","id":1,"error":{"code":-32001,…}}        JSON-RPC        ►  Error
//! {"error":{"code":404,"status":"NOT_FOUND",…}}             REST            ►  Error
//! {"ping":1}                                                                ►  Unknown
//! ```
//!
//! The payload is parsed in one pass, whatever the order of its members: Python servers write `jsonrpc` last.
//! Text is borrowed from the frame. An error takes precedence over an item in the same payload.
//!
//! Not here: the meaning of items ([`decode`](crate::decode)), and the framing of server-sent events, which a
//! transport removes.

use std::fmt;

use aqueduct_core::ByteString;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Dialect;
use super::error::WireError;
use super::model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
use super::object::object;
use super::part::Part;
use super::state::Role;
use super::text::{Raw, Text};
use crate::error::Error;

/// One event of a stream, without its framing.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The name of the server-sent event, if there is one. Only `error` has a meaning.
    pub event: Option<&'a str>,
    /// The payload. Text deltas are slices of it.
    pub data: &'a ByteString,
}

impl<'a> Frame<'a> {
    /// Returns an event without a name, which is the usual case.
    pub fn data(data: &'a ByteString) -> Self {
        Self { event: None, data }
    }

    /// Parses the payload.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Json`] if the text is not JSON, or if a known member has the wrong type. It is the peer's
    /// fault, and costs only this event ([`Error::can_continue`]).
    pub fn parse(&self, dialect: Dialect) -> Result<FrameContent<'a>, Error> {
        let content = FrameContent::parse(self.data, dialect)?;
        Ok(match content {
            FrameContent::Error(_) => content,
            // The payload of an `event: error` is an error, whatever its shape.
            _ if self.event == Some("error") => {
                FrameContent::Error(WireError::from_unknown(&FrameContent::whole(self.data)))
            }
            other => other,
        })
    }
}

/// The content of a payload.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one lives for one frame; a box would cost an allocation each")]
pub enum FrameContent<'a> {
    /// Content.
    Item(StreamItem<'a>),
    /// An error.
    Error(WireError),
    /// Well-formed JSON of unknown shape.
    Unknown(Raw<'a>),
}

impl<'a> FrameContent<'a> {
    /// Parses a payload. The dialect matters only for data parts of 0.3 over REST: all else is classified by its
    /// members, so a peer that responds in another dialect than that of the request is understood.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Json`] if the text is not JSON, or if a known member has the wrong type.
    pub fn parse(data: &'a str, dialect: Dialect) -> Result<Self, Error> {
        let mut content = Self::parse_any(data)?;
        if dialect == Dialect::V03Rest
            && let Self::Item(item) = &mut content
        {
            item.for_each_part(Part::unwrap_data);
        }
        Ok(content)
    }

    /// Parses a payload, but for the wrappers around data of 0.3 over REST.
    fn parse_any(data: &'a str) -> Result<Self, Error> {
        let mut payload = Payload::default();
        let mut reader = serde_json::Deserializer::from_str(data);
        PayloadSeed { payload: &mut payload, at_top: true }.deserialize(&mut reader)?;
        reader.end()?;
        if payload.is_bare_error() {
            return Ok(Self::Error(WireError::from_rest(&Self::whole(data))));
        }
        Ok(payload.into_content().unwrap_or_else(|| Self::Unknown(Self::whole(data))))
    }

    /// Returns the payload as unparsed JSON.
    fn whole(data: &'a str) -> Raw<'a> {
        let raw: Result<Raw<'a>, _> = serde_json::from_str(data);
        // The text was just parsed; a second failure would yield an empty value.
        raw.unwrap_or_else(|_| Raw::from_value(&serde_json::Value::Null))
    }
}

/// The top level of a payload, with or without the JSON-RPC envelope.
///
/// The item is built in its final place: moving large values from the parser to here costs more than parsing (half the
/// time of a first version with one flat struct).
#[derive(Default)]
struct Payload<'a> {
    /// The item, if the payload names its kind in a wrapper. The last of several counts.
    item: Option<StreamItem<'a>>,
    /// The `error` member, unparsed: JSON-RPC and REST have different ones.
    error: Option<Raw<'a>>,
    /// The id of JSON-RPC, or of a bare task.
    id: Option<Raw<'a>>,
    /// Set if the payload has a `jsonrpc` member.
    is_rpc: bool,
    /// Members that belong to no wrapper. Boxed, because wrapped items, which are most, have none.
    bare: Option<Box<Bare<'a>>>,
}

impl<'a> Payload<'a> {
    /// Parses the value of a member of the result, or of a payload without an envelope.
    fn read_member<A: MapAccess<'a>>(&mut self, key: Text<'a>, map: &mut A) -> Result<(), A::Error> {
        match key.as_str() {
            "task" => self.item = map.next_value::<Option<Task<'a>>>()?.map(StreamItem::Task),
            "statusUpdate" | "status_update" => {
                self.item = map.next_value::<Option<StatusUpdate<'a>>>()?.map(StreamItem::Status);
            }
            "artifactUpdate" | "artifact_update" => {
                self.item = map.next_value::<Option<ArtifactUpdate<'a>>>()?.map(StreamItem::Artifact);
            }
            "message" | "msg" => {
                // A string is parsed as a message too. An empty one beside other members is a printed default.
                let message = map.next_value::<Option<Message<'a>>>()?;
                self.item = message.filter(|message| !message.parts.is_empty()).map(StreamItem::Message);
            }
            "error" => self.error = map.next_value::<Option<Raw<'a>>>()?,
            "id" => self.id = map.next_value::<Option<Raw<'a>>>()?,
            _ => self.bare.get_or_insert_default().read_member(key, map)?,
        }
        Ok(())
    }
}

/// Parses a payload in its final place; at the top level it may be in an envelope.
struct PayloadSeed<'p, 'a> {
    payload: &'p mut Payload<'a>,
    at_top: bool,
}

impl<'de> DeserializeSeed<'de> for PayloadSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PayloadSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an A2A payload")
    }

    /// Handles `"result": null`, the response to a deletion.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { payload, at_top } = self;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match key.as_str() {
                "jsonrpc" if at_top => {
                    map.next_value::<IgnoredAny>()?;
                    payload.is_rpc = true;
                }
                // What was parsed before are members of the envelope. Only the error and the version mark are
                // kept; `id` was that of the request, not that of a task.
                "result" if at_top => {
                    let (error, is_rpc) = (payload.error.take(), payload.is_rpc);
                    *payload = Payload::default();
                    map.next_value_seed(PayloadSeed { payload, at_top: false })?;
                    payload.error = payload.error.take().or(error);
                    payload.is_rpc = is_rpc;
                }
                // The id of the envelope is not needed once the result is parsed.
                "id" if at_top && (payload.item.is_some() || payload.id.is_some()) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => payload.read_member(key, &mut map)?,
            }
        }
        Ok(())
    }
}

object! {
    /// The union of all objects that can stand without a wrapper: `kind`, or else the members that are present,
    /// determine which one it is ([`Bare::into_item`]).
    struct Bare {
        kind: Text<'a> = "kind",
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

/// A status that is an object. In a foreign body (an error page, say) `status` is often a number or a string.
#[derive(Debug, Clone, PartialEq)]
struct StatusShape<'a>(Option<TaskStatus<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for StatusShape<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StatusVisitor;
        impl<'de> Visitor<'de> for StatusVisitor {
            type Value = StatusShape<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
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
    /// Returns `true` for `{"code", "message": "words"}` without a wrapper, with which the official Rust server ends
    /// streams of HTTP+JSON.
    fn is_bare_error(&self) -> bool {
        let Some(StreamItem::Message(message)) = &self.item else { return false };
        let code = self.bare.as_ref().and_then(|bare| bare.extra.get("code"));
        message.message_id.is_empty() && code.is_some_and(|code| code.parse::<i64>().is_some())
    }

    /// Returns the content. Returns `None` if the payload has no known member.
    fn into_content(self) -> Option<FrameContent<'a>> {
        if let Some(error) = self.error {
            let error = if self.is_rpc { WireError::from_rpc(&error) } else { WireError::from_rest(&error) };
            return Some(FrameContent::Error(error));
        }
        let item = match (self.item, self.bare) {
            (Some(item), _) => item,
            (None, Some(bare)) => bare.into_item(self.id)?,
            (None, None) => return None,
        };
        Some(FrameContent::Item(item))
    }
}

impl<'a> Bare<'a> {
    /// Classifies a bare object. `id` is that of the payload, which is a task's id if the object is a task.
    fn into_item(self, id: Option<Raw<'a>>) -> Option<StreamItem<'a>> {
        match self.kind.as_str() {
            "task" => return Some(StreamItem::Task(self.into_task(id))),
            "status-update" => return Some(StreamItem::Status(self.into_status())),
            "artifact-update" => return Some(StreamItem::Artifact(self.into_artifact())),
            "message" => return Some(StreamItem::Message(self.into_message())),
            _ => {}
        }
        // Without a discriminator: 0.3-like objects of agents that omit it, and the bare tasks that `GetTask` returns.
        if self.artifact.is_some() {
            return Some(StreamItem::Artifact(self.into_artifact()));
        }
        if matches!(self.status, Some(StatusShape(Some(_)))) {
            // A task has an `id`, an update names its task.
            let of_task = !self.task_id.is_empty();
            return Some(if of_task {
                StreamItem::Status(self.into_status())
            } else {
                StreamItem::Task(self.into_task(id))
            });
        }
        if self.parts.is_some() || self.content.is_some() {
            return Some(StreamItem::Message(self.into_message()));
        }
        None
    }

    /// `kind` and the unknown members are kept, here and in the other conversions: a proxy shows them.
    fn into_task(self, id: Option<Raw<'a>>) -> Task<'a> {
        Task {
            id: id.and_then(|raw| id_text(&raw)).unwrap_or_default(),
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

    /// `content` is used only if `parts` is absent or empty.
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

/// Returns an id as text, also if a server sends a number.
fn id_text<'a>(raw: &Raw<'a>) -> Option<Text<'a>> {
    match raw.to_value() {
        serde_json::Value::String(id) => Some(Text::from(id)),
        serde_json::Value::Number(id) => Some(Text::from(id.to_string())),
        _ => None,
    }
}
