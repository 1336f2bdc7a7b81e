//! The wire model as JSON, in each dialect. Absent is absent, never `null`; unknown members go back out.
//!
//! This is the side of requests and small answers; it builds [`Value`]s.

use serde_json::{Map, Value, json};

use super::Dialect;
use super::model::{Artifact, ArtifactUpdate, Message, StatusUpdate, StreamItem, Task, TaskStatus};
use super::part::{Content, Part, WRAPPED_DATA};
use super::state::{Role, TaskState};
use super::text::{Extra, Raw, Text};

/// An object under construction that leaves out what is not set.
struct Object(Map<String, Value>);

impl Object {
    fn new(extra: &Extra<'_>) -> Self {
        Self(extra.to_values().collect())
    }

    fn put(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    fn text(&mut self, key: &str, text: &Text<'_>) {
        if let Some(text) = text.set() {
            self.put(key, text.into());
        }
    }

    fn raw(&mut self, key: &str, raw: Option<&Raw<'_>>) {
        if let Some(raw) = raw {
            self.put(key, raw.to_value());
        }
    }

    fn list(&mut self, key: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.put(key, Value::Array(items));
        }
    }

    fn texts(&mut self, key: &str, texts: &[Text<'_>]) {
        self.list(key, texts.iter().map(|text| text.as_str().into()).collect());
    }

    fn flag(&mut self, key: &str, flag: bool, dialect: Dialect) {
        // 0.3 readers take an absent `append` for true (seen in the field); 1.0 leaves defaults out.
        if flag || dialect == Dialect::V03JsonRpc {
            self.put(key, flag.into());
        }
    }

    fn kind(&mut self, kind: &str, dialect: Dialect) {
        if dialect == Dialect::V03JsonRpc {
            self.put("kind", kind.into());
        }
    }
}

impl Part<'_> {
    /// The part as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        match dialect {
            Dialect::V1 => self.write_v1(&mut object),
            Dialect::V03JsonRpc => self.write_v03(&mut object),
            Dialect::V03Rest => self.write_v03_rest(&mut object),
        }
        object.raw("metadata", self.metadata.as_ref());
        if dialect != Dialect::V1 && matches!(&self.content, Content::Data(data) if !data.is_object()) {
            let metadata = object.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(metadata) = metadata {
                metadata.insert(WRAPPED_DATA.to_owned(), true.into());
            }
        }
        Value::Object(object.0)
    }

    fn write_v1(&self, object: &mut Object) {
        match &self.content {
            Content::Text(text) => object.put("text", text.as_str().into()),
            Content::Bytes(bytes) => object.put("raw", bytes.as_str().into()),
            Content::Url(url) => object.put("url", url.as_str().into()),
            Content::Data(data) => object.put("data", data.to_value()),
            Content::Unknown(kind) => object.text("kind", kind),
        }
        object.text("filename", &self.filename);
        object.text("mediaType", &self.media_type);
    }

    fn write_v03(&self, object: &mut Object) {
        match &self.content {
            Content::Text(text) => {
                object.put("kind", "text".into());
                object.put("text", text.as_str().into());
            }
            Content::Bytes(_) | Content::Url(_) => {
                object.put("kind", "file".into());
                object.put("file", self.file_json("bytes", "uri"));
            }
            Content::Data(data) => {
                object.put("kind", "data".into());
                object.put("data", object_only(data.to_value()));
            }
            Content::Unknown(kind) => object.text("kind", kind),
        }
    }

    fn write_v03_rest(&self, object: &mut Object) {
        match &self.content {
            Content::Text(text) => object.put("text", text.as_str().into()),
            Content::Bytes(_) | Content::Url(_) => {
                object.put("file", self.file_json("fileWithBytes", "fileWithUri"));
            }
            Content::Data(data) => object.put("data", json!({"data": object_only(data.to_value())})),
            Content::Unknown(kind) => object.text("kind", kind),
        }
    }

    fn file_json(&self, bytes_key: &str, url_key: &str) -> Value {
        let mut file = Object(Map::new());
        match &self.content {
            Content::Bytes(bytes) => file.put(bytes_key, bytes.as_str().into()),
            Content::Url(url) => file.put(url_key, url.as_str().into()),
            _ => {}
        }
        file.text("mimeType", &self.media_type);
        file.text("name", &self.filename);
        Value::Object(file.0)
    }
}

