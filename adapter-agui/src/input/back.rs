//! The reverse conversion: a canonical input for an AG-UI agent.
//!
//! AG-UI has one kind of content per message: a canonical message with several kinds (thinking, text and calls, results)
//! becomes several messages, the first of which keeps the id.
//!
//! | canonical | AG-UI |
//! |---|---|
//! | text, calls | one assistant message with `content` and `toolCalls` |
//! | thinking | a reasoning message before it |
//! | a tool result | a tool message; parts stay parts from 1.0 on |
//! | files of a user | parts of the user's message |
//! | a progress card | an activity message |
//! | raw content | the unknown message or part, unchanged |
//! | other custom content, malformed content | text: a model reads it |
//!
//! Members that the wire types do not know travel in metadata and are members again here, of the first message that is written.

use aqueduct_core::message::ToolSpec;
use aqueduct_core::{
    ByteString, ContentBlock, InterruptReply, Message, MessageId, Metadata, Role, RunId, RunInput, wellknown,
};
use serde_json::{Value, json};

use super::part::media_part;
use super::{META_CALLS, META_ENCRYPTED, META_ERROR, META_MEMBERS};
use crate::config::Dialect;
use crate::convert::{META_AUTHOR, result_content};
use crate::decode::SOURCE_NAME;
use crate::version::PROTOCOL_VERSION;
use crate::wire::{self};
use crate::wire::{
    ActivityMessage, AssistantMessage, Content, ContentPart, Context, FunctionCall, InstructionMessage,
    MaybeValue, ReasoningMessage, ResumeEntry, ResumeStatus, RunAgentInput, TextPart, Tool, ToolCall,
    ToolCallType, ToolMessage, UserMessage,
};

/// Returns the input for an agent of this dialect. Members that 0.0.59 requires are always present.
pub fn run_agent_input(input: &RunInput, dialect: Dialect) -> RunAgentInput {
    let object = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
    let mut forwarded = object(&input.forwarded);
    let extra = forwarded.as_object_mut().and_then(take_members);
    let mut messages = Vec::new();
    for (index, message) in input.messages.iter().enumerate() {
        Back::new(&input.run_id, index, message, dialect, &mut messages).write();
    }
    RunAgentInput {
        thread_id: input.thread_id.as_bytes().clone(),
        run_id: input.run_id.as_bytes().clone(),
        parent_run_id: input.parent_run_id.as_ref().map(RunId::as_bytes).cloned(),
        state: MaybeValue(Some(object(&input.state))),
        messages,
        tools: Some(input.tools.iter().map(tool).collect()),
        context: Some(input.context.iter().map(fact).collect()),
        forwarded_props: Some(forwarded),
        resume: Some(input.resume.iter().map(entry).collect()).filter(|all: &Vec<_>| !all.is_empty()),
        protocol_version: (dialect == Dialect::V1_0).then_some(ByteString::from_static(PROTOCOL_VERSION)),
        extra,
    }
}

/// Takes the undeclared members out of an object: they are members of the enclosing one.
fn take_members(object: &mut Metadata) -> Option<Box<Metadata>> {
    match object.shift_remove(META_MEMBERS)? {
        Value::Object(members) => Some(Box::new(members)),
        _ => None,
    }
}

/// Returns a tool of the client with its undeclared members.
fn tool(tool: &ToolSpec) -> Tool {
    let mut metadata = tool.metadata.as_deref().cloned();
    let extra = metadata.as_mut().and_then(take_members);
    Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        metadata: metadata.filter(|metadata| !metadata.is_empty() || extra.is_none()),
        extra,
    }
}

/// Returns a fact of the client.
fn fact((description, value): &(ByteString, ByteString)) -> Context {
    Context { description: description.clone(), value: value.clone(), extra: None }
}

/// Returns the reply to an interrupt. A declined one is `cancelled`.
fn entry(reply: &InterruptReply) -> ResumeEntry {
    let status = if reply.resolved { ResumeStatus::Resolved } else { ResumeStatus::Cancelled };
    let payload = reply.payload.clone().filter(|payload| !payload.is_null());
    ResumeEntry { interrupt_id: reply.id.as_bytes().clone(), status, payload, metadata: None, extra: None }
}

/// The conversion of one canonical message into one or several messages of AG-UI.
///
/// Text, parts and calls are collected and written as one message by `flush`; thinking, results and
/// cards are written at once, after a flush, so that the order of the blocks stays.
struct Back<'a> {
    message: &'a Message,
    dialect: Dialect,
    id: ByteString,
    tag: Option<ByteString>,
    name: Option<ByteString>,
    metadata: Metadata,
    /// Undeclared members, for the first message that is written.
    extra: Option<Box<Metadata>>,
    out: &'a mut Vec<wire::Message>,
    /// The number of messages that were written: the first keeps the id, later ones get `id/2`, `id/3`.
    written: usize,
    text: String,
    parts: Vec<ContentPart>,
    calls: Vec<ToolCall>,
}

