//! Converts stream items to and from the messages of both gRPC packages.
//!
//! The wire model is the middle: a conversion from 0.3 to 1.0 is `from_v03` followed by `to_v1`. The packages
//! differ in few names, so the macro `conversions!` implements both; what differs in shape (parts)
//! is written out below it.
//!
//! | message | 1.0 | 0.3 |
//! |---|---|---|
//! | parts of a message | `parts` | `content` |
//! | message of a status | `message` | `update` |
//! | message in a stream | `message` | `msg` |
//! | cancelled state | `TASK_STATE_CANCELED` | `TASK_STATE_CANCELLED` |
//! | end of a stream | the state | the state, and `final` |
//! | part | one `oneof` with name and media type beside it | `text`, `file` or `data`; only files have a name |
//! | data of a part | any JSON | an object; other JSON is wrapped as `{"value": …}` and marked |
//!
//! Invariants:
//!
//! - No conversion fails. A value without a counterpart is kept in the nearest form (a number of an enum as its
//!   digits, text that is not base64 as its bytes) or is absent.
//! - An item that was read from JSON is the same after a conversion to either package and back, but for what
//!   protobuf cannot represent: unknown members ([`Extra`]), the format of timestamps, empty metadata, and in 0.3
//!   the media types of text and data (tested with every recorded stream).
//!
//! Not here: requests and responses ([`request`](super::request), [`answer`](super::answer)), cards, and errors.

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

/// Converts a list of protobuf strings. The strings are moved, not copied.
fn texts(list: Vec<String>) -> Vec<Text<'static>> {
    list.into_iter().map(Text::from).collect()
}

/// Copies a list of texts into protobuf strings: the messages of prost own their content.
fn strings(list: &[Text<'_>]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}

/// Encodes the bytes of a file in the form that [`Content::Bytes`] holds: standard base64 with padding.
fn base64_text(bytes: &[u8]) -> Text<'static> {
    Text::from(STANDARD.encode(bytes))
}

/// Returns the bytes of a file.
///
/// The text comes from a peer. Text that is not base64 is kept as its own bytes rather than dropped: an agent
/// that puts plain text there is readable to the receiver, and an empty file would hide the mistake.
fn base64_bytes(text: &Text<'_>) -> Vec<u8> {
    STANDARD.decode(text.as_bytes()).unwrap_or_else(|_| text.as_bytes().to_vec())
}

/// Formats a timestamp as RFC 3339 in UTC. Returns an empty text, which means "not set", if the status has none.
fn timestamp_text(time: Option<prost_types::Timestamp>) -> Text<'static> {
    time.map(|time| Text::from(time.to_string())).unwrap_or_default()
}

