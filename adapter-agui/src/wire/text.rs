//! Events of text, reasoning and tool calls: what streams.

use aqueduct_core::ByteString;

use super::content::Content;
use super::declare::event;
use super::scalar::words;

words! {
    /// Whose words a text message holds. Absent means assistant.
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
}

words! {
    /// The only role of a reasoning message. Required on the wire all the same.
    pub enum ReasoningRole ("\"reasoning\"") {
        /// The only one.
        #[default]
        Reasoning = "reasoning",
    }
}

words! {
    /// The only role of a tool result.
    pub enum ToolRole ("\"tool\"") {
        /// The only one.
        #[default]
        Tool = "tool",
    }
}

words! {
    /// What a sealed value belongs to.
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
        /// Its id, unique in the thread.
        message_id: ByteString = "messageId" @ 2,
        /// Whose words they are; absent means the assistant's.
        role: Option<TextRole> = "role" @ 3,
        /// The name of who speaks.
        name: Option<ByteString> = "name" @ 4,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 5,
    }
}

event! {
    /// `TEXT_MESSAGE_CONTENT`: more of an open text message.
    pub struct TextMessageContent {
        /// Its id.
        message_id: ByteString = "messageId" @ 2,
        /// What follows.
        delta: ByteString = "delta" @ 3,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }
}

event! {
    /// `TEXT_MESSAGE_END`: an open text message ends.
    pub struct TextMessageEnd {
        /// Its id.
        message_id: ByteString = "messageId" @ 2,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `TEXT_MESSAGE_CHUNK`: start, content and end of a text message in one spelling.
    pub struct TextMessageChunk {
        /// Its id; the first chunk must have it.
        message_id: Option<ByteString> = "messageId" @ 2,
        /// Whose words they are.
        role: Option<TextRole> = "role" @ 3,
        /// What follows.
        delta: Option<ByteString> = "delta" @ 4,
        /// The name of who speaks.
        name: Option<ByteString> = "name" @ 5,
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 6,
    }
}

event! {
    /// `TOOL_CALL_START`: a tool call begins.
    pub struct ToolCallStart {
        /// Its id, unique in the thread.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// The name of the tool.
        tool_call_name: ByteString = "toolCallName" @ 3,
        /// The assistant message that it is part of.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 4,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 5,
    }
}

event! {
    /// `TOOL_CALL_ARGS`: more of an open tool call's arguments.
    pub struct ToolCallArgs {
        /// Its id.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// What follows, as JSON text.
        delta: ByteString = "delta" @ 3,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 4,
    }
}

event! {
    /// `TOOL_CALL_END`: an open tool call's arguments are complete.
    pub struct ToolCallEnd {
        /// Its id.
        tool_call_id: ByteString = "toolCallId" @ 2,
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
    }
}

event! {
    /// `TOOL_CALL_CHUNK`: start, arguments and end of a tool call in one spelling.
    pub struct ToolCallChunk {
        /// Its id; the first chunk must have it.
        tool_call_id: Option<ByteString> = "toolCallId" @ 2,
        /// The name of the tool; the first chunk must have it.
        tool_call_name: Option<ByteString> = "toolCallName" @ 3,
        /// The assistant message that it is part of.
        parent_message_id: Option<ByteString> = "parentMessageId" @ 4,
        /// What follows, as JSON text.
        delta: Option<ByteString> = "delta" @ 5,
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 6,
    }
}

event! {
    /// `TOOL_CALL_RESULT`: what a tool answered.
    pub struct ToolCallResult {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The id of the tool message that it becomes, unique in the thread.
        message_id: ByteString = "messageId",
        /// The call that is answered.
        tool_call_id: ByteString = "toolCallId",
        /// The answer: a text, or (from 1.0 on) content parts.
        content: Content = "content",
        /// Always `tool`.
        role: Option<ToolRole> = "role",
    }
}

event! {
    /// `REASONING_START`: a span of reasoning begins.
    pub struct ReasoningStart {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the span.
        message_id: ByteString = "messageId" @ 3,
    }
}

event! {
    /// `REASONING_MESSAGE_START`: a reasoning message begins.
    pub struct ReasoningMessageStart {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// Its id, unique in the thread.
        message_id: ByteString = "messageId" @ 3,
        /// Always `reasoning`.
        role: ReasoningRole = "role" @ 4,
    }
}

event! {
    /// `REASONING_MESSAGE_CONTENT`: more of an open reasoning message.
    pub struct ReasoningMessageContent {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// Its id.
        message_id: ByteString = "messageId" @ 3,
        /// What follows.
        delta: ByteString = "delta" @ 4,
    }
}

event! {
    /// `REASONING_MESSAGE_END`: an open reasoning message ends.
    pub struct ReasoningMessageEnd {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// Its id.
        message_id: ByteString = "messageId" @ 3,
    }
}

event! {
    /// `REASONING_MESSAGE_CHUNK`: start, content and end of a reasoning message in one spelling.
    pub struct ReasoningMessageChunk {
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// Its id; the first chunk must have it.
        message_id: Option<ByteString> = "messageId" @ 3,
        /// What follows.
        delta: Option<ByteString> = "delta" @ 4,
    }
}

event! {
    /// `REASONING_END`: a span of reasoning ends.
    pub struct ReasoningEnd {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// The id of the span.
        message_id: ByteString = "messageId" @ 3,
    }
}

event! {
    /// `REASONING_ENCRYPTED_VALUE`: the sealed form of a message or tool call, to be sent back unread.
    pub struct ReasoningEncryptedValue {
        /// The sub-agent it belongs to; absent means the parent agent.
        subagent_run_id: Option<ByteString> = "subagentRunId" @ 2,
        /// What `entity_id` names.
        subtype: EncryptedSubtype = "subtype" @ 3,
        /// The message or tool call.
        entity_id: ByteString = "entityId" @ 4,
        /// The sealed form.
        encrypted_value: ByteString = "encryptedValue" @ 5,
    }
}
