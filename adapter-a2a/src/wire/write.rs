//! Encodes the wire model as JSON, in each dialect. Absent members are omitted, never `null`; unknown members are
//! written back, unless a known one has their name.
//!
//! `Shown` is the only encoder: into memory for streams, which emit an item per token and must not build a tree for
//! each, or as a [`Value`] for requests and small responses.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Dialect;
use super::model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
use super::part::{Content, Part, WRAPPED_DATA};
use super::state::{Role, TaskState};
use super::text::{Extra, Raw, Text};

/// A value of the model in a dialect.
#[derive(Debug)]
pub(crate) struct Shown<'s, T: ?Sized>(pub(crate) &'s T, pub(crate) Dialect);

/// Returns a tree.
fn to_value(shown: &impl Serialize) -> Value {
    // All keys are strings and all raw JSON is well-formed, so the conversion cannot fail.
    serde_json::to_value(shown).unwrap_or_default()
}

/// An object that is being encoded and omits values that are not set.
struct Object<'e, M> {
    map: M,
    dialect: Dialect,
    extra: &'e Extra<'e>,
    /// Names of written members, if unknown ones may have the same name.
    names: Vec<&'static str>,
}

impl<'e, M: SerializeMap> Object<'e, M> {
    fn new<S>(serializer: S, extra: &'e Extra<'e>, dialect: Dialect) -> Result<Self, M::Error>
    where
        S: Serializer<Ok = M::Ok, Error = M::Error, SerializeMap = M>,
    {
        Ok(Self { map: serializer.serialize_map(None)?, dialect, extra, names: Vec::new() })
    }

    fn put<V: Serialize + ?Sized>(&mut self, key: &'static str, value: &V) -> Result<(), M::Error> {
        if !self.extra.is_empty() {
            self.names.push(key);
        }
        self.map.serialize_entry(key, value)
    }

    fn show<T: ?Sized>(&mut self, key: &'static str, part: &T) -> Result<(), M::Error>
    where
        for<'s> Shown<'s, T>: Serialize,
    {
        let dialect = self.dialect;
        self.put(key, &Shown(part, dialect))
    }

    fn text(&mut self, key: &'static str, text: &Text<'_>) -> Result<(), M::Error> {
        text.set().map_or(Ok(()), |text| self.put(key, text))
    }

    fn raw(&mut self, key: &'static str, raw: Option<&Raw<'_>>) -> Result<(), M::Error> {
        raw.map_or(Ok(()), |raw| self.put(key, &ShownRaw(raw)))
    }

    fn list<T>(&mut self, key: &'static str, items: &[T]) -> Result<(), M::Error>
    where
        for<'s> Shown<'s, [T]>: Serialize,
    {
        if items.is_empty() { Ok(()) } else { self.show(key, items) }
    }

    fn flag(&mut self, key: &'static str, flag: bool) -> Result<(), M::Error> {
        // Readers of 0.3 treat an absent `append` as true (seen in the field); 1.0 omits defaults.
        if flag || self.dialect == Dialect::V03JsonRpc { self.put(key, &flag) } else { Ok(()) }
    }

    fn kind(&mut self, kind: &str) -> Result<(), M::Error> {
        if self.dialect == Dialect::V03JsonRpc { self.put("kind", kind) } else { Ok(()) }
    }

    fn end(mut self) -> Result<M::Ok, M::Error> {
        for (key, raw) in &self.extra.0 {
            if !self.names.contains(&key.as_str()) {
                self.map.serialize_entry(key.as_str(), &ShownRaw(raw))?;
            }
        }
        self.map.end()
    }
}

/// Unparsed JSON, on one line, and no deeper than parsers accept it.
struct ShownRaw<'r>(&'r Raw<'r>);

impl Serialize for ShownRaw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Half of the nesting that JSON parsers accept (128 levels); the rest is for the objects around it.
        const OPENINGS: usize = 64;
        let text = self.0.as_str();
        let bytes = text.as_bytes();
        let openings = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).take(OPENINGS + 1).count();
        let has_lines = bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if openings <= OPENINGS && !has_lines => raw.serialize(serializer),
            _ => self.0.to_value().serialize(serializer),
        }
    }
}

