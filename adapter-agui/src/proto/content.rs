//! Content in its protobuf form: parts and sources as unions; text and parts in two fields.
//!
//! A union (`oneof`) is a message with one field, whose number identifies the variant:
//!
//! ```text
//! {"type":"text","text":"Hi"}           -> part { 1: TextPart }
//! {"type":"image","source":{…}}         -> part { 2: MediaPart { source { 1: data | 2: url | 3: file } } }
//! ```
//!
//! Content is text or a list of parts, in two fields of which one is set. A text is written even if
//! it is empty, so that an empty text and an empty list differ after reading, as in JSON. Unknown
//! variants are skipped in both directions: the schema has no field for them.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::event::ProtoEvent;
use super::field::{ProtoField, ProtoMessage, merge};
use super::reader::Field;
use super::writer::write_nested;
use crate::error::Error;
use crate::wire::{
    BinaryPart, Content, ContentPart, DataSource, MediaPart, PartSource, TextPart, ToolCallResult, UrlSource,
};

/// The source of a file. If a writer sets several fields of the union, the last one counts, as
/// protobuf requires it.
impl ProtoField for PartSource {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| match self {
            Self::Data(source) => source.write(1, out),
            Self::Url(source) => source.write(2, out),
            Self::File(source) => source.write(3, out),
            Self::Unknown(_) => {}
        });
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        let mut reader = field.message()?;
        while let Some((number, field)) = reader.next()? {
            *self = match number {
                1 => Self::Data(nested(&field)?),
                2 => Self::Url(nested(&field)?),
                3 => Self::File(nested(&field)?),
                _ => continue,
            };
        }
        Ok(())
    }
}

/// Returns a nested message that starts from its default. The trait's `read` merges into an
/// existing value instead, which is wrong for a union: the variant before may have been another
/// one.
pub(super) fn nested<M: ProtoMessage>(field: &Field) -> Result<M, Error> {
    let mut message = M::default();
    merge(&mut message, field.message()?)?;
    Ok(message)
}

/// A content part. A field with an unknown number leaves the part at its default, `Unknown` without
/// members; the readers of lists remove such parts.
impl ProtoField for ContentPart {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        let (arm, part): (u32, &dyn ProtoField) = match self {
            Self::Text(part) => (1, part),
            Self::Image(part) => (2, part),
            Self::Audio(part) => (3, part),
            Self::Video(part) => (4, part),
            Self::Document(part) => (5, part),
            // A binary part without data, URL or id has nothing to refer to and is omitted.
            Self::Binary(part) => {
                if let Some(part) = modern(part) {
                    write_nested(tag, out, |out| part.write(5, out));
                }
                return;
            }
            // The encoding has no form for it, and the reference implementation omits it as well.
            Self::Unknown(_) => return,
        };
        write_nested(tag, out, |out| part.write(arm, out));
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        let mut reader = field.message()?;
        while let Some((number, field)) = reader.next()? {
            *self = match number {
                1 => Self::Text(nested::<TextPart>(&field)?),
                2 => Self::Image(nested(&field)?),
                3 => Self::Audio(nested(&field)?),
                4 => Self::Video(nested(&field)?),
                5 => Self::Document(nested(&field)?),
                _ => continue,
            };
        }
        Ok(())
    }
}

/// Returns a binary part of 0.0.x in the form of the encoding: a document that keeps the old
/// members as metadata, with the mark `legacyBinary`. Returns `None` if no place is filled.
///
/// The bytes equal those of `@ag-ui/proto`, which has no field for binary parts either.
fn modern(part: &BinaryPart) -> Option<MediaPart> {
    let filled = |text: &Option<ByteString>| text.clone().filter(|text| !text.is_empty());
    let source = if let Some(value) = filled(&part.data) {
        PartSource::Data(DataSource { value, mime_type: part.mime_type.clone(), extra: None })
    } else {
        let value = filled(&part.url).or_else(|| filled(&part.id))?;
        PartSource::Url(UrlSource { value, mime_type: Some(part.mime_type.clone()), extra: None })
    };
    let mut metadata = Metadata::new();
    metadata.insert("legacyBinary".to_owned(), Value::Bool(true));
    for (name, value) in [("filename", &part.filename), ("id", &part.id)] {
        if let Some(value) = value {
            metadata.insert(name.to_owned(), Value::from(&**value));
        }
    }
    Some(MediaPart { source, metadata: Some(Value::Object(metadata)), id: None, extra: None })
}

/// Writes content into one of two fields: number `text` for a text, number `parts` for each part.
fn write_content(content: &Content, text: u32, parts: u32, out: &mut Vec<u8>) {
    match content {
        Content::Text(content) => content.write_present(text, out),
        Content::Parts(content) => content.write(parts, out),
    }
}

/// Appends a part to content that has been text until now.
///
/// A message starts with empty text as its default, which the first part replaces. A text with
/// content before it is an error: no writer sets both fields.
fn push_part(content: &mut Content, field: &Field) -> Result<(), Error> {
    if let Content::Text(text) = content {
        if !text.is_empty() {
            return Err(Error::Proto("a content is a text and parts at once"));
        }
        *content = Content::Parts(Vec::new());
    }
    if let Content::Parts(parts) = content {
        parts.read(field)?;
        // A part of an unknown kind has no members here; keeping it would show an empty part to the client.
        parts.retain(|part| !matches!(part, ContentPart::Unknown(_)));
    }
    Ok(())
}

/// Implemented by hand, because the content is in one of two fields (5 or 7) around the role (6).
/// Fields are written in the order of their numbers, as the reference implementation does.
impl ProtoEvent for ToolCallResult {
    fn write_own(&self, out: &mut Vec<u8>) {
        self.subagent_run_id.write(2, out);
        self.message_id.write(3, out);
        self.tool_call_id.write(4, out);
        if let Content::Text(_) = self.content {
            write_content(&self.content, 5, 7, out);
        }
        self.role.write(6, out);
        if let Content::Parts(_) = self.content {
            write_content(&self.content, 5, 7, out);
        }
    }

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), Error> {
        match number {
            2 => self.subagent_run_id.read(field),
            3 => self.message_id.read(field),
            4 => self.tool_call_id.read(field),
            5 => {
                self.content = Content::Text(field.text()?);
                Ok(())
            }
            6 => self.role.read(field),
            7 => push_part(&mut self.content, field),
            _ => Ok(()),
        }
    }
}