/// Returns a part with metadata and without a file name or media type, which the caller sets where the package
/// has them.
fn part_with(content: Content<'static>, metadata: Option<prost_types::Struct>) -> Part<'static> {
    Part { metadata: raw_metadata(metadata), ..Part::new(content) }
}

/// Returns the name of an enum value, or its number in digits if this version of the proto file has no name for
/// it.
///
/// A newer peer can send such a number. The wire model keeps it as `TaskState::Other("42")` or
/// `Role::Other("42")`, and the conversion back parses the digits again, so a proxy forwards the value unchanged.
fn enum_name(name: Option<&'static str>, number: i32) -> Cow<'static, str> {
    name.map_or_else(|| Cow::Owned(number.to_string()), Cow::Borrowed)
}

/// Implements the conversions of one package.
///
/// - `$pb`: the module of the package, [`v1`] or [`v03`].
/// - `parts`, `in_status`: the names of the fields for the parts of a message and the message of a status.
/// - `reply`: the variant of the stream's `oneof` that holds a message.
/// - `state`: the method of [`TaskState`] that returns the name of the package's enum value.
/// - `from`, `to`: the names of the public functions; `doc`: the version in their documentation.
/// - `references`: the field of a message for the tasks that it refers to, which only 1.0 has.
/// - `ends`: the field of a status update that marks the end of a stream, which only 0.3 has.
///
/// Reading consumes the message and moves its strings. Writing borrows the item, because one item can be sent to
/// several subscribers in different versions.
macro_rules! conversions {
    ($pb:ident, parts: $parts:ident, in_status: $in_status:ident, reply: $reply:ident, state: $state:ident,
     from: $from:ident, to: $to:ident, doc: $doc:literal
     $(, references: $references:ident)? $(, ends: $final:ident)?) => {
        impl StreamItem<'static> {
            #[doc = concat!("Reads an event of ", $doc, "; nothing if it is empty.")]
            pub fn $from(response: $pb::StreamResponse) -> Option<Self> {
                use $pb::stream_response::Payload;
                // An unset `oneof` is a message of a newer version, or an empty one: the caller skips it.
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

        /// `kind` and `extra` exist only in JSON and stay empty.
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

        /// Unknown members are dropped: proto3 has no place for them.
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

        /// The state is read by its name, so that both spellings of "canceled" give the same state.
        impl From<$pb::TaskStatus> for TaskStatus<'static> {
            fn from(status: $pb::TaskStatus) -> Self {
                let name = $pb::TaskState::try_from(status.state).ok().map(|state| state.as_str_name());
                Self {
                    state: TaskState::parse(enum_name(name, status.state)),
                    message: status.$in_status.map(Into::into),
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
                    // A state that arrived as a number is written as that number. A state that arrived as an
                    // unknown name has no number: it becomes 0, unspecified.
                    state: known.or_else(|| name.parse().ok()).unwrap_or_default(),
                    $in_status: status.message.as_ref().map(Into::into),
                    // A time that is not RFC 3339 (0.3 allows any ISO form) is omitted.
                    timestamp: status.timestamp.set().and_then(|time| time.parse().ok()),
                }
            }
        }

        /// A chunk and a complete artifact have the same message; `append` of the update around it distinguishes
        /// them.
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

        /// An absent `append` is `false` in protobuf: the chunk replaces the artifact (client rule 6).
        impl From<$pb::TaskArtifactUpdateEvent> for ArtifactUpdate<'static> {
            fn from(update: $pb::TaskArtifactUpdateEvent) -> Self {
                Self {
                    task_id: update.task_id.into(),
                    context_id: update.context_id.into(),
                    // The field is required by the protocol, and optional in proto3. An update without an
                    // artifact becomes one with an empty artifact.
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

        /// The role is read by its name, like a state. `parts_as_content` stays unset: it describes JSON only.
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
                    $($references: texts(message.$references),)?
                    ..Self::default()
                }
            }
        }

        impl From<&Message<'_>> for $pb::Message {
            fn from(message: &Message<'_>) -> Self {
                let known = $pb::Role::from_str_name(message.role.v1_name()).map(|role| role as i32);
                Self {
                    message_id: message.message_id.to_string(),
                    context_id: message.context_id.to_string(),
                    task_id: message.task_id.to_string(),
                    // As with states: digits are written as a number, an unknown name as unspecified.
                    role: known.or_else(|| message.role.v1_name().parse().ok()).unwrap_or_default(),
                    $parts: message.parts.iter().map(Into::into).collect(),
                    metadata: metadata_struct(message.metadata.as_ref()),
                    extensions: strings(&message.extensions),
                    // 0.3 has no field for them: they are dropped.
                    $($references: strings(&message.$references),)?
                }
            }
        }

        /// Keeps `final` of 0.3 for proxies. The decoder does not rely on it: compatibility layers leave it unset
        /// at `input-required` (client rule 10). 1.0 has no such field: the state alone ends a stream.
        impl From<$pb::TaskStatusUpdateEvent> for StatusUpdate<'static> {
            fn from(update: $pb::TaskStatusUpdateEvent) -> Self {
                Self {
                    task_id: update.task_id.into(),
                    context_id: update.context_id.into(),
                    status: update.status.map(Into::into).unwrap_or_default(),
                    $(is_final: update.$final,)?
                    metadata: raw_metadata(update.metadata),
                    ..Self::default()
                }
            }
        }

        /// Writes `final` of 0.3 as the item has it: the server sets it for clients of 0.3, which use it as the
        /// end of a stream.
        impl From<&StatusUpdate<'_>> for $pb::TaskStatusUpdateEvent {
            fn from(update: &StatusUpdate<'_>) -> Self {
                Self {
                    task_id: update.task_id.to_string(),
                    context_id: update.context_id.to_string(),
                    status: Some((&update.status).into()),
                    $($final: update.is_final,)?
                    metadata: metadata_struct(update.metadata.as_ref()),
                }
            }
        }
    };
}

