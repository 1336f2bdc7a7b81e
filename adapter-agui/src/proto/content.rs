//! Content in its protobuf form: parts and sources as unions; text and parts in two fields.
//!
//! Content is text or a list of parts, in two fields of which one is set. An empty list and an empty text are different, as in JSON.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::event::ProtoEvent;
use super::field::{ProtoField, ProtoMessage, merge};
use super::reader::Field;
use super::writer::write_nested;
use crate::error::Error;
use crate::wire::{
    Base, BinaryPart, Content, ContentPart, DataSource, MediaPart, PartSource, TextPart, ToolCallResult,
    UrlSource,
};

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

pub(super) fn nested<M: ProtoMessage>(field: &Field) -> Result<M, Error> {
    let mut message = M::default();
    merge(&mut message, field.message()?)?;
    Ok(message)
}

impl ProtoField for ContentPart {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        let (arm, part): (u32, &dyn ProtoField) = match self {
            Self::Text(part) => (1, part),
            Self::Image(part) => (2, part),
            Self::Audio(part) => (3, part),
            Self::Video(part) => (4, part),
            Self::Document(part) => (5, part),
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

/// Returns a file of 0.0.x in the form of the encoding: a document that keeps its old members.
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

/// Writes content into two fields: one for text, one for parts.
fn write_content(content: &Content, text: u32, parts: u32, out: &mut Vec<u8>) {
    match content {
        Content::Text(content) => content.write_present(text, out),
        Content::Parts(content) => content.write(parts, out),
    }
}

/// Appends a part to content that has been text until now.
fn push_part(content: &mut Content, field: &Field) -> Result<(), Error> {
    if let Content::Text(text) = content {
        if !text.is_empty() {
            return Err(Error::Proto("a content is a text and parts at once"));
        }
        *content = Content::Parts(Vec::new());
    }
    if let Content::Parts(parts) = content {
        parts.read(field)?;
        parts.retain(|part| !matches!(part, ContentPart::Unknown(_)));
    }
    Ok(())
}

impl ProtoEvent for ToolCallResult {
    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }

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
