//! [`Part`]: one part of a message or an artifact, in three spellings.
//!
//! | | 1.0 | 0.3 JSON-RPC | 0.3 REST |
//! |---|---|---|---|
//! | text | `text` | `kind: text`, `text` | `text` |
//! | bytes | `raw` | `file.bytes` | `file.fileWithBytes` |
//! | address | `url` | `file.uri` | `file.fileWithUri` |
//! | data | `data` | `kind: data`, `data` | `data.data` |
//!
//! ```text
//! {"raw":"AAEC","mediaType":"image/png"}                                1.0           ►  Bytes("AAEC"), image/png
//! {"kind":"file","file":{"bytes":"AAEC","mimeType":"image/png"}}       0.3 JSON-RPC  ►  the same
//! {"file":{"fileWithBytes":"QUFFQw==","mimeType":"image/png"}}         0.3 REST      ►  the same (encoded twice)
//! ```
//!
//! The member that is present determines the kind; `kind` is only kept for parts of unknown kind. A part is never
//! an error because of its content: unknown members and kinds are kept.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, Deserializer};

use super::object::object;
use super::text::{Extra, Raw, Text};

/// One part of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The content.
    pub content: Content<'a>,
    /// Metadata of the sender.
    pub metadata: Option<Raw<'a>>,
    /// The name of the file.
    pub filename: Text<'a>,
    /// The media type of the content.
    pub media_type: Text<'a>,
    /// Unknown members.
    pub extra: Extra<'a>,
}