conversions!(v1, parts: parts, in_status: message, reply: Message, state: v1_name,
    from: from_v1, to: to_v1, doc: "1.0", references: reference_task_ids);
conversions!(v03, parts: content, in_status: update, reply: Msg, state: v03_proto_name,
    from: from_v03, to: to_v03, doc: "0.3", ends: r#final);

/// ```text
/// Part { raw: [0, 1, 2], media_type: "image/png" }  ►  Part { content: Bytes("AAEC"), media_type: "image/png" }
/// ```
impl From<v1::Part> for Part<'static> {
    fn from(part: v1::Part) -> Self {
        use v1::part::Content as Pb;
        let content = match part.content {
            Some(Pb::Text(text)) => Content::Text(text.into()),
            Some(Pb::Raw(bytes)) => Content::Bytes(base64_text(&bytes)),
            Some(Pb::Url(url)) => Content::Url(url.into()),
            Some(Pb::Data(data)) => Content::Data(Raw::from_value(&to_json(data))),
            // A kind of content that this version of the proto file does not have.
            None => Content::Unknown(Text::default()),
        };
        Self {
            filename: part.filename.into(),
            media_type: part.media_type.into(),
            ..part_with(content, part.metadata)
        }
    }
}

/// A part of unknown kind becomes a part without content; its metadata, name and media type are kept.
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

/// Only files have a name and a media type in 0.3.
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
                        // Python's 0.3 servers put the base64 text of a file into this field instead of its
                        // bytes.
                        Content::Bytes(unwrap_twice_encoded(base64_text(&bytes)))
                    }
                    // A file without content is kept as an empty file: its name may be all that matters.
                    None => Content::Bytes(Text::default()),
                };
                Self {
                    filename: file.name.into(),
                    media_type: file.mime_type.into(),
                    ..part_with(content, part.metadata)
                }
            }
            Some(Pb::Data(data)) => {
                // The metadata must be in the part before its data is unwrapped: they contain the mark of the
                // wrapper, which is removed together with the wrapper.
                let object = Value::Object(data.data.map(object_to_json).unwrap_or_default());
                let mut part = part_with(Content::Unknown(Text::default()), part.metadata);
                part.content = Content::Data(part.unwrap_value(Raw::from_value(&object)));
                part
            }
            None => part_with(Content::Unknown(Text::default()), part.metadata),
        }
    }
}

/// Data that is not an object is wrapped as `{"value": …}`, because the field is a `Struct`. The metadata mark
/// the wrapper, so that the receiver can remove it. Python's compatibility layer writes the same.
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
                // `object_only` returns an object for every value; the other branch is not reached.
                let Value::Object(object) = object_only(data.to_value()) else { return Self::default() };
                Some(Pb::Data(v03::DataPart { data: Some(object_from_json(object)) }))
            }
            Content::Unknown(_) => None,
        };
        Self { part: content, metadata: (!metadata.is_empty()).then(|| object_from_json(metadata)) }
    }
}
