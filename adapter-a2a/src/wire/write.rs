//! Encodes the wire model as JSON, in each dialect.
//!
//! `Shown` is the only encoder: into memory for streams, which emit an item per token and must not build a tree
//! for each, or as a [`Value`] for requests and small responses.
//!
//! ```text
//! StreamItem::Status in each dialect:
//! 1.0            {"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_CANCELED"}}}
//! 0.3 JSON-RPC   {"kind":"status-update","taskId":"t","contextId":"c","status":{"state":"canceled"},"final":true}
//! 0.3 REST       {"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_CANCELLED"},"final":true}}
//! ```
//!
//! Invariants:
//!
//! - Absent members are omitted, never `null`.
//! - Unknown members are written back after the known ones, unless a known one has their name: a repeated name
//!   would be read differently by different parsers.
//! - The output is one line: server-sent events would end a payload at a line break.
//!
//! Not here: the JSON-RPC envelope around an item ([`Envelope`](crate::encode::Envelope)), and errors.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Dialect;
use super::model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
use super::part::{Content, Part, WRAPPED_DATA};
use super::state::{Role, TaskState};
use super::text::{Extra, Raw, Text};

/// A value of the model in a dialect. The wrapper carries the dialect through `Serialize`, which has no place for
/// it.
#[derive(Debug)]
pub(crate) struct Shown<'s, T: ?Sized>(pub(crate) &'s T, pub(crate) Dialect);

/// Returns the encoded value as a tree.
fn to_value(shown: &impl Serialize) -> Value {
    // All keys are strings and all raw JSON is well-formed, so the conversion cannot fail.
    serde_json::to_value(shown).unwrap_or_default()
}

/// An object that is being encoded. Its methods write one member each and omit values that are not set.
struct Object<'e, M> {
    map: M,
    dialect: Dialect,
    /// The unknown members of the value, which [`Object::end`] appends.
    extra: &'e Extra<'e>,
    /// Names of written members, to compare unknown ones with. Stays empty, without an allocation, if there are
    /// no unknown members, which is the usual case.
    names: Vec<&'static str>,
}

impl<'e, M: SerializeMap> Object<'e, M> {
    /// Begins an object. The number of members is not known in advance.
    fn new<S>(serializer: S, extra: &'e Extra<'e>, dialect: Dialect) -> Result<Self, M::Error>
    where
        S: Serializer<Ok = M::Ok, Error = M::Error, SerializeMap = M>,
    {
        Ok(Self { map: serializer.serialize_map(None)?, dialect, extra, names: Vec::new() })
    }

    /// Writes a member, whatever its value.
    fn put<V: Serialize + ?Sized>(&mut self, key: &'static str, value: &V) -> Result<(), M::Error> {
        if !self.extra.is_empty() {
            self.names.push(key);
        }
        self.map.serialize_entry(key, value)
    }

    /// Writes a member whose value is part of the model, in the dialect of the object.
    fn show<T: ?Sized>(&mut self, key: &'static str, part: &T) -> Result<(), M::Error>
    where
        for<'s> Shown<'s, T>: Serialize,
    {
        let dialect = self.dialect;
        self.put(key, &Shown(part, dialect))
    }

    /// Writes a text, unless it is empty: empty means "not set".
    fn text(&mut self, key: &'static str, text: &Text<'_>) -> Result<(), M::Error> {
        text.set().map_or(Ok(()), |text| self.put(key, text))
    }

    /// Writes unparsed JSON, unless it is absent.
    fn raw(&mut self, key: &'static str, raw: Option<&Raw<'_>>) -> Result<(), M::Error> {
        raw.map_or(Ok(()), |raw| self.put(key, &ShownRaw(raw)))
    }

    /// Writes a list, unless it is empty. (`parts` are required, and are written by [`Object::show`] even if they
    /// are empty.)
    fn list<T>(&mut self, key: &'static str, items: &[T]) -> Result<(), M::Error>
    where
        for<'s> Shown<'s, [T]>: Serialize,
    {
        if items.is_empty() { Ok(()) } else { self.show(key, items) }
    }

    /// Writes a flag, if it is set or the dialect needs it.
    fn flag(&mut self, key: &'static str, flag: bool) -> Result<(), M::Error> {
        // Readers of 0.3 treat an absent `append` as true (seen in the field); 1.0 omits defaults.
        if flag || self.dialect == Dialect::V03JsonRpc { self.put(key, &flag) } else { Ok(()) }
    }

    /// Writes the discriminator of 0.3 over JSON-RPC. The other dialects name the kind in a wrapper.
    fn kind(&mut self, kind: &str) -> Result<(), M::Error> {
        if self.dialect == Dialect::V03JsonRpc { self.put("kind", kind) } else { Ok(()) }
    }

    /// Appends the unknown members and ends the object. The comparison of names is quadratic, in counts of a few
    /// members.
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
///
/// JSON without line breaks is copied as it is, without building a tree. The number of opening brackets, which is
/// cheap to count and at least the depth, decides whether the text must be examined; brackets in strings only
/// cause an unnecessary examination.
struct ShownRaw<'r>(&'r Raw<'r>);

impl Serialize for ShownRaw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Half of the nesting that JSON parsers accept (128 levels); the rest is for the objects around it.
        const OPENINGS: usize = 64;
        let text = self.0.as_str();
        let bytes = text.as_bytes();
        let openings = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).take(OPENINGS + 1).count();
        let has_lines = bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        // `to_value` writes JSON that is too deep as a string ([`Raw::to_value`]), and removes line breaks.
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if openings <= OPENINGS && !has_lines => raw.serialize(serializer),
            _ => self.0.to_value().serialize(serializer),
        }
    }
}