macro_rules! shown_lists {
    ($($type:ident),*) => {$(
        impl Serialize for Shown<'_, [$type<'_>]> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(|item| Shown(item, self.1)))
            }
        }
    )*};
}
shown_lists!(Part, Message, Artifact);

impl Serialize for Shown<'_, [Text<'_>]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Text::as_str))
    }
}

impl Serialize for Shown<'_, Part<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(part, dialect) = *self;
        let mut object = Object::new(serializer, &part.extra, dialect)?;
        match dialect {
            Dialect::V1 => part.write_v1(&mut object)?,
            Dialect::V03JsonRpc => part.write_v03(&mut object)?,
            Dialect::V03Rest => part.write_v03_rest(&mut object)?,
        }
        if dialect != Dialect::V1 && matches!(&part.content, Content::Data(data) if !data.is_object()) {
            let mut metadata = part.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
            metadata.insert(WRAPPED_DATA.to_owned(), true.into());
            object.put("metadata", &metadata)?;
        } else {
            object.raw("metadata", part.metadata.as_ref())?;
        }
        object.end()
    }
}

impl Part<'_> {
    /// Returns the part as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }

    fn write_v1<M: SerializeMap>(&self, object: &mut Object<'_, M>) -> Result<(), M::Error> {
        match &self.content {
            Content::Text(text) => object.put("text", text.as_str())?,
            Content::Bytes(bytes) => object.put("raw", bytes.as_str())?,
            Content::Url(url) => object.put("url", url.as_str())?,
            Content::Data(data) => object.put("data", &ShownRaw(data))?,
            Content::Unknown(kind) => object.text("kind", kind)?,
        }
        object.text("filename", &self.filename)?;
        object.text("mediaType", &self.media_type)
    }

    fn write_v03<M: SerializeMap>(&self, object: &mut Object<'_, M>) -> Result<(), M::Error> {
        match &self.content {
            Content::Text(text) => {
                object.put("kind", "text")?;
                object.put("text", text.as_str())
            }
            Content::Bytes(_) | Content::Url(_) => {
                object.put("kind", "file")?;
                object.put("file", &self.file_json("bytes", "uri"))
            }
            Content::Data(data) => {
                object.put("kind", "data")?;
                object.put("data", &object_only(data.to_value()))
            }
            Content::Unknown(kind) => object.text("kind", kind),
        }
    }

    fn write_v03_rest<M: SerializeMap>(&self, object: &mut Object<'_, M>) -> Result<(), M::Error> {
        match &self.content {
            Content::Text(text) => object.put("text", text.as_str()),
            Content::Bytes(_) | Content::Url(_) => {
                object.put("file", &self.file_json("fileWithBytes", "fileWithUri"))
            }
            Content::Data(data) => object.put("data", &json!({"data": object_only(data.to_value())})),
            Content::Unknown(kind) => object.text("kind", kind),
        }
    }

    fn file_json(&self, bytes_key: &str, url_key: &str) -> Map<String, Value> {
        let content = match &self.content {
            Content::Bytes(bytes) => Some((bytes_key, bytes)),
            Content::Url(url) => Some((url_key, url)),
            _ => None,
        };
        let named = [("mimeType", &self.media_type), ("name", &self.filename)];
        let set = named.into_iter().filter(|(_, text)| !text.is_empty());
        content.into_iter().chain(set).map(|(key, text)| (key.to_owned(), text.as_str().into())).collect()
    }
}

/// Wraps data that is not an object, as 0.3 requires; Python's compatibility layer uses and marks the same wrapper.
pub(crate) fn object_only(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}

fn role_name<'r>(role: &'r Role<'_>, dialect: Dialect) -> &'r str {
    if dialect == Dialect::V03JsonRpc { role.v03_name() } else { role.v1_name() }
}

fn state_name<'s>(state: &'s TaskState<'_>, dialect: Dialect) -> &'s str {
    match dialect {
        Dialect::V1 => state.v1_name(),
        Dialect::V03JsonRpc => state.v03_name(),
        Dialect::V03Rest => state.v03_proto_name(),
    }
}

