//! Conversion of a [`RunInput`], both ways.
//!
//! The depth of JSON is limited for input alone, by [`Limits::json_depth`](crate::config::Limits): it comes from callers.

use aqueduct_core::block::{Custom, Text, Thinking, ToolResult, ToolUse};
use aqueduct_core::message::ToolSpec;
use aqueduct_core::{ContentBlock, Message, MessageId, RunId, RunInput, ThreadId, Timestamp, ToolCallId};
use bytes::Bytes;
use serde_json::Value;

use super::kinds::{channel_from_proto, channel_to_proto, role_from_proto, role_to_proto};
use super::run::{agents_from_proto, agents_to_proto, output_from_proto, output_to_proto};
use super::values::{
    JsonDepth, json, json_to_bytes, optional_bytes, optional_json, optional_metadata,
    optional_metadata_to_bytes, optional_text, present_json_to_bytes, text, to_bytes,
};
use super::{ConvertError, reply_from_proto, reply_to_proto};
use crate::proto;
use proto::content::Content as Kind;

/// Converts an input to its message.
///
/// # Errors
///
/// Returns an error if a role has no form in this version of the protocol.
pub fn input_to_proto(input: &RunInput) -> Result<proto::RunInput, ConvertError> {
    let context = |(description, value): &(_, _)| proto::ContextEntry {
        description: to_bytes(description),
        value: to_bytes(value),
    };
    Ok(proto::RunInput {
        thread_id: to_bytes(input.thread_id.as_bytes()),
        run_id: to_bytes(input.run_id.as_bytes()),
        parent_run_id: input.parent_run_id.as_ref().map(|id| to_bytes(id.as_bytes())),
        messages: input.messages.iter().map(message_to_proto).collect::<Result<_, _>>()?,
        tools: input.tools.iter().map(tool_to_proto).collect(),
        context: input.context.iter().map(context).collect(),
        state_json: present_json_to_bytes(&input.state),
        resume: input.resume.iter().map(reply_to_proto).collect(),
        forwarded_json: present_json_to_bytes(&input.forwarded),
    })
}

/// Converts a message of a caller to an input. Its JSON may be nested no deeper than `depth`.
///
/// # Errors
///
/// Returns an error that names the field that is missing or invalid.
pub fn input_from_proto(input: proto::RunInput, depth: JsonDepth) -> Result<RunInput, ConvertError> {
    let messages = input.messages.into_iter().map(|message| message_from_proto(message, depth));
    let tools = input.tools.into_iter().map(|tool| tool_from_proto(tool, depth));
    let context = input.context.into_iter().map(|entry| {
        let description = text("input.context.description", entry.description)?;
        Ok((description, text("input.context.value", entry.value)?))
    });
    let value = |field, bytes: Option<&Bytes>| Ok(optional_json(field, bytes, depth)?.unwrap_or(Value::Null));
    Ok(RunInput {
        thread_id: ThreadId::new(required("input.thread_id", input.thread_id)?),
        run_id: RunId::new(required("input.run_id", input.run_id)?),
        parent_run_id: optional_text("input.parent_run_id", input.parent_run_id)?.map(RunId::new),
        messages: messages.collect::<Result<_, _>>()?,
        tools: tools.collect::<Result<_, _>>()?,
        context: context.collect::<Result<_, ConvertError>>()?,
        state: value("input.state_json", input.state_json.as_ref())?,
        resume: input
            .resume
            .into_iter()
            .map(|reply| reply_from_proto(reply, depth))
            .collect::<Result<_, _>>()?,
        forwarded: value("input.forwarded_json", input.forwarded_json.as_ref())?,
        record: None,
        protocol_version: None,
    })
}

/// Converts a text that must not be empty.
fn required(field: &'static str, bytes: Bytes) -> Result<aqueduct_core::ByteString, ConvertError> {
    if bytes.is_empty() {
        return Err(ConvertError::Missing { field });
    }
    text(field, bytes)
}

/// Encodes a message of the input. A role without a form in the protocol is an error.
pub(super) fn message_to_proto(message: &Message) -> Result<proto::Message, ConvertError> {
    Ok(proto::Message {
        id: message.id.as_ref().map(|id| to_bytes(id.as_bytes())),
        role: role_to_proto(message.role)?.into(),
        agents: agents_to_proto(&message.source),
        channel: channel_to_proto(message.channel).into(),
        created_at_ms: message.created_at.map(|time| time.0),
        contents: message.contents.iter().map(content_to_proto).collect(),
        metadata_json: optional_metadata_to_bytes(message.metadata.as_ref()),
    })
}