/// 0.3 takes only objects as data; the wrapping is the one Python's compatibility layer uses, and marks.
pub(crate) fn object_only(value: Value) -> Value {
    if value.is_object() { value } else { json!({"value": value}) }
}

fn parts_json(parts: &[Part<'_>], dialect: Dialect) -> Vec<Value> {
    parts.iter().map(|part| part.to_json(dialect)).collect()
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

impl Message<'_> {
    /// The message as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.kind("message", dialect);
        object.text("messageId", &self.message_id);
        object.text("contextId", &self.context_id);
        object.text("taskId", &self.task_id);
        object.put("role", role_name(&self.role, dialect).into());
        let parts = if dialect == Dialect::V03Rest { "content" } else { "parts" };
        object.put(parts, Value::Array(parts_json(&self.parts, dialect)));
        object.raw("metadata", self.metadata.as_ref());
        object.texts("extensions", &self.extensions);
        if dialect != Dialect::V03Rest {
            object.texts("referenceTaskIds", &self.reference_task_ids);
        }
        Value::Object(object.0)
    }
}

impl Artifact<'_> {
    /// The artifact as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.text("artifactId", &self.artifact_id);
        object.text("name", &self.name);
        object.text("description", &self.description);
        object.put("parts", Value::Array(parts_json(&self.parts, dialect)));
        object.raw("metadata", self.metadata.as_ref());
        object.texts("extensions", &self.extensions);
        Value::Object(object.0)
    }
}

impl TaskStatus<'_> {
    /// The status as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.put("state", state_name(&self.state, dialect).into());
        if let Some(message) = &self.message {
            object.put("message", message.to_json(dialect));
        }
        object.text("timestamp", &self.timestamp);
        Value::Object(object.0)
    }
}

impl Task<'_> {
    /// The task as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.kind("task", dialect);
        object.text("id", &self.id);
        object.text("contextId", &self.context_id);
        object.put("status", self.status.to_json(dialect));
        object.list("artifacts", self.artifacts.iter().map(|artifact| artifact.to_json(dialect)).collect());
        object.list("history", self.history.iter().map(|message| message.to_json(dialect)).collect());
        object.raw("metadata", self.metadata.as_ref());
        Value::Object(object.0)
    }
}

impl StatusUpdate<'_> {
    /// The update as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.kind("status-update", dialect);
        object.text("taskId", &self.task_id);
        object.text("contextId", &self.context_id);
        object.put("status", self.status.to_json(dialect));
        if dialect != Dialect::V1 {
            object.flag("final", self.is_final, dialect);
        }
        object.raw("metadata", self.metadata.as_ref());
        Value::Object(object.0)
    }
}

impl ArtifactUpdate<'_> {
    /// The update as JSON.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut object = Object::new(&self.extra);
        object.kind("artifact-update", dialect);
        object.text("taskId", &self.task_id);
        object.text("contextId", &self.context_id);
        object.put("artifact", self.artifact.to_json(dialect));
        object.flag("append", self.append, dialect);
        object.flag("lastChunk", self.last_chunk, dialect);
        object.raw("metadata", self.metadata.as_ref());
        Value::Object(object.0)
    }
}

impl StreamItem<'_> {
    /// The item as a stream carries it: wrapped in its member name, or (0.3 over JSON-RPC) bare with a `kind`.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let (name, value) = match self {
            Self::Task(task) => ("task", task.to_json(dialect)),
            Self::Message(message) => ("message", message.to_json(dialect)),
            Self::Status(update) => ("statusUpdate", update.to_json(dialect)),
            Self::Artifact(update) => ("artifactUpdate", update.to_json(dialect)),
        };
        if dialect == Dialect::V03JsonRpc { value } else { json!({ name: value }) }
    }
}