impl Serialize for Shown<'_, Message<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message, dialect) = *self;
        let mut object = Object::new(serializer, &message.extra, dialect)?;
        object.kind("message")?;
        object.text("messageId", &message.message_id)?;
        object.text("contextId", &message.context_id)?;
        object.text("taskId", &message.task_id)?;
        object.put("role", role_name(&message.role, dialect))?;
        let parts = if dialect == Dialect::V03Rest { "content" } else { "parts" };
        object.show(parts, message.parts.as_slice())?;
        object.raw("metadata", message.metadata.as_ref())?;
        object.list("extensions", &message.extensions)?;
        if dialect != Dialect::V03Rest {
            object.list("referenceTaskIds", &message.reference_task_ids)?;
        }
        object.end()
    }
}

impl Message<'_> {
    /// Returns the message as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }
}

impl Serialize for Shown<'_, Artifact<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(artifact, dialect) = *self;
        let mut object = Object::new(serializer, &artifact.extra, dialect)?;
        object.text("artifactId", &artifact.artifact_id)?;
        object.text("name", &artifact.name)?;
        object.text("description", &artifact.description)?;
        object.show("parts", artifact.parts.as_slice())?;
        object.raw("metadata", artifact.metadata.as_ref())?;
        object.list("extensions", &artifact.extensions)?;
        object.end()
    }
}

impl Serialize for Shown<'_, TaskStatus<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(status, dialect) = *self;
        let mut object = Object::new(serializer, &status.extra, dialect)?;
        object.put("state", state_name(&status.state, dialect))?;
        if let Some(message) = &status.message {
            object.show("message", message)?;
        }
        object.text("timestamp", &status.timestamp)?;
        object.end()
    }
}

impl Serialize for Shown<'_, Task<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(task, dialect) = *self;
        let mut object = Object::new(serializer, &task.extra, dialect)?;
        object.kind("task")?;
        object.text("id", &task.id)?;
        object.text("contextId", &task.context_id)?;
        object.show("status", &task.status)?;
        object.list("artifacts", &task.artifacts)?;
        object.list("history", &task.history)?;
        object.raw("metadata", task.metadata.as_ref())?;
        object.end()
    }
}

impl Task<'_> {
    /// Returns the task as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }
}

impl Serialize for Shown<'_, StatusUpdate<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(update, dialect) = *self;
        let mut object = Object::new(serializer, &update.extra, dialect)?;
        object.kind("status-update")?;
        object.text("taskId", &update.task_id)?;
        object.text("contextId", &update.context_id)?;
        object.show("status", &update.status)?;
        if dialect != Dialect::V1 {
            object.flag("final", update.is_final)?;
        }
        object.raw("metadata", update.metadata.as_ref())?;
        object.end()
    }
}

impl Serialize for Shown<'_, ArtifactUpdate<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(update, dialect) = *self;
        let mut object = Object::new(serializer, &update.extra, dialect)?;
        object.kind("artifact-update")?;
        object.text("taskId", &update.task_id)?;
        object.text("contextId", &update.context_id)?;
        object.show("artifact", &update.artifact)?;
        object.flag("append", update.append)?;
        object.flag("lastChunk", update.last_chunk)?;
        object.raw("metadata", update.metadata.as_ref())?;
        object.end()
    }
}

/// Encodes the item as in a stream: wrapped in its member name, or (0.3 over JSON-RPC) bare with a `kind`.
impl Serialize for Shown<'_, StreamItem<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            StreamItem::Task(task) => wrapped(serializer, "task", Shown(task, self.1)),
            StreamItem::Message(message) => wrapped(serializer, "message", Shown(message, self.1)),
            StreamItem::Status(update) => wrapped(serializer, "statusUpdate", Shown(update, self.1)),
            StreamItem::Artifact(update) => wrapped(serializer, "artifactUpdate", Shown(update, self.1)),
        }
    }
}

fn wrapped<'s, S: Serializer, T>(serializer: S, name: &str, shown: Shown<'s, T>) -> Result<S::Ok, S::Error>
where
    Shown<'s, T>: Serialize,
{
    if shown.1 == Dialect::V03JsonRpc {
        return shown.serialize(serializer);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, &shown)?;
    map.end()
}

impl StreamItem<'_> {
    /// Returns the item as in a stream.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }
}
