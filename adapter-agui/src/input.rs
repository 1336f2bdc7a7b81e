//! The input of a run in both directions: `RunAgentInput` as canonical [`RunInput`] (an AG-UI client calls us), and back (we
//! call an AG-UI agent).
//!
//! A client sends the whole history each time: each message id counts once, at its first position and with its latest
//! content. Tool messages become tool results, `resume` entries become replies to interrupts, and files of either spelling
//! become [`wellknown::FILE`] blocks. No content of a message is dropped: parts without canonical form are kept in its
//! metadata and restored from there.

mod back;
mod limits;
mod part;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::block::{Thinking, ToolResult};
use aqueduct_core::message::ToolSpec;
use aqueduct_core::{
    ByteString, ContentBlock, InterruptReply, Message, MessageId, Metadata, Role, RunId, RunInput, Source,
    ThreadId, ToolCallId, wellknown,
};
use serde_json::{Value, json};

pub use back::run_agent_input;
pub use limits::InputLimits;

use crate::convert::META_AUTHOR;
use crate::decode::{SOURCE_NAME, tool_output};
use crate::error::Error;
use crate::wire::object::{At, FromWire as _};
use crate::wire::{self, Content, ResumeStatus, RunAgentInput, Strictness};

/// Metadata key: the encrypted form of a message or tool call.
const META_ENCRYPTED: &str = "encryptedValue";
/// Metadata key: the error of a failed tool.
pub(crate) const META_ERROR: &str = "error";
/// Key in `forwarded` and in the metadata of tools and messages: undeclared members, which an AG-UI agent receives as members
/// again.
pub(crate) const META_MEMBERS: &str = "aqueduct.members";
/// Metadata key: metadata and encrypted forms of a message's tool calls, by their ids.
const META_CALLS: &str = "toolCalls";

/// Parses a posted body. Members may be spelled in `camelCase` or `snake_case`, undeclared ones are kept, `null` counts as
/// absent. A malformed body is rejected before any event is sent.
///
/// # Errors
///
/// Returns an error with the path of the first member that is missing, of a wrong type or too long.
pub fn read_input(body: &[u8]) -> Result<RunAgentInput, Error> {
    read_input_within(body, InputLimits::default())
}

/// Parses a posted body like [`read_input`], within these limits.
///
/// # Errors
///
/// As [`read_input`].
pub fn read_input_within(body: &[u8], limits: InputLimits) -> Result<RunAgentInput, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::Utf8)?;
    let value: Value = serde_json::from_str(text)?;
    let input = RunAgentInput::from_wire(value, &At::root("RunAgentInput", Strictness::Forgiving))?;
    limits::check_ids(&input, limits)?;
    Ok(input)
}

/// Returns the canonical form of an input.
pub fn run_input(input: RunAgentInput) -> RunInput {
    RunInput {
        thread_id: ThreadId::new(input.thread_id),
        run_id: RunId::new(input.run_id),
        parent_run_id: input.parent_run_id.map(RunId::new),
        messages: once_each(input.messages),
        tools: input.tools.into_iter().flatten().map(tool).collect(),
        context: input.context.into_iter().flatten().map(|fact| (fact.description, fact.value)).collect(),
        state: input.state.0.filter(|state| !state.is_null()).unwrap_or_else(|| json!({})),
        resume: input.resume.into_iter().flatten().map(reply).collect(),
        forwarded: forwarded(input.forwarded_props.unwrap_or_default(), input.extra),
        record: None,
        protocol_version: input.protocol_version,
    }
}

/// Returns the forwarded data of the client, with the undeclared members of its input.
fn forwarded(mut forwarded: Value, extra: Option<Box<Metadata>>) -> Value {
    if let Some(extra) = extra {
        if forwarded.is_null() {
            forwarded = json!({});
        }
        if let Some(members) = forwarded.as_object_mut() {
            members.insert(META_MEMBERS.to_owned(), Value::Object(*extra));
        }
    }
    forwarded
}

/// Returns the history with each id once: at its first position, with its latest content.
fn once_each(messages: Vec<wire::Message>) -> Vec<Message> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut history: Vec<Message> = Vec::new();
    for message in messages {
        let id = message.id().to_owned();
        let message = canonical(message);
        match places.get(&id).and_then(|place| history.get_mut(*place)) {
            Some(earlier) if !id.is_empty() => *earlier = message,
            _ => {
                places.insert(id, history.len());
                history.push(message);
            }
        }
    }
    history
}

fn tool(tool: wire::Tool) -> ToolSpec {
    let mut metadata = tool.metadata;
    if let Some(extra) = tool.extra {
        metadata.get_or_insert_default().insert(META_MEMBERS.to_owned(), Value::Object(*extra));
    }
    ToolSpec {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        metadata: metadata.map(Arc::new),
    }
}

fn reply(entry: wire::ResumeEntry) -> InterruptReply {
    InterruptReply {
        id: entry.interrupt_id.into(),
        resolved: entry.status == ResumeStatus::Resolved,
        payload: entry.payload,
    }
}

