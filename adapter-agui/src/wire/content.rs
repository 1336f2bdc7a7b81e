//! The content of messages and tool results: a text, or parts with texts and media.

use aqueduct_core::ByteString;
use serde_json::Value;

use super::declare::{deserialize_strictly, object, union};
use super::object::{At, FromWire};
use crate::error::WireError;

/// A text or a list of parts.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A text.
    Text(ByteString),
    /// Parts. In tool results only from 1.0 on.
    Parts(Vec<ContentPart>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(ByteString::new())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl FromWire for Content {
    const EXPECTED: &'static str = "a string or an array of content parts";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        match value {
            Value::String(text) => Ok(Self::Text(text.into())),
            Value::Array(_) => Vec::from_wire(value, at).map(Self::Parts),
            other => Err(at.wrong(Self::EXPECTED, &other)),
        }
    }
}

impl serde::Serialize for Content {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

deserialize_strictly!(Content);

union! {
    /// One part of a content.
    pub enum ContentPart by "type" {
        /// Text.
        Text(TextPart) = "text",
        /// An image.
        Image(MediaPart) = "image",
        /// Audio.
        Audio(MediaPart) = "audio",
        /// A video.
        Video(MediaPart) = "video",
        /// Any other file.
        Document(MediaPart) = "document",
        /// A file in the spelling of 0.0.x; retired in 1.0.
        Binary(BinaryPart) = "binary",
    }
}

object! {
    /// A text part.
    pub struct TextPart {
        /// The text.
        text: ByteString = "text" @ 1,
        /// The id of the part.
        id: Option<ByteString> = "id" @ 2,
        /// Free-form metadata. Never null.
        metadata: Option<Value> = "metadata" @ 3,
    }

    /// A file part.
    pub struct MediaPart {
        /// The origin of the file's bytes.
        source: PartSource = "source" @ 1,
        /// Free-form metadata. Never null.
        metadata: Option<Value> = "metadata" @ 2,
        /// The id of the part.
        id: Option<ByteString> = "id" @ 3,
    }

    /// A file in the spelling of 0.0.x, with one of `id`, `url` and `data`.
    pub struct BinaryPart {
        /// The media type.
        mime_type: ByteString = "mimeType",
        /// A handle of the producer.
        id: Option<ByteString> = "id",
        /// The URL of the file.
        url: Option<ByteString> = "url",
        /// The bytes in base64.
        data: Option<ByteString> = "data",
        /// The name of the file.
        filename: Option<ByteString> = "filename",
    }
}

union! {
    /// The origin of a file's bytes.
    pub enum PartSource by "type" {
        /// Inline data.
        Data(DataSource) = "data",
        /// A URL.
        Url(UrlSource) = "url",
        /// A handle of a provider (from 1.0 on).
        File(FileSource) = "file",
    }
}

impl Default for PartSource {
    fn default() -> Self {
        Self::Unknown(aqueduct_core::Metadata::new())
    }
}

impl Default for ContentPart {
    fn default() -> Self {
        Self::Unknown(aqueduct_core::Metadata::new())
    }
}

object! {
    /// Inline bytes.
    pub struct DataSource {
        /// The bytes in base64.
        value: ByteString = "value" @ 1,
        /// The media type.
        mime_type: ByteString = "mimeType" @ 2,
    }

    /// Bytes at a URL.
    pub struct UrlSource {
        /// The URL.
        value: ByteString = "value" @ 1,
        /// The media type.
        mime_type: Option<ByteString> = "mimeType" @ 2,
    }

    /// Bytes that a provider stores under an opaque handle.
    pub struct FileSource {
        /// The handle.
        value: ByteString = "value" @ 1,
        /// The provider.
        provider: Option<ByteString> = "provider" @ 2,
        /// The media type.
        mime_type: Option<ByteString> = "mimeType" @ 3,
    }
}
