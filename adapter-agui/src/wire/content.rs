//! What messages and tool results hold: a text, or parts with texts and media.

use aqueduct_core::ByteString;
use serde_json::Value;

use super::declare::{deserialize_strictly, object, union};
use super::object::{At, FromWire, MaybeAbsent};
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

impl MaybeAbsent for Content {}

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
        /// Words.
        Text(TextPart) = "text",
        /// A picture.
        Image(MediaPart) = "image",
        /// Sound.
        Audio(MediaPart) = "audio",
        /// Moving pictures.
        Video(MediaPart) = "video",
        /// Any other file.
        Document(MediaPart) = "document",
        /// A file in the spelling of 0.0.x; retired in 1.0.
        Binary(BinaryPart) = "binary",
    }
}

object! {
    /// Words.
    pub struct TextPart {
        /// The words.
        text: ByteString = "text" @ 1,
        /// Its id.
        id: Option<ByteString> = "id" @ 2,
        /// Free data. Never null.
        metadata: Option<Value> = "metadata" @ 3,
    }
}

object! {
    /// A file.
    pub struct MediaPart {
        /// Where its bytes are.
        source: PartSource = "source" @ 1,
        /// Free data. Never null.
        metadata: Option<Value> = "metadata" @ 2,
        /// Its id.
        id: Option<ByteString> = "id" @ 3,
    }
}

object! {
    /// A file in the spelling of 0.0.x: one of `id`, `url` and `data` is there.
    pub struct BinaryPart {
        /// Its media type.
        mime_type: ByteString = "mimeType",
        /// A handle that the producer knows.
        id: Option<ByteString> = "id",
        /// Where it can be fetched.
        url: Option<ByteString> = "url",
        /// Its bytes in base64.
        data: Option<ByteString> = "data",
        /// Its name.
        filename: Option<ByteString> = "filename",
    }
}

union! {
    /// Where the bytes of a file are.
    pub enum PartSource by "type" {
        /// Here.
        Data(DataSource) = "data",
        /// At an address.
        Url(UrlSource) = "url",
        /// With a provider, under a handle (from 1.0 on).
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
    /// Bytes inline.
    pub struct DataSource {
        /// The bytes in base64.
        value: ByteString = "value" @ 1,
        /// Their media type.
        mime_type: ByteString = "mimeType" @ 2,
    }
}

object! {
    /// Bytes at an address.
    pub struct UrlSource {
        /// The address.
        value: ByteString = "value" @ 1,
        /// Their media type.
        mime_type: Option<ByteString> = "mimeType" @ 2,
    }
}

object! {
    /// Bytes that a provider keeps. The handle is opaque.
    pub struct FileSource {
        /// The handle.
        value: ByteString = "value" @ 1,
        /// The provider.
        provider: Option<ByteString> = "provider" @ 2,
        /// Their media type.
        mime_type: Option<ByteString> = "mimeType" @ 3,
    }
}