/// Converts one message.
fn canonical(message: wire::Message) -> Message {
    let id = MessageId::from(message.id());
    let tag = message.subagent_run_id().cloned();
    let mut draft = Draft::default();
    let role = draft.take(message);
    let mut source = Source::root();
    if let Some(tag) = tag {
        source = source.child(tag);
        if let Some(name) = &draft.name {
            source = source.named(name.clone());
        }
    } else if let Some(name) = &draft.name {
        draft.metadata.insert(META_AUTHOR.to_owned(), Value::from(&**name));
    }
    let mut canonical = Message::new(role);
    canonical.id = Some(id).filter(|id| !id.as_str().is_empty());
    canonical.source = source;
    canonical.contents = draft.contents;
    canonical.metadata = Some(draft.metadata).filter(|metadata| !metadata.is_empty()).map(Arc::new);
    canonical
}

/// A message under construction.
#[derive(Default)]
struct Draft {
    contents: Vec<ContentBlock>,
    metadata: Metadata,
    name: Option<ByteString>,
}

impl Draft {
    /// Converts the content of a message, and returns its role.
    fn take(&mut self, message: wire::Message) -> Role {
        match message {
            wire::Message::Developer(message) => self.instruction(message, Role::Developer),
            wire::Message::System(message) => self.instruction(message, Role::System),
            wire::Message::User(message) => {
                self.beside(message.metadata, message.name, message.encrypted_value, message.extra);
                self.content(message.content);
                Role::User
            }
            wire::Message::Assistant(message) => {
                self.beside(message.metadata, message.name, message.encrypted_value, message.extra);
                if let Some(text) = message.content.filter(|text| !text.is_empty()) {
                    self.contents.push(ContentBlock::text(text));
                }
                message.tool_calls.into_iter().flatten().for_each(|call| self.call(call));
                Role::Assistant
            }
            wire::Message::Tool(message) => {
                self.beside(message.metadata, None, message.encrypted_value, message.extra);
                let is_error = message.error.is_some();
                if let Some(error) = message.error {
                    self.metadata.insert(META_ERROR.to_owned(), Value::from(&*error));
                }
                self.contents.push(ContentBlock::from(ToolResult {
                    id: Some(ToolCallId::new(message.tool_call_id)),
                    name: None,
                    output: tool_output(message.content),
                    is_error,
                }));
                Role::Tool
            }
            wire::Message::Activity(message) => {
                self.beside(message.metadata, None, None, message.extra);
                let value = json!({ "type": &*message.activity_type, "content": message.content });
                self.contents.push(ContentBlock::custom(wellknown::ACTIVITY, value));
                Role::Assistant
            }
            wire::Message::Reasoning(message) => {
                self.beside(message.metadata, None, None, message.extra);
                let (text, encrypted) = (message.content, message.encrypted_value.map(Box::new));
                self.contents.push(ContentBlock::Thinking(Thinking { text, encrypted }));
                Role::Assistant
            }
            wire::Message::Unknown(members) => {
                let value = json!({ "event": members, "source": SOURCE_NAME });
                self.contents.push(ContentBlock::custom(wellknown::RAW, value));
                Role::Assistant
            }
        }
    }

    fn instruction(&mut self, message: wire::InstructionMessage, role: Role) -> Role {
        self.beside(message.metadata, message.name, message.encrypted_value, message.extra);
        self.contents.push(ContentBlock::text(message.content));
        role
    }

    /// Collects the metadata of the message.
    fn beside(
        &mut self,
        metadata: Option<Metadata>,
        name: Option<ByteString>,
        encrypted: Option<ByteString>,
        extra: Option<Box<Metadata>>,
    ) {
        self.metadata = metadata.unwrap_or_default();
        self.name = name;
        if let Some(encrypted) = encrypted {
            self.metadata.insert(META_ENCRYPTED.to_owned(), Value::from(&*encrypted));
        }
        let Some(extra) = extra else { return };
        let names = extra.keys().filter(|name| !self.metadata.contains_key(*name));
        let names: Value = names.map(|name| Value::from(name.as_str())).collect();
        for (name, value) in *extra {
            self.metadata.entry(name).or_insert(value);
        }
        self.metadata.insert(META_MEMBERS.to_owned(), names);
    }

    fn content(&mut self, content: Content) {
        match content {
            Content::Text(text) => self.contents.push(ContentBlock::text(text)),
            Content::Parts(parts) => {
                for block in parts.into_iter().map(part::canonical) {
                    // A file in the old spelling is often accompanied by the same file in the new one.
                    if !self.contents.iter().any(|earlier| part::same_file(earlier, &block)) {
                        self.contents.push(block);
                    }
                }
            }
        }
    }

    fn call(&mut self, call: wire::ToolCall) {
        let mut beside = call.metadata.unwrap_or_default();
        if let Some(encrypted) = call.encrypted_value {
            beside.insert(META_ENCRYPTED.to_owned(), Value::from(&*encrypted));
        }
        if !beside.is_empty() {
            let calls = self.metadata.entry(META_CALLS).or_insert_with(|| json!({}));
            if let Some(calls) = calls.as_object_mut() {
                calls.insert(call.id.to_string(), Value::Object(beside));
            }
        }
        let (name, arguments) = (call.function.name, call.function.arguments);
        self.contents.push(ContentBlock::tool_use(call.id, name, arguments));
    }
}
