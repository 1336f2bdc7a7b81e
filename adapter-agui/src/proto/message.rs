//! The objects whose protobuf shape is not that of their JSON: unions, outcomes, content, patches.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::event::ProtoEvent;
use super::field::{ProtoField, ProtoMessage, merge};
use super::reader::Field;
use super::writer::{VARINT, write_key, write_nested, write_varint};
use crate::error::DecodeError;
use crate::wire::object::proto_message;
use crate::wire::{
    ActivityMessage, AssistantMessage, Base, BinaryPart, CancelledOutcome, Content, ContentPart, DataSource,
    InstructionMessage, InterruptOutcome, MediaPart, Message, OPERATIONS, PartSource, PatchOperation,
    ReasoningMessage, RunFinished, RunFinishedOutcome, SubagentFinished, SubagentFinishedOutcome,
    SubagentSuccessOutcome, SuccessOutcome, SuspendedOutcome, TextPart, ToolCall, ToolCallResult,
    ToolMessage, UrlSource, UserMessage,
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

    fn read(&mut self, field: &Field) -> Result<(), DecodeError> {
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

fn nested<M: ProtoMessage>(field: &Field) -> Result<M, DecodeError> {
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
            // The encoding has no place for it, and the reference implementation leaves it out as well.
            Self::Unknown(_) => return,
        };
        write_nested(tag, out, |out| part.write(arm, out));
    }

    fn read(&mut self, field: &Field) -> Result<(), DecodeError> {
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

/// A file of 0.0.x as the encoding carries it: a document that remembers what it was.
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

/// A content in two fields: one for a text, one for parts.
fn write_content(content: &Content, text: u32, parts: u32, out: &mut Vec<u8>) {
    match content {
        Content::Text(content) => content.write_present(text, out),
        Content::Parts(content) => content.write(parts, out),
    }
}

/// Appends a part to a content that has been a text until now.
fn push_part(content: &mut Content, field: &Field) -> Result<(), DecodeError> {
    if let Content::Text(text) = content {
        if !text.is_empty() {
            return Err(DecodeError::Proto("a content is a text and parts at once"));
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

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), DecodeError> {
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

/// The one shape that all kinds of message share.
#[derive(Debug, Default)]
struct FlatMessage {
    id: ByteString,
    role: ByteString,
    content: Option<ByteString>,
    name: Option<ByteString>,
    tool_calls: Vec<ToolCall>,
    tool_call_id: Option<ByteString>,
    error: Option<ByteString>,
    content_parts: Vec<ContentPart>,
    metadata: Option<Metadata>,
    subagent_run_id: Option<ByteString>,
    encrypted_value: Option<ByteString>,
    activity_type: Option<ByteString>,
    activity_content: Option<Metadata>,
}

proto_message!(FlatMessage {
    id @ 1, role @ 2, content @ 3, name @ 4, tool_calls @ 5, tool_call_id @ 6, error @ 7, content_parts @ 8,
    metadata @ 9, subagent_run_id @ 10, encrypted_value @ 11, activity_type @ 12, activity_content @ 13,
});

impl ProtoField for Message {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        FlatMessage::from(self).write(tag, out);
    }

    fn read(&mut self, field: &Field) -> Result<(), DecodeError> {
        *self = Self::from(nested::<FlatMessage>(field)?);
        Ok(())
    }
}

impl From<&Message> for FlatMessage {
    fn from(message: &Message) -> Self {
        let mut flat = Self { id: message.id().into(), role: message.kind().into(), ..Self::default() };
        flat.subagent_run_id = message.subagent_run_id().cloned();
        match message.clone() {
            Message::Developer(message) | Message::System(message) => {
                flat.content = Some(message.content);
                flat.name = message.name;
                flat.metadata = message.metadata;
                flat.encrypted_value = message.encrypted_value;
            }
            Message::Assistant(message) => {
                flat.content = message.content;
                flat.name = message.name;
                flat.tool_calls = message.tool_calls.unwrap_or_default();
                flat.metadata = message.metadata;
                flat.encrypted_value = message.encrypted_value;
            }
            Message::User(message) => {
                flat.put_content(message.content);
                flat.name = message.name;
                flat.metadata = message.metadata;
                flat.encrypted_value = message.encrypted_value;
            }
            Message::Tool(message) => {
                flat.put_content(message.content);
                flat.tool_call_id = Some(message.tool_call_id);
                flat.error = message.error;
                flat.metadata = message.metadata;
                flat.encrypted_value = message.encrypted_value;
            }
            Message::Activity(message) => {
                flat.activity_type = Some(message.activity_type);
                flat.activity_content = Some(message.content);
                flat.metadata = message.metadata;
            }
            Message::Reasoning(message) => {
                flat.content = Some(message.content);
                flat.metadata = message.metadata;
                flat.encrypted_value = message.encrypted_value;
            }
            Message::Unknown(members) => {
                flat.content = members.get("content").and_then(Value::as_str).map(ByteString::from);
            }
        }
        flat
    }
}

impl FlatMessage {
    fn put_content(&mut self, content: Content) {
        match content {
            Content::Text(text) => self.content = Some(text),
            Content::Parts(parts) => self.content_parts = parts,
        }
    }

    fn take_content(&mut self) -> Content {
        match self.content.take() {
            Some(text) => Content::Text(text),
            None => Content::Parts(
                self.content_parts
                    .drain(..)
                    .filter(|part| !matches!(part, ContentPart::Unknown(_)))
                    .collect(),
            ),
        }
    }
}

impl From<FlatMessage> for Message {
    fn from(mut flat: FlatMessage) -> Self {
        let (id, extra) = (flat.id.clone(), None);
        let subagent_run_id = flat.subagent_run_id.take();
        let (name, metadata) = (flat.name.take(), flat.metadata.take());
        let encrypted_value = flat.encrypted_value.take();
        match &*flat.role {
            "developer" | "system" => {
                let content = flat.content.unwrap_or_default();
                let message = InstructionMessage {
                    id,
                    content,
                    name,
                    metadata,
                    subagent_run_id,
                    encrypted_value,
                    extra,
                };
                if &*flat.role == "system" { Self::System(message) } else { Self::Developer(message) }
            }
            "assistant" => Self::Assistant(AssistantMessage {
                id,
                content: flat.content,
                name,
                tool_calls: Some(flat.tool_calls).filter(|calls| !calls.is_empty()),
                metadata,
                subagent_run_id,
                encrypted_value,
                extra,
            }),
            "user" => {
                let content = flat.take_content();
                Self::User(UserMessage {
                    id,
                    content,
                    name,
                    metadata,
                    subagent_run_id,
                    encrypted_value,
                    extra,
                })
            }
            "tool" => Self::Tool(ToolMessage {
                id,
                content: flat.take_content(),
                tool_call_id: flat.tool_call_id.unwrap_or_default(),
                error: flat.error,
                metadata,
                subagent_run_id,
                encrypted_value,
                extra,
            }),
            "activity" => Self::Activity(ActivityMessage {
                id,
                metadata,
                subagent_run_id,
                activity_type: flat.activity_type.unwrap_or_default(),
                content: flat.activity_content.unwrap_or_default(),
                extra,
            }),
            "reasoning" => {
                let content = flat.content.unwrap_or_default();
                Self::Reasoning(ReasoningMessage {
                    id,
                    content,
                    metadata,
                    subagent_run_id,
                    encrypted_value,
                    extra,
                })
            }
            role => {
                let mut members = Metadata::new();
                members.insert("id".to_owned(), Value::from(&*id));
                members.insert("role".to_owned(), Value::from(role));
                if let Some(content) = flat.content {
                    members.insert("content".to_owned(), Value::from(&*content));
                }
                Self::Unknown(members)
            }
        }
    }
}

impl ProtoEvent for RunFinished {
    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }

    fn write_own(&self, out: &mut Vec<u8>) {
        self.thread_id.write(2, out);
        self.run_id.write(3, out);
        self.result.write(4, out);
        if let Some(outcome) = &self.outcome {
            ByteString::from(outcome.kind()).write(5, out);
        }
        if let Some(RunFinishedOutcome::Interrupt(outcome)) = &self.outcome {
            outcome.interrupts.write(6, out);
        }
        self.usage.write(7, out);
        if let Some(RunFinishedOutcome::Success(outcome)) = &self.outcome {
            outcome.pending_tool_call_ids.write(8, out);
        }
    }

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), DecodeError> {
        match (number, &mut self.outcome) {
            (2, _) => self.thread_id.read(field),
            (3, _) => self.run_id.read(field),
            (4, _) => self.result.read(field),
            (5, outcome) => {
                *outcome = run_outcome(&field.text()?);
                Ok(())
            }
            (6, Some(RunFinishedOutcome::Interrupt(outcome))) => outcome.interrupts.read(field),
            (7, _) => self.usage.read(field),
            (8, Some(RunFinishedOutcome::Success(outcome))) => outcome.pending_tool_call_ids.read(field),
            (6 | 8, _) => Err(DecodeError::Proto("an outcome has what belongs to another outcome")),
            _ => Ok(()),
        }
    }
}

/// The outcome of that name, still empty. Its list follows: all writers put fields in the order of numbers.
fn run_outcome(kind: &str) -> Option<RunFinishedOutcome> {
    match kind {
        "" => None,
        "success" => Some(RunFinishedOutcome::Success(SuccessOutcome::default())),
        "interrupt" => Some(RunFinishedOutcome::Interrupt(InterruptOutcome::default())),
        "cancelled" => Some(RunFinishedOutcome::Cancelled(CancelledOutcome::default())),
        other => Some(RunFinishedOutcome::Unknown(only_type(other))),
    }
}

fn only_type(kind: &str) -> Metadata {
    Metadata::from_iter([("type".to_owned(), Value::from(kind))])
}

impl ProtoEvent for SubagentFinished {
    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }

    fn write_own(&self, out: &mut Vec<u8>) {
        self.subagent_run_id.write(2, out);
        self.result.write(3, out);
        if let Some(outcome) = &self.outcome {
            ByteString::from(outcome.kind()).write(4, out);
        }
        if let Some(SubagentFinishedOutcome::Suspended(outcome)) = &self.outcome {
            outcome.interrupt_ids.write(5, out);
        }
    }

    fn read_own(&mut self, number: u32, field: &Field) -> Result<(), DecodeError> {
        match (number, &mut self.outcome) {
            (2, _) => self.subagent_run_id.read(field),
            (3, _) => self.result.read(field),
            (4, outcome) => {
                *outcome = match &*field.text()? {
                    "" => None,
                    "success" => Some(SubagentFinishedOutcome::Success(SubagentSuccessOutcome::default())),
                    "suspended" => Some(SubagentFinishedOutcome::Suspended(SuspendedOutcome::default())),
                    other => Some(SubagentFinishedOutcome::Unknown(only_type(other))),
                };
                Ok(())
            }
            (5, Some(SubagentFinishedOutcome::Suspended(outcome))) => outcome.interrupt_ids.read(field),
            (5, _) => Err(DecodeError::Proto("an outcome has what belongs to another outcome")),
            _ => Ok(()),
        }
    }
}

impl ProtoMessage for PatchOperation {
    fn write_fields(&self, out: &mut Vec<u8>) {
        let number = OPERATIONS.iter().position(|op| *op == self.op()).unwrap_or_default();
        if number != 0 {
            write_key(1, VARINT, out);
            write_varint(number as u64, out);
        }
        ByteString::from(self.path()).write(2, out);
        if let Some(from) = self.0.get("from").and_then(Value::as_str) {
            ByteString::from(from).write_present(3, out);
        }
        if let Some(value) = self.0.get("value") {
            value.write(4, out);
        }
    }

    fn read_field(&mut self, number: u32, field: &Field) -> Result<(), DecodeError> {
        let (name, value) = match number {
            1 => {
                let op = usize::try_from(field.varint()?).ok().and_then(|number| OPERATIONS.get(number));
                let op = op.ok_or(DecodeError::Proto("a patch operation has an unknown number"))?;
                ("op", Value::from(*op))
            }
            2 => ("path", Value::from(&*field.text()?)),
            3 => ("from", Value::from(&*field.text()?)),
            4 => ("value", super::json::read_value(field.message()?)?),
            _ => return Ok(()),
        };
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

impl ProtoField for PatchOperation {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| self.write_fields(out));
    }

    fn read(&mut self, field: &Field) -> Result<(), DecodeError> {
        // `add` is number 0 and `""` the default path: neither is on the wire.
        self.0.insert("op".to_owned(), Value::from(OPERATIONS[0]));
        self.0.insert("path".to_owned(), Value::from(""));
        merge(self, field.message()?)
    }
}
