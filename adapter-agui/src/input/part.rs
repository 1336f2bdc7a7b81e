//! Content parts of messages as canonical blocks, and back: texts, and files in the spelling of
//! either dialect.
//!
//! A file becomes a custom block with the well-known name `FILE`:
//!
//! ```text
//! {"type":"image","source":{"type":"url","value":"https://…/a.png","mimeType":"image/png"}}      1.0
//! {"type":"binary","mimeType":"image/png","url":"https://…/a.png"}                               0.0.59
//!   -> FILE {"url":"https://…/a.png","mediaType":"image/png","kind":"image"}
//! ```
//!
//! At most one of `data`, `url` and `handle` is set; `source` holds a source of an unknown type
//! unchanged. Bytes stay base64 text: this module neither decodes nor fetches a file.

use aqueduct_core::{ByteString, ContentBlock, Metadata, wellknown};
use serde_json::{Value, json};

use crate::decode::SOURCE_NAME;
use crate::wire::{
    BinaryPart, ContentPart, DataSource, FileSource, MediaPart, PartSource, TextPart, UrlSource,
};

/// Returns the canonical form of a part.
///
/// An unknown part becomes a `RAW` block with all its members, so that nothing is dropped.
pub(super) fn canonical(part: ContentPart) -> ContentBlock {
    match part {
        ContentPart::Text(TextPart { text, .. }) => ContentBlock::text(text),
        ContentPart::Image(media) => file("image", media),
        ContentPart::Audio(media) => file("audio", media),
        ContentPart::Video(media) => file("video", media),
        ContentPart::Document(media) => file("document", media),
        ContentPart::Binary(binary) => old_file(&binary),
        ContentPart::Unknown(members) => {
            ContentBlock::custom(wellknown::RAW, json!({ "event": members, "source": SOURCE_NAME }))
        }
    }
}

/// Returns the block of a 1.0 media part. `kind` keeps the type of the part, because a media type
/// may be absent or may not determine it.
fn file(kind: &str, media: MediaPart) -> ContentBlock {
    let mut value = Metadata::new();
    let mut put = |name: &str, text: Option<ByteString>| {
        if let Some(text) = text {
            value.insert(name.to_owned(), Value::from(&*text));
        }
    };
    match media.source {
        PartSource::Data(source) => {
            put("data", Some(source.value));
            put("mediaType", Some(source.mime_type));
        }
        PartSource::Url(source) => {
            put("url", Some(source.value));
            put("mediaType", source.mime_type);
        }
        PartSource::File(source) => {
            put("handle", Some(source.value));
            put("provider", source.provider);
            put("mediaType", source.mime_type);
        }
        PartSource::Unknown(members) => {
            value.insert("source".to_owned(), Value::Object(members));
        }
    }
    // The name of a file has no member of its own in AG-UI: clients put it into the metadata.
    let named = media.metadata.as_ref().and_then(|metadata| metadata.get("filename")?.as_str());
    if let Some(name) = named {
        value.insert("name".to_owned(), Value::from(name));
    }
    value.insert("kind".to_owned(), Value::from(kind));
    if let Some(id) = media.id {
        value.insert("id".to_owned(), Value::from(&*id));
    }
    // The metadata is kept as a whole, so that `media_part` can restore the part without loss.
    if let Some(metadata) = media.metadata {
        value.insert("metadata".to_owned(), metadata);
    }
    ContentBlock::custom(wellknown::FILE, Value::Object(value))
}

/// Returns the block of a binary part of 0.0.59. Its three places are all optional, and clients
/// send empty strings for absent ones: the first filled one counts, in the order data, URL, id.
fn old_file(binary: &BinaryPart) -> ContentBlock {
    let mut value = Metadata::new();
    let filled = |text: &Option<ByteString>| text.clone().filter(|text| !text.is_empty());
    let place = filled(&binary.data)
        .map(|data| ("data", data))
        .or_else(|| filled(&binary.url).map(|url| ("url", url)))
        .or_else(|| filled(&binary.id).map(|id| ("handle", id)));
    if let Some((name, text)) = place {
        value.insert(name.to_owned(), Value::from(&*text));
    }
    value.insert("mediaType".to_owned(), Value::from(&*binary.mime_type));
    if let Some(name) = &binary.filename {
        value.insert("name".to_owned(), Value::from(&**name));
    }
    value.insert("kind".to_owned(), Value::from(kind_of(&binary.mime_type)));
    ContentBlock::custom(wellknown::FILE, Value::Object(value))
}

/// Returns the kind of 1.0 part for a media type: the part before the slash, and `document` for all
/// others (`application/pdf`, `text/plain`, none).
fn kind_of(media_type: &str) -> &'static str {
    match media_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    }
}

/// Returns `true` if both blocks are the same file: equal bytes, URL or handle, and equal type.
///
/// Names, ids and metadata are not compared: a client may send a file in both spellings, and only
/// the 1.0 spelling has them. Returns `false` if one of the blocks is not a file.
pub(super) fn same_file(a: &ContentBlock, b: &ContentBlock) -> bool {
    let place = |block: &ContentBlock| match block {
        ContentBlock::Custom(custom) if custom.name == wellknown::FILE => {
            let names = ["data", "url", "handle", "mediaType"];
            Some(names.map(|name| custom.value.get(name).cloned()))
        }
        _ => None,
    };
    let (a, b) = (place(a), place(b));
    a.is_some() && a == b
}

/// Returns the part for the value of a `FILE` block. Returns `None` if the value has neither data,
/// URL, handle nor an unknown source.
pub(super) fn media_part(value: &Value) -> Option<ContentPart> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(ByteString::from);
    let mime_type = text("mediaType");
    let source = if let Some(data) = text("data") {
        // The media type is required for inline data and optional elsewhere.
        let mime_type = mime_type.clone().unwrap_or(ByteString::from_static("application/octet-stream"));
        PartSource::Data(DataSource { value: data, mime_type, extra: None })
    } else if let Some(url) = text("url") {
        PartSource::Url(UrlSource { value: url, mime_type: mime_type.clone(), extra: None })
    } else if let Some(handle) = text("handle") {
        let provider = text("provider");
        PartSource::File(FileSource { value: handle, provider, mime_type: mime_type.clone(), extra: None })
    } else {
        PartSource::Unknown(value.get("source")?.as_object()?.clone())
    };
    let named = || text("name").map(|name| json!({ "filename": &*name }));
    // Blocks that did not come from AG-UI have a name and no metadata.
    let metadata = value.get("metadata").cloned().or_else(named);
    let media = MediaPart { source, metadata, id: text("id"), extra: None };
    let kind = text("kind").unwrap_or_default();
    let kind = if kind.is_empty() { kind_of(mime_type.as_deref().unwrap_or("")) } else { &*kind };
    Some(match kind {
        "image" => ContentPart::Image(media),
        "audio" => ContentPart::Audio(media),
        "video" => ContentPart::Video(media),
        _ => ContentPart::Document(media),
    })
}
