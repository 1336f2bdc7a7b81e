//! Content parts: texts, and files in either spelling.

use aqueduct_core::{ByteString, ContentBlock, Metadata, wellknown};
use serde_json::{Value, json};

use crate::wire::{
    BinaryPart, ContentPart, DataSource, FileSource, MediaPart, PartSource, TextPart, UrlSource,
};

/// Returns the canonical form of a part.
pub(super) fn canonical(part: ContentPart) -> ContentBlock {
    match part {
        ContentPart::Text(TextPart { text, .. }) => ContentBlock::text(text),
        ContentPart::Image(media) => file("image", media),
        ContentPart::Audio(media) => file("audio", media),
        ContentPart::Video(media) => file("video", media),
        ContentPart::Document(media) => file("document", media),
        ContentPart::Binary(binary) => old_file(&binary),
        ContentPart::Unknown(members) => {
            ContentBlock::custom(wellknown::RAW, json!({ "event": members, "source": "ag-ui" }))
        }
    }
}

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
    let named = media.metadata.as_ref().and_then(|metadata| metadata.get("filename")?.as_str());
    if let Some(name) = named {
        value.insert("name".to_owned(), Value::from(name));
    }
    value.insert("kind".to_owned(), Value::from(kind));
    if let Some(id) = media.id {
        value.insert("id".to_owned(), Value::from(&*id));
    }
    if let Some(metadata) = media.metadata {
        value.insert("metadata".to_owned(), metadata);
    }
    ContentBlock::custom(wellknown::FILE, Value::Object(value))
}

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

/// Returns the kind of part for a media type.
fn kind_of(media_type: &str) -> &'static str {
    match media_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    }
}

/// Returns `true` if both are the same file: equal bytes, URL or handle, and type.
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

/// Returns the part for a file. Returns `None` if it has neither data, URL nor handle.
pub(super) fn media_part(value: &Value) -> Option<ContentPart> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(ByteString::from);
    let mime_type = text("mediaType");
    let source = if let Some(data) = text("data") {
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
