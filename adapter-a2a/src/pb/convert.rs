//! Converts stream items to and from the messages of both packages. The two differ in few names, so one macro
//! implements both.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::value::{from_json, metadata_struct, object_from_json, object_to_json, raw_metadata, to_json};
use super::{v1, v03};
use crate::wire::part::{WRAPPED_DATA, unwrap_twice_encoded};
use crate::wire::write::object_only;
use crate::wire::{
    Artifact, ArtifactUpdate, Content, Extra, Message, Part, Raw, Role, StatusUpdate, StreamItem, Task,
    TaskState, TaskStatus, Text,
};

fn texts(list: Vec<String>) -> Vec<Text<'static>> {
    list.into_iter().map(Text::from).collect()
}

fn strings(list: &[Text<'_>]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}

fn base64_text(bytes: &[u8]) -> Text<'static> {
    Text::from(STANDARD.encode(bytes))
}

/// Returns the bytes of a file. Text that is not base64 is kept as its own bytes, rather than dropped.
fn base64_bytes(text: &Text<'_>) -> Vec<u8> {
    STANDARD.decode(text.as_bytes()).unwrap_or_else(|_| text.as_bytes().to_vec())
}

fn timestamp_text(time: Option<prost_types::Timestamp>) -> Text<'static> {
    time.map(|time| Text::from(time.to_string())).unwrap_or_default()
}