/// The content of a [`Part`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content<'a> {
    /// Text.
    Text(Text<'a>),
    /// Bytes, in standard base64 with padding.
    Bytes(Text<'a>),
    /// The address of the bytes.
    Url(Text<'a>),
    /// Any JSON.
    Data(Raw<'a>),
    /// An unknown kind; its members are in [`Part::extra`]. Contains the 0.3 `kind`, if there was one.
    Unknown(Text<'a>),
}

impl<'a> Part<'a> {
    /// Returns a part with nothing beside its content.
    pub fn new(content: Content<'a>) -> Self {
        Self {
            content,
            metadata: None,
            filename: Text::default(),
            media_type: Text::default(),
            extra: Extra::default(),
        }
    }

    /// Returns a text part.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// Returns a data part.
    pub fn data(value: &serde_json::Value) -> Self {
        Self::new(Content::Data(Raw::from_value(value)))
    }

    /// Returns the text of a text part.
    pub fn as_text(&self) -> Option<&Text<'a>> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the JSON of a data part.
    pub fn data_value(&self) -> Option<serde_json::Value> {
        match &self.content {
            Content::Data(raw) => Some(raw.to_value()),
            _ => None,
        }
    }

    /// Removes the wrapper that 0.3 over REST has around data: `{"data": {"data": {…}}}`. In other dialects that would
    /// be data with a member of that name.
    pub(crate) fn unwrap_data(&mut self) {
        let Content::Data(raw) = &self.content else { return };
        if let Some(DataShape { data: Some(inner), extra }) = raw.parse::<DataShape<'_>>()
            && extra.is_empty()
        {
            let inner = inner.into_owned();
            self.content = Content::Data(self.unwrap_value(inner));
        }
    }

    /// Returns the part with owned content.
    pub fn into_owned(self) -> Part<'static> {
        let content = match self.content {
            Content::Text(text) => Content::Text(text.into_owned()),
            Content::Bytes(text) => Content::Bytes(text.into_owned()),
            Content::Url(text) => Content::Url(text.into_owned()),
            Content::Data(raw) => Content::Data(raw.into_owned()),
            Content::Unknown(kind) => Content::Unknown(kind.into_owned()),
        };
        Part {
            content,
            metadata: self.metadata.map(Raw::into_owned),
            filename: self.filename.into_owned(),
            media_type: self.media_type.into_owned(),
            extra: self.extra.into_owned(),
        }
    }
}

/// The metadata key with which a 0.3 part marks its data as wrapped (`{"value": …}`) because it is not an object.
pub(crate) const WRAPPED_DATA: &str = "data_part_compat";

object! {
    /// Data that is not an object, in the wrapper of 0.3.
    struct WrappedShape {
        value: Option<Raw<'a>> = "value",
    }

    /// A part with the members of all dialects.
    struct PartShape {
        kind: Text<'a> = "kind",
        text: Option<Text<'a>> = "text",
        raw: Option<Text<'a>> = "raw",
        url: Option<Text<'a>> = "url",
        data: Option<Raw<'a>> = "data",
        file: Option<FileShape<'a>> = "file",
        metadata: Option<Raw<'a>> = "metadata",
        filename: Text<'a> = "filename",
        media_type: Text<'a> = "mediaType" | "media_type",
    }

    /// The wrapper of 0.3 over REST around data.
    struct DataShape {
        data: Option<Raw<'a>> = "data",
    }

    /// The file object of 0.3, in both of its spellings.
    struct FileShape {
        bytes: Option<Text<'a>> = "bytes",
        uri: Option<Text<'a>> = "uri",
        proto_bytes: Option<Text<'a>> = "fileWithBytes" | "file_with_bytes",
        proto_uri: Option<Text<'a>> = "fileWithUri" | "file_with_uri",
        mime_type: Text<'a> = "mimeType" | "mime_type",
        name: Text<'a> = "name",
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PartShape::deserialize(deserializer).map(PartShape::into_part)
    }
}

impl<'a> Part<'a> {
    /// Removes the wrapper of data that is not an object, and its mark.
    pub(crate) fn unwrap_value(&mut self, data: Raw<'a>) -> Raw<'a> {
        let mark = self.metadata.as_ref().filter(|raw| raw.as_str().contains(WRAPPED_DATA));
        let Some(mut metadata) = mark.and_then(Raw::to_object) else { return data };
        let value = data.parse::<WrappedShape<'_>>().and_then(|shape| shape.value).map(Raw::into_owned);
        let (Some(value), Some(_)) = (value, metadata.remove(WRAPPED_DATA)) else { return data };
        self.metadata = Some(Raw::from_value(&metadata.into())).filter(|raw| !raw.is_empty_object());
        value
    }
}

impl<'a> PartShape<'a> {
    /// Determines the kind of content. At most one member is set in valid input; of several, the first in the
    /// order below counts.
    fn into_part(self) -> Part<'a> {
        let Self { kind, text, raw, url, data, file, metadata, filename, media_type, mut extra } = self;
        let mut part = Part {
            content: Content::Unknown(Text::default()),
            metadata: metadata.filter(|raw| !raw.is_empty_object()),
            filename,
            media_type,
            extra: Extra::default(),
        };
        // Servers that print all defaults send `"text": ""` beside the relevant member: a non-empty member takes
        // precedence, an empty text counts only if nothing else is present.
        let set = |text: &Text<'_>| !text.is_empty();
        part.content = if let Some(text) = text.clone().filter(set) {
            Content::Text(text)
        } else if let Some(raw) = raw.filter(set) {
            Content::Bytes(standard_base64(raw))
        } else if let Some(url) = url.filter(set) {
            Content::Url(url)
        } else if let Some(file) = file {
            file.fill(&mut part, &mut extra)
        } else if let Some(data) = data {
            Content::Data(part.unwrap_value(data))
        } else if let Some(text) = text {
            Content::Text(text)
        } else {
            Content::Unknown(kind)
        };
        part.extra = extra;
        part
    }
}

impl<'a> FileShape<'a> {
    /// Moves name, media type and unknown members into the part, and returns the content. A file without content
    /// is an empty one.
    fn fill(self, part: &mut Part<'a>, extra: &mut Extra<'a>) -> Content<'a> {
        if !self.name.is_empty() {
            part.filename = self.name;
        }
        if !self.mime_type.is_empty() {
            part.media_type = self.mime_type;
        }
        extra.0.extend(self.extra.0);
        if let Some(bytes) = self.bytes {
            Content::Bytes(standard_base64(bytes))
        } else if let Some(uri) = self.uri.or(self.proto_uri) {
            Content::Url(uri)
        } else if let Some(bytes) = self.proto_bytes {
            Content::Bytes(unwrap_twice_encoded(standard_base64(bytes)))
        } else {
            Content::Bytes(Text::default())
        }
    }
}

/// Padding is optional in `ProtoJSON`.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Converts base64 to its standard form: `ProtoJSON` parsers must accept url-safe and unpadded base64; frontends accept
/// neither. Text that is not base64 is kept.
fn standard_base64(text: Text<'_>) -> Text<'_> {
    let url_safe = text.contains(['-', '_']);
    if !url_safe && text.len().is_multiple_of(4) {
        return text;
    }
    let engine = if url_safe { &URL_SAFE } else { &STANDARD };
    match engine.decode(text.as_bytes()) {
        Ok(bytes) => Text(Cow::Owned(STANDARD.encode(bytes))),
        Err(_) => text,
    }
}

/// Decodes base64 that was encoded twice: Python's 0.3 servers send the base64 text of a file as its bytes, over REST
/// and gRPC. If the decoded bytes are base64 themselves, they are the intended ones. (A file of nothing but unbroken
/// base64 text is misread by this; every file of that server is misread without it.)
pub(crate) fn unwrap_twice_encoded(text: Text<'_>) -> Text<'_> {
    let inner = STANDARD.decode(text.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match inner {
        Some(inner)
            if inner.len() >= 4 && inner.len().is_multiple_of(4) && STANDARD.decode(&inner).is_ok() =>
        {
            Text(Cow::Owned(inner))
        }
        _ => text,
    }
}
