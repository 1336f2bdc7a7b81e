//! Streaming events: text, reasoning and tool calls.

use aqueduct_core::ByteString;

use super::content::Content;
use super::declare::event;
use super::scalar::words;

words! {
    /// The author of a text message. Absent means assistant.
    pub enum TextRole ("\"developer\", \"system\", \"assistant\" or \"user\"") {
        /// The application's developer.
        Developer = "developer",
        /// The agent's operator.
        System = "system",
        /// The agent.
        #[default]
        Assistant = "assistant",
        /// The human.
        User = "user",
    }

    /// The only role of a reasoning message. Nevertheless required on the wire.
    pub enum ReasoningRole ("\"reasoning\"") {
        /// The only one.
        #[default]
        Reasoning = "reasoning",
    }

    /// The only role of a tool result.
    pub enum ToolRole ("\"tool\"") {
        /// The only one.
        #[default]
        Tool = "tool",
    }

    /// The kind of item that an encrypted value belongs to.
    pub enum EncryptedSubtype ("\"message\" or \"tool-call\"") {
        /// A message, by its id.
        #[default]
        Message = "message",
        /// A tool call, by its id.
        ToolCall = "tool-call",
    }
}

event! {
    /// `TEXT_MESSAGE_START`: a text message begins.
    pub struct TextMessageStart {
        /// The id, unique in the thread.
        message_id: ByteString = "messageId" @ 2,
        /// The author; absent means the assistant.
        role: Option<TextRole> = "role" @ 3,
        /// The name of the author.
        name: Option<ByteString> = "name" @ 4,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 5,
    }

    /// `TEXT_MESSAGE_CONTENT`: more of an open text message.
    pub struct TextMessageContent {
        /// The id of the message.
        message_id: ByteString = "messageId" @ 2,
        /// The text to append.
        delta: ByteString = "delta" @ 3,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }

    /// `TEXT_MESSAGE_END`: an open text message ends.
    pub struct TextMessageEnd {
        /// The id of the message.
        message_id: ByteString = "messageId" @ 2,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `TEXT_MESSAGE_CHUNK`: start, content and end of a text message in one event type.
    pub struct TextMessageChunk {
        /// The id; required in the first chunk.
        message_id: Option<ByteString> = "messageId" @ 2,
        /// The author of the message.
        role: Option<TextRole> = "role" @ 3,
        /// The text to append.
        delta: Option<ByteString> = "delta" @ 4,
        /// The name of the author.
        name: Option<ByteString> = "name" @ 5,
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 6,
    }

    /// `TOOL_CALL_START`: a tool call begins.
    pub struct ToolCallStart {
        /// The id, unique in the thread.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// The name of the tool.
        tool_call_name: ByteString = "toolCallName" @ 3,
        /// The assistant message that the call is part of.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 4,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 5,
    }

    /// `TOOL_CALL_ARGS`: more of an open tool call's arguments.
    pub struct ToolCallArgs {
        /// The id of the call.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// The JSON text to append.
        delta: ByteString = "delta" @ 3,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }

    /// `TOOL_CALL_END`: an open tool call's arguments are complete.
    pub struct ToolCallEnd {
        /// The id of the call.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }

    /// `TOOL_CALL_CHUNK`: start, arguments and end of a tool call in one event type.
    pub struct ToolCallChunk {
        /// The id; required in the first chunk.
        tool_call_id: Option<ByteString> = "toolCallId" @ 2,
        /// The name of the tool; required in the first chunk.
        tool_call_name: Option<ByteString> = "toolCallName" @ 3,
        /// The assistant message that the call is part of.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 4,
        /// The JSON text to append.
        delta: Option<ByteString> = "delta" @ 5,
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 6,
    }

    /// `TOOL_CALL_RESULT`: the result of a tool call.
    pub struct ToolCallResult {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The id of the resulting tool message, unique in the thread.
        message_id: ByteString = "messageId",
        /// The call that the result belongs to.
        tool_call_id: ByteString = "toolCallId",
        /// The result: a text, or (from 1.0 on) content parts.
        content: Content = "content",
        /// Always `tool`.
        role: Option<ToolRole> = "role",
    }

    /// `REASONING_START`: a span of reasoning begins.
    pub struct ReasoningStart {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the span.
        message_id: ByteString = "messageId" @ 3,
    }

    /// `REASONING_MESSAGE_START`: a reasoning message begins.
    pub struct ReasoningMessageStart {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id, unique in the thread.
        message_id: ByteString = "messageId" @ 3,
        /// Always `reasoning`.
        role: ReasoningRole = "role" @ 4,
    }

    /// `REASONING_MESSAGE_CONTENT`: more of an open reasoning message.
    pub struct ReasoningMessageContent {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the message.
        message_id: ByteString = "messageId" @ 3,
        /// The text to append.
        delta: ByteString = "delta" @ 4,
    }

    /// `REASONING_MESSAGE_END`: an open reasoning message ends.
    pub struct ReasoningMessageEnd {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the message.
        message_id: ByteString = "messageId" @ 3,
    }

    /// `REASONING_MESSAGE_CHUNK`: start, content and end of a reasoning message in one event type.
    pub struct ReasoningMessageChunk {
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id; required in the first chunk.
        message_id: Option<ByteString> = "messageId" @ 3,
        /// The text to append.
        delta: Option<ByteString> = "delta" @ 4,
    }

    /// `REASONING_END`: a span of reasoning ends.
    pub struct ReasoningEnd {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the span.
        message_id: ByteString = "messageId" @ 3,
    }

    /// `REASONING_ENCRYPTED_VALUE`: the encrypted form of a message or tool call, to be returned unchanged.
    pub struct ReasoningEncryptedValue {
        /// The sub-agent that sent it; absent for the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The kind of `entity_id`.
        subtype: EncryptedSubtype = "subtype" @ 3,
        /// The id of the message or tool call.
        entity_id: ByteString = "entityId" @ 4,
        /// The encrypted form.
        encrypted_value: ByteString = "encryptedValue" @ 5,
    }
}