fn part_with(content: Content<'static>, metadata: Option<prost_types::Struct>) -> Part<'static> {
    Part { metadata: raw_metadata(metadata), ..Part::new(content) }
}

/// Returns the name of an enum value, or its number if it has no name, so that it is not lost.
fn enum_name(name: Option<&'static str>, number: i32) -> Cow<'static, str> {
    name.map_or_else(|| Cow::Owned(number.to_string()), Cow::Borrowed)
}

macro_rules! conversions {
    ($pb:ident, parts: $parts:ident, said: $said:ident, reply: $reply:ident, state: $state:ident,
     from: $from:ident, to: $to:ident, doc: $doc:literal) => {
        impl StreamItem<'static> {
            #[doc = concat!("Reads an event of ", $doc, "; nothing if it is empty.")]
            pub fn $from(response: $pb::StreamResponse) -> Option<Self> {
                use $pb::stream_response::Payload;
                Some(match response.payload? {
                    Payload::Task(task) => Self::Task(task.into()),
                    Payload::$reply(message) => Self::Message(message.into()),
                    Payload::StatusUpdate(update) => Self::Status(update.into()),
                    Payload::ArtifactUpdate(update) => Self::Artifact(update.into()),
                })
            }
        }

        impl StreamItem<'_> {
            #[doc = concat!("Writes an event of ", $doc, ".")]
            pub fn $to(&self) -> $pb::StreamResponse {
                use $pb::stream_response::Payload;
                let payload = match self {
                    Self::Task(task) => Payload::Task(task.into()),
                    Self::Message(message) => Payload::$reply(message.into()),
                    Self::Status(update) => Payload::StatusUpdate(update.into()),
                    Self::Artifact(update) => Payload::ArtifactUpdate(update.into()),
                };
                $pb::StreamResponse { payload: Some(payload) }
            }
        }

        impl From<$pb::Task> for Task<'static> {
            fn from(task: $pb::Task) -> Self {
                Self {
                    id: task.id.into(),
                    context_id: task.context_id.into(),
                    status: task.status.map(Into::into).unwrap_or_default(),
                    artifacts: task.artifacts.into_iter().map(Into::into).collect(),
                    history: task.history.into_iter().map(Into::into).collect(),
                    metadata: raw_metadata(task.metadata),
                    ..Self::default()
                }
            }
        }

        impl From<&Task<'_>> for $pb::Task {
            fn from(task: &Task<'_>) -> Self {
                Self {
                    id: task.id.to_string(),
                    context_id: task.context_id.to_string(),
                    status: Some((&task.status).into()),
                    artifacts: task.artifacts.iter().map(Into::into).collect(),
                    history: task.history.iter().map(Into::into).collect(),
                    metadata: metadata_struct(task.metadata.as_ref()),
                }
            }
        }

        impl From<$pb::TaskStatus> for TaskStatus<'static> {
            fn from(status: $pb::TaskStatus) -> Self {
                let name = $pb::TaskState::try_from(status.state).ok().map(|state| state.as_str_name());
                Self {
                    state: TaskState::parse(enum_name(name, status.state)),
                    message: status.$said.map(Into::into),
                    timestamp: timestamp_text(status.timestamp),
                    extra: Extra::default(),
                }
            }
        }

        impl From<&TaskStatus<'_>> for $pb::TaskStatus {
            fn from(status: &TaskStatus<'_>) -> Self {
                let name = status.state.$state();
                let known = $pb::TaskState::from_str_name(name).map(|state| state as i32);
                Self {
                    // A state without a number stays unspecified, unless it arrived as a number.
                    state: known.or_else(|| name.parse().ok()).unwrap_or_default(),
                    $said: status.message.as_ref().map(Into::into),
                    timestamp: status.timestamp.set().and_then(|time| time.parse().ok()),
                }
            }
        }

        impl From<$pb::Artifact> for Artifact<'static> {
            fn from(artifact: $pb::Artifact) -> Self {
                Self {
                    artifact_id: artifact.artifact_id.into(),
                    name: artifact.name.into(),
                    description: artifact.description.into(),
                    parts: artifact.parts.into_iter().map(Into::into).collect(),
                    metadata: raw_metadata(artifact.metadata),
                    extensions: texts(artifact.extensions),
                    extra: Extra::default(),
                }
            }
        }

        impl From<&Artifact<'_>> for $pb::Artifact {
            fn from(artifact: &Artifact<'_>) -> Self {
                Self {
                    artifact_id: artifact.artifact_id.to_string(),
                    name: artifact.name.to_string(),
                    description: artifact.description.to_string(),
                    parts: artifact.parts.iter().map(Into::into).collect(),
                    metadata: metadata_struct(artifact.metadata.as_ref()),
                    extensions: strings(&artifact.extensions),
                }
            }
        }

        impl From<$pb::TaskArtifactUpdateEvent> for ArtifactUpdate<'static> {
            fn from(update: $pb::TaskArtifactUpdateEvent) -> Self {
                Self {
                    task_id: update.task_id.into(),
                    context_id: update.context_id.into(),
                    artifact: update.artifact.map(Into::into).unwrap_or_default(),
                    append: update.append,
                    last_chunk: update.last_chunk,
                    metadata: raw_metadata(update.metadata),
                    ..Self::default()
                }
            }
        }

        impl From<&ArtifactUpdate<'_>> for $pb::TaskArtifactUpdateEvent {
            fn from(update: &ArtifactUpdate<'_>) -> Self {
                Self {
                    task_id: update.task_id.to_string(),
                    context_id: update.context_id.to_string(),
                    artifact: Some((&update.artifact).into()),
                    append: update.append,
                    last_chunk: update.last_chunk,
                    metadata: metadata_struct(update.metadata.as_ref()),
                }
            }
        }

        impl From<$pb::Message> for Message<'static> {
            fn from(message: $pb::Message) -> Self {
                let name = $pb::Role::try_from(message.role).ok().map(|role| role.as_str_name());
                Self {
                    message_id: message.message_id.into(),
                    context_id: message.context_id.into(),
                    task_id: message.task_id.into(),
                    role: Role::parse(enum_name(name, message.role)),
                    parts: message.$parts.into_iter().map(Into::into).collect(),
                    metadata: raw_metadata(message.metadata),
                    extensions: texts(message.extensions),
                    ..Self::default()
                }
            }
        }

        impl $pb::Message {
            #[allow(clippy::needless_update, reason = "only one of the two has more fields")]
            fn of(message: &Message<'_>) -> Self {
                let known = $pb::Role::from_str_name(message.role.v1_name()).map(|role| role as i32);
                Self {
                    message_id: message.message_id.to_string(),
                    context_id: message.context_id.to_string(),
                    task_id: message.task_id.to_string(),
                    role: known.or_else(|| message.role.v1_name().parse().ok()).unwrap_or_default(),
                    $parts: message.parts.iter().map(Into::into).collect(),
                    metadata: metadata_struct(message.metadata.as_ref()),
                    extensions: strings(&message.extensions),
                    ..Self::default()
                }
            }
        }
    };
}

conversions!(v1, parts: parts, said: message, reply: Message, state: v1_name, from: from_v1, to: to_v1, doc: "1.0");
conversions!(v03, parts: content, said: update, reply: Msg, state: v03_proto_name, from: from_v03, to: to_v03, doc: "0.3");

impl From<&Message<'_>> for v1::Message {
    fn from(message: &Message<'_>) -> Self {
        Self { reference_task_ids: strings(&message.reference_task_ids), ..Self::of(message) }
    }
}

impl From<&Message<'_>> for v03::Message {
    fn from(message: &Message<'_>) -> Self {
        Self::of(message)
    }
}

impl From<v1::TaskStatusUpdateEvent> for StatusUpdate<'static> {
    fn from(update: v1::TaskStatusUpdateEvent) -> Self {
        Self {
            task_id: update.task_id.into(),
            context_id: update.context_id.into(),
            status: update.status.map(Into::into).unwrap_or_default(),
            metadata: raw_metadata(update.metadata),
            ..Self::default()
        }
    }
}