/// Implements the encoding of lists of model types.
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

/// Lists of strings are the same in every dialect.
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
        // 0.3 allows only objects as data. Other data was wrapped by `object_only`; the mark in the metadata lets
        // the receiver remove the wrapper.
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
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_adapter_a2a::wire::{Dialect, Part};
    /// use serde_json::json;
    ///
    /// let part = Part::text("hi");
    /// assert_eq!(part.to_json(Dialect::V1), json!({"text": "hi"}));
    /// assert_eq!(part.to_json(Dialect::V03JsonRpc), json!({"kind": "text", "text": "hi"}));
    /// ```
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }

    /// Writes the content of 1.0: the name of the member is the kind; name and media type stand beside it.
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

    /// Writes the content of 0.3 over JSON-RPC. Name and media type exist only inside of `file`; those of other
    /// parts are dropped.
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

    /// Writes the content of 0.3 over REST: no `kind`, and an object around data.
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

    /// Returns the `file` object of 0.3, with the dialect's names for bytes and address.
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

/// Wraps data that is not an object, as 0.3 requires: `[1]` becomes `{"value": [1]}`. Python's compatibility
/// layer uses and marks the same wrapper.
pub(crate) fn object_only(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}

/// Returns the name of a role. REST of 0.3 has the names of 1.0: both are names of the proto file.
fn role_name<'r>(role: &'r Role<'_>, dialect: Dialect) -> &'r str {
    if dialect == Dialect::V03JsonRpc { role.v03_name() } else { role.v1_name() }
}

/// Returns the name of a state. Each dialect has its own spelling of "canceled".
fn state_name<'s>(state: &'s TaskState<'_>, dialect: Dialect) -> &'s str {
    match dialect {
        Dialect::V1 => state.v1_name(),
        Dialect::V03JsonRpc => state.v03_name(),
        Dialect::V03Rest => state.v03_proto_name(),
    }
}

/// `role` and the parts are always written, because the protocol requires them.
impl Serialize for Shown<'_, Message<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message, dialect) = *self;
        let mut object = Object::new(serializer, &message.extra, dialect)?;
        object.kind("message")?;
        object.text("messageId", &message.message_id)?;
        object.text("contextId", &message.context_id)?;
        object.text("taskId", &message.task_id)?;
        object.put("role", role_name(&message.role, dialect))?;
        // The proto file of 0.3 calls the parts of a message `content`, and has no `referenceTaskIds`.
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

/// An artifact has the same form in every dialect; its parts differ.
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

/// The state is always written. The proto file of 0.3 names the message `update`, but gives it the JSON name
/// `message`.
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

/// A task without artifacts or history has no such members.
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

/// `final` exists only in 0.3.
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

/// `append` and `lastChunk` are omitted if they are `false`, except in 0.3 over JSON-RPC ([`Object::flag`]).
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

/// Writes `{"name": item}`, or the bare item in the dialect that has `kind` members.
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
    /// Returns the item as in a stream: wrapped in its member name, or bare with a `kind`.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        to_value(&Shown(self, dialect))
    }
}