impl<'a> Back<'a> {
    /// Returns the conversion of a message. A message without id gets one from the run and its index, the same on every call.
    fn new(
        run: &RunId,
        index: usize,
        message: &'a Message,
        dialect: Dialect,
        out: &'a mut Vec<wire::Message>,
    ) -> Self {
        let own = message.id.as_ref().map(MessageId::as_bytes).cloned();
        let mut metadata = message.metadata.as_deref().cloned().unwrap_or_default();
        let extra = message_members(&mut metadata);
        let author = metadata.shift_remove(META_AUTHOR);
        let author = author.as_ref().and_then(Value::as_str).map(ByteString::from);
        let tag = (!message.source.is_root()).then(|| ByteString::from(message.source.key()));
        let named =
            Some(message.source.name()).filter(|name| !name.is_empty() && *name != message.source.key());
        Self {
            message,
            dialect,
            id: own.unwrap_or_else(|| ByteString::from(format!("{run}/input/{index}"))),
            tag,
            name: author.or_else(|| named.map(ByteString::from)),
            metadata,
            extra,
            out,
            written: 0,
            text: String::new(),
            parts: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Writes the messages of one canonical message.
    fn write(mut self) {
        for block in &self.message.contents {
            match block {
                ContentBlock::Text(text) => self.push_text(&text.text),
                ContentBlock::Thinking(thought) => {
                    self.flush();
                    let (id, metadata) = (self.next_id(), self.take_metadata());
                    let message = ReasoningMessage {
                        id,
                        content: thought.text.clone(),
                        metadata,
                        subagent_run_id: self.tag.clone(),
                        encrypted_value: thought.encrypted.as_deref().cloned(),
                        extra: self.extra.take(),
                    };
                    self.out.push(wire::Message::Reasoning(message));
                }
                ContentBlock::ToolUse(call) => {
                    let id = call.id.as_ref().map(|id| id.as_bytes().clone()).unwrap_or_default();
                    let function = FunctionCall {
                        name: call.name.clone().unwrap_or_default(),
                        arguments: call.arguments.clone(),
                        extra: None,
                    };
                    let call = self.call(id, function);
                    self.calls.push(call);
                }
                ContentBlock::ToolResult(result) => {
                    self.flush();
                    let call = result.id.as_ref().map(|id| id.as_bytes().clone()).unwrap_or_default();
                    let content = result_content(&result.output, self.dialect);
                    self.answer(call, content, result.is_error);
                }
                ContentBlock::Custom(custom) => self.custom(&custom.name, &custom.value),
            }
        }
        // A message without content is kept: the history of the agent contains it.
        let empty = self.written == 0 && self.message.contents.is_empty();
        if empty { self.write_message() } else { self.flush() }
    }

    /// Appends text: to the parts of a user's message if it has some, to the text otherwise.
    fn push_text(&mut self, text: &str) {
        if self.message.role == Role::User && !self.parts.is_empty() {
            self.parts.push(text_part(text));
        } else {
            self.text.push_str(text);
        }
    }

    /// Writes custom content: files as parts, cards as activities, raw content unchanged. A model reads text, so content
    /// without such a form is written as text.
    fn custom(&mut self, name: &str, value: &Value) {
        let is_written = match name {
            wellknown::ACTIVITY => self.activity(value),
            wellknown::FILE if self.message.role == Role::User => {
                media_part(value).map(|part| self.push_part(part)).is_some()
            }
            wellknown::RAW => self.raw(value),
            _ => false,
        };
        if !is_written {
            self.push_text(&value.to_string());
        }
    }

    /// Writes a progress card. Returns `false` if the value lacks its type or its content.
    fn activity(&mut self, value: &Value) -> bool {
        let content = value.get("content").and_then(Value::as_object).cloned();
        let kind = value.get("type").and_then(Value::as_str);
        let Some((content, kind)) = content.zip(kind) else { return false };
        self.flush();
        let (id, metadata) = (self.next_id(), self.take_metadata());
        let message = ActivityMessage {
            id,
            metadata,
            subagent_run_id: self.tag.clone(),
            activity_type: kind.into(),
            content,
            extra: self.extra.take(),
        };
        self.out.push(wire::Message::Activity(message));
        true
    }

    /// Writes an unknown message or part of AG-UI unchanged. Returns `false` for other raw content.
    ///
    /// A part is content of a user's message, an unknown message of a message of its own. Each must have the members by
    /// which an agent reads it.
    fn raw(&mut self, value: &Value) -> bool {
        let is_own = value.get("source").is_some_and(|source| source == SOURCE_NAME);
        let Some(members) = value.get("event").filter(|_| is_own).and_then(Value::as_object) else {
            return false;
        };
        let has = |name: &str| members.get(name).is_some_and(Value::is_string);
        match self.message.role {
            Role::User if has("type") => self.push_part(ContentPart::Unknown(members.clone())),
            Role::Assistant if has("role") && has("id") => {
                self.flush();
                self.written += 1;
                self.out.push(wire::Message::Unknown(members.clone()));
            }
            _ => return false,
        }
        true
    }

    /// Appends a part. Text before it becomes a part of its own, so that the order stays.
    fn push_part(&mut self, part: ContentPart) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.parts.push(text_part(&text));
        }
        self.parts.push(part);
    }