impl From<&StatusUpdate<'_>> for v1::TaskStatusUpdateEvent {
    fn from(update: &StatusUpdate<'_>) -> Self {
        Self {
            task_id: update.task_id.to_string(),
            context_id: update.context_id.to_string(),
            status: Some((&update.status).into()),
            metadata: metadata_struct(update.metadata.as_ref()),
        }
    }
}

impl From<v03::TaskStatusUpdateEvent> for StatusUpdate<'static> {
    fn from(update: v03::TaskStatusUpdateEvent) -> Self {
        Self {
            task_id: update.task_id.into(),
            context_id: update.context_id.into(),
            status: update.status.map(Into::into).unwrap_or_default(),
            is_final: update.r#final,
            metadata: raw_metadata(update.metadata),
            ..Self::default()
        }
    }
}

impl From<&StatusUpdate<'_>> for v03::TaskStatusUpdateEvent {
    fn from(update: &StatusUpdate<'_>) -> Self {
        Self {
            task_id: update.task_id.to_string(),
            context_id: update.context_id.to_string(),
            status: Some((&update.status).into()),
            r#final: update.is_final,
            metadata: metadata_struct(update.metadata.as_ref()),
        }
    }
}

impl From<v1::Part> for Part<'static> {
    fn from(part: v1::Part) -> Self {
        use v1::part::Content as Pb;
        let content = match part.content {
            Some(Pb::Text(text)) => Content::Text(text.into()),
            Some(Pb::Raw(bytes)) => Content::Bytes(base64_text(&bytes)),
            Some(Pb::Url(url)) => Content::Url(url.into()),
            Some(Pb::Data(data)) => Content::Data(Raw::from_value(&to_json(data))),
            None => Content::Unknown(Text::default()),
        };
        Self {
            filename: part.filename.into(),
            media_type: part.media_type.into(),
            ..part_with(content, part.metadata)
        }
    }
}

impl From<&Part<'_>> for v1::Part {
    fn from(part: &Part<'_>) -> Self {
        use v1::part::Content as Pb;
        let content = match &part.content {
            Content::Text(text) => Some(Pb::Text(text.to_string())),
            Content::Bytes(bytes) => Some(Pb::Raw(base64_bytes(bytes))),
            Content::Url(url) => Some(Pb::Url(url.to_string())),
            Content::Data(data) => Some(Pb::Data(from_json(data.to_value()))),
            Content::Unknown(_) => None,
        };
        Self {
            content,
            metadata: metadata_struct(part.metadata.as_ref()),
            filename: part.filename.to_string(),
            media_type: part.media_type.to_string(),
        }
    }
}

impl From<v03::Part> for Part<'static> {
    fn from(part: v03::Part) -> Self {
        use v03::file_part::File;
        use v03::part::Part as Pb;
        match part.part {
            Some(Pb::Text(text)) => part_with(Content::Text(text.into()), part.metadata),
            Some(Pb::File(file)) => {
                let content = match file.file {
                    Some(File::FileWithUri(url)) => Content::Url(url.into()),
                    Some(File::FileWithBytes(bytes)) => {
                        Content::Bytes(unwrap_twice_encoded(base64_text(&bytes)))
                    }
                    None => Content::Bytes(Text::default()),
                };
                Self {
                    filename: file.name.into(),
                    media_type: file.mime_type.into(),
                    ..part_with(content, part.metadata)
                }
            }
            Some(Pb::Data(data)) => {
                let object = Value::Object(data.data.map(object_to_json).unwrap_or_default());
                let mut part = part_with(Content::Unknown(Text::default()), part.metadata);
                part.content = Content::Data(part.unwrap_value(Raw::from_value(&object)));
                part
            }
            None => part_with(Content::Unknown(Text::default()), part.metadata),
        }
    }
}

impl From<&Part<'_>> for v03::Part {
    fn from(part: &Part<'_>) -> Self {
        use v03::file_part::File;
        use v03::part::Part as Pb;
        let file = |file| {
            let (mime_type, name) = (part.media_type.to_string(), part.filename.to_string());
            Pb::File(v03::FilePart { file: Some(file), mime_type, name })
        };
        let mut metadata = part.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
        let content = match &part.content {
            Content::Text(text) => Some(Pb::Text(text.to_string())),
            Content::Bytes(bytes) => Some(file(File::FileWithBytes(base64_bytes(bytes)))),
            Content::Url(url) => Some(file(File::FileWithUri(url.to_string()))),
            Content::Data(data) => {
                if !data.is_object() {
                    metadata.insert(WRAPPED_DATA.to_owned(), true.into());
                }
                let Value::Object(object) = object_only(data.to_value()) else { return Self::default() };
                Some(Pb::Data(v03::DataPart { data: Some(object_from_json(object)) }))
            }
            Content::Unknown(_) => None,
        };
        Self { part: content, metadata: (!metadata.is_empty()).then(|| object_from_json(metadata)) }
    }
}