/// Decodes a message of the input, with JSON of at most `depth` levels.
pub(super) fn message_from_proto(message: proto::Message, depth: JsonDepth) -> Result<Message, ConvertError> {
    let contents = message.contents.into_iter().map(|content| content_from_proto(content, depth));
    Ok(Message {
        id: optional_text("message.id", message.id)?.map(MessageId::new),
        role: role_from_proto("message.role", message.role)?,
        source: agents_from_proto(message.agents, depth)?,
        channel: channel_from_proto("message.channel", message.channel)?,
        created_at: message.created_at_ms.map(Timestamp),
        contents: contents.collect::<Result<_, _>>()?,
        metadata: optional_metadata("message.metadata_json", message.metadata_json.as_ref(), depth)?,
    })
}

/// Encodes one content block of a message.
fn content_to_proto(block: &ContentBlock) -> proto::Content {
    let content = match block {
        ContentBlock::Text(Text { text }) => Kind::Text(to_bytes(text)),
        ContentBlock::Thinking(thinking) => Kind::Thinking(proto::ThinkingContent {
            text: to_bytes(&thinking.text),
            encrypted: optional_bytes(thinking.encrypted.as_deref()),
        }),
        ContentBlock::ToolUse(call) => Kind::ToolUse(proto::ToolUseContent {
            id: call.id.as_ref().map(|id| to_bytes(id.as_bytes())),
            name: optional_bytes(call.name.as_ref()),
            arguments: to_bytes(&call.arguments),
        }),
        ContentBlock::ToolResult(result) => Kind::ToolResult(proto::ToolResultContent {
            id: result.id.as_ref().map(|id| to_bytes(id.as_bytes())),
            name: optional_bytes(result.name.as_ref()),
            output: Some(output_to_proto(&result.output)),
            is_error: result.is_error,
        }),
        ContentBlock::Custom(custom) => Kind::Custom(proto::CustomContent {
            name: to_bytes(&custom.name),
            value_json: json_to_bytes(&custom.value),
        }),
    };
    proto::Content { content: Some(content) }
}

/// Decodes one content block of a message.
fn content_from_proto(content: proto::Content, depth: JsonDepth) -> Result<ContentBlock, ConvertError> {
    let content = content.content.ok_or(ConvertError::Missing { field: "message.contents.content" })?;
    Ok(match content {
        Kind::Text(value) => ContentBlock::Text(Text { text: text("content.text", value)? }),
        Kind::Thinking(thinking) => ContentBlock::Thinking(Thinking {
            text: text("content.thinking.text", thinking.text)?,
            encrypted: optional_text("content.thinking.encrypted", thinking.encrypted)?.map(Box::new),
        }),
        Kind::ToolUse(call) => ContentBlock::from(ToolUse {
            id: optional_text("content.tool_use.id", call.id)?.map(ToolCallId::new),
            name: optional_text("content.tool_use.name", call.name)?,
            arguments: text("content.tool_use.arguments", call.arguments)?,
        }),
        Kind::ToolResult(result) => ContentBlock::from(ToolResult {
            id: optional_text("content.tool_result.id", result.id)?.map(ToolCallId::new),
            name: optional_text("content.tool_result.name", result.name)?,
            output: output_from_proto(result.output, depth)?,
            is_error: result.is_error,
        }),
        Kind::Custom(custom) => ContentBlock::from(Custom {
            name: text("content.custom.name", custom.name)?,
            value: json("content.custom.value_json", &custom.value_json, depth)?,
        }),
    })
}

/// Returns a tool of the client in the form of `aqueduct.v1`. Its JSON Schema is passed on as bytes.
fn tool_to_proto(tool: &ToolSpec) -> proto::Tool {
    proto::Tool {
        name: to_bytes(&tool.name),
        description: to_bytes(&tool.description),
        parameters_json: tool.parameters.as_ref().map(json_to_bytes),
        metadata_json: optional_metadata_to_bytes(tool.metadata.as_ref()),
    }
}

/// Reads a tool of the client.
///
/// # Errors
///
/// Returns an error that names the field if a text is not UTF-8, or the schema is not JSON or is nested deeper than `depth`.
fn tool_from_proto(tool: proto::Tool, depth: JsonDepth) -> Result<ToolSpec, ConvertError> {
    Ok(ToolSpec {
        name: text("tool.name", tool.name)?,
        description: text("tool.description", tool.description)?,
        parameters: optional_json("tool.parameters_json", tool.parameters_json.as_ref(), depth)?,
        metadata: optional_metadata("tool.metadata_json", tool.metadata_json.as_ref(), depth)?,
    })
}
