//! The encoding of messages: one protobuf message for all roles.
//!
//! The protobuf schema has one message with the fields of all roles; JSON has one object per role.
//! `FlatMessage` is that protobuf message, and the two `From` implementations below are the only
//! places that relate it to the wire types:
//!
//! ```text
//! Message::Assistant { id: "m", content: "Hi", tool_calls: None }
//!   -> FlatMessage { id: "m", role: "assistant", content: Some("Hi"), tool_calls: [] }   fields 1, 2, 3
//! Message::Tool { id: "r", content: Parts([..]), tool_call_id: "c" }
//!   -> FlatMessage { id: "r", role: "tool", tool_call_id: "c", content_parts: [..] }     fields 1, 2, 6, 8
//! ```
//!
//! Writing sets only the fields of the role. Reading ignores fields that the role does not have,
//! and keeps a message of an unknown role as JSON.
//!
//! The encoding loses undeclared members (`extra` is always `None` after reading), and of a message
//! of an unknown role all members except `id`, `role` and a textual `content`.

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::content::nested;
use super::field::ProtoField;
use super::reader::Field;
use crate::error::Error;
use crate::wire::declare::proto_message;
use crate::wire::{
    ActivityMessage, AssistantMessage, Content, ContentPart, InstructionMessage, Message, ReasoningMessage,
    ToolCall, ToolMessage, UserMessage,
};

/// The common form of all kinds of message: `Message` of the protobuf schema.
///
/// A field that the role does not have stays at its default, which is not written: `None`, an empty
/// list, or an empty text.
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

/// A message as a field of a list: written and read by way of `FlatMessage`.
impl ProtoField for Message {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        FlatMessage::from(self).write(tag, out);
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        // The role arrives as a field among others, so the whole message is read before its kind is known.
        *self = Self::from(nested::<FlatMessage>(field)?);
        Ok(())
    }
}

impl From<&Message> for FlatMessage {
    fn from(message: &Message) -> Self {
        // Id, role and tag are members of every role. Cloning the message shares its texts.
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
            // Only a textual content has a field. Other members of an unknown role have no form here.
            Message::Unknown(members) => {
                flat.content = members.get("content").and_then(Value::as_str).map(ByteString::from);
            }
        }
        flat
    }
}

impl FlatMessage {
    /// Sets the text or the parts: the protobuf message has separate fields for them.
    ///
    /// An empty text is set as `Some("")` and is written, so that it differs from an empty list of
    /// parts after reading.
    fn put_content(&mut self, content: Content) {
        match content {
            Content::Text(text) => self.content = Some(text),
            Content::Parts(parts) => self.content_parts = parts,
        }
    }

    /// Returns the text if it is set, and the parts otherwise.
    ///
    /// A part that the schema does not define was read as `ContentPart::Unknown` without members and is
    /// removed: the caller could neither show it nor write it back.
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
            // Protobuf cannot distinguish an empty list of calls from an absent one; JSON clients send
            // absent.
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
            // A role of a later version of AG-UI: kept as JSON, so that the decoder reports it instead of
            // dropping it.
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