    /// Returns a tool call with the members that its source sent beside it.
    fn call(&self, id: ByteString, function: FunctionCall) -> ToolCall {
        let beside = self.metadata.get(META_CALLS).and_then(|calls| calls.get(&*id)?.as_object());
        let mut metadata = beside.cloned().unwrap_or_default();
        let encrypted = metadata.shift_remove(META_ENCRYPTED);
        ToolCall {
            id,
            kind: ToolCallType::Function,
            function,
            metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
            encrypted_value: encrypted.as_ref().and_then(Value::as_str).map(ByteString::from),
            extra: None,
        }
    }

    /// Appends the result of a call, as a message of its own.
    fn answer(&mut self, tool_call_id: ByteString, content: Content, is_error: bool) {
        let error = self.metadata.shift_remove(META_ERROR);
        let error = error.as_ref().and_then(Value::as_str).map(ByteString::from);
        let (id, encrypted_value) = (self.next_id(), self.take_encrypted());
        let message = ToolMessage {
            id,
            content,
            tool_call_id,
            error: error.or_else(|| is_error.then(|| ByteString::from_static("the tool failed"))),
            metadata: self.take_metadata(),
            subagent_run_id: self.tag.clone(),
            encrypted_value,
            extra: self.extra.take(),
        };
        self.out.push(wire::Message::Tool(message));
    }

    /// Writes the collected text and calls.
    fn flush(&mut self) {
        if !self.text.is_empty() || !self.parts.is_empty() || !self.calls.is_empty() {
            self.write_message();
        }
    }

    /// Writes the collected text, parts and calls as one message of the role.
    fn write_message(&mut self) {
        let (id, encrypted_value) = (self.next_id(), self.take_encrypted());
        let calls = std::mem::take(&mut self.calls);
        self.metadata.shift_remove(META_CALLS);
        let (name, metadata) = (self.name.clone(), self.take_metadata());
        let subagent_run_id = self.tag.clone();
        let text = ByteString::from(std::mem::take(&mut self.text));
        let extra = self.extra.take();
        let message = match self.message.role {
            Role::User => {
                let parts = std::mem::take(&mut self.parts);
                let content = if parts.is_empty() { Content::Text(text) } else { Content::Parts(parts) };
                let user =
                    UserMessage { id, content, name, metadata, subagent_run_id, encrypted_value, extra };
                wire::Message::User(user)
            }
            Role::System | Role::Developer => {
                let message = InstructionMessage {
                    id,
                    content: text,
                    name,
                    metadata,
                    subagent_run_id,
                    encrypted_value,
                    extra,
                };
                let system = self.message.role == Role::System;
                if system { wire::Message::System(message) } else { wire::Message::Developer(message) }
            }
            _ => wire::Message::Assistant(AssistantMessage {
                id,
                content: Some(text).filter(|text| !text.is_empty()),
                name,
                tool_calls: Some(calls).filter(|calls| !calls.is_empty()),
                metadata,
                subagent_run_id,
                encrypted_value,
                extra,
            }),
        };
        self.out.push(message);
    }

    /// Returns the id of the next message. One canonical message may need several in AG-UI; the second and later ids are derived.
    fn next_id(&mut self) -> ByteString {
        self.written += 1;
        match self.written {
            1 => self.id.clone(),
            more => ByteString::from(format!("{}/{more}", self.id)),
        }
    }

    /// Takes the encrypted value out of the metadata.
    fn take_encrypted(&mut self) -> Option<ByteString> {
        let encrypted = self.metadata.shift_remove(META_ENCRYPTED);
        encrypted.as_ref().and_then(Value::as_str).map(ByteString::from)
    }

    /// Takes the metadata, for the first message that is written.
    /// The metadata of tool calls stays until the message with the calls is written.
    fn take_metadata(&mut self) -> Option<Metadata> {
        let mut metadata = std::mem::take(&mut self.metadata);
        if let Some(calls) = metadata.shift_remove(META_CALLS) {
            self.metadata.insert(META_CALLS.to_owned(), calls);
        }
        Some(metadata).filter(|metadata| !metadata.is_empty())
    }
}

/// Takes the undeclared members of a message out of its metadata, where `input` stored them beside
/// a list of their names.
fn message_members(metadata: &mut Metadata) -> Option<Box<Metadata>> {
    let names = metadata.shift_remove(META_MEMBERS)?;
    let names = names.as_array()?.iter().filter_map(Value::as_str);
    let members: Metadata =
        names.filter_map(|name| Some((name.to_owned(), metadata.shift_remove(name)?))).collect();
    (!members.is_empty()).then(|| Box::new(members))
}

/// Returns a text as a content part.
fn text_part(text: &str) -> ContentPart {
    ContentPart::Text(TextPart { text: text.into(), id: None, metadata: None, extra: None })
}
