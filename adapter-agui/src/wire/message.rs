//! Whole messages, as in a history.

use aqueduct_core::{ByteString, Metadata};

use super::content::Content;
use super::declare::{object, union};
use super::scalar::words;

union! {
    /// A message of a conversation.
    pub enum Message by "role" {
        /// A message of the application's developer.
        Developer(InstructionMessage) = "developer",
        /// A message of the agent's operator.
        System(InstructionMessage) = "system",
        /// A message of the agent.
        Assistant(AssistantMessage) = "assistant",
        /// A message of the human.
        User(UserMessage) = "user",
        /// A tool result.
        Tool(ToolMessage) = "tool",
        /// A progress card.
        Activity(ActivityMessage) = "activity",
        /// Reasoning of the agent.
        Reasoning(ReasoningMessage) = "reasoning",
    }
}

impl Default for Message {
    fn default() -> Self {
        Self::Unknown(Metadata::new())
    }
}

impl Message {
    /// Returns the id; empty for an unknown kind without one.
    pub fn id(&self) -> &str {
        match self {
            Self::Developer(message) | Self::System(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::User(message) => &message.id,
            Self::Tool(message) => &message.id,
            Self::Activity(message) => &message.id,
            Self::Reasoning(message) => &message.id,
            Self::Unknown(members) => members.get("id").and_then(|id| id.as_str()).unwrap_or(""),
        }
    }

    /// Returns the sub-agent of the message. Returns `None` for messages of the parent agent.
    pub fn subagent_run_id(&self) -> Option<&ByteString> {
        match self {
            Self::Developer(message) | Self::System(message) => message.subagent_run_id.as_ref(),
            Self::Assistant(message) => message.subagent_run_id.as_ref(),
            Self::User(message) => message.subagent_run_id.as_ref(),
            Self::Tool(message) => message.subagent_run_id.as_ref(),
            Self::Activity(message) => message.subagent_run_id.as_ref(),
            Self::Reasoning(message) => message.subagent_run_id.as_ref(),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the tool calls; only an assistant's message has any.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant(message) => message.tool_calls.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

words! {
    /// The only kind of tool call.
    pub enum ToolCallType ("\"function\"") {
        /// The only kind.
        #[default]
        Function = "function",
    }
}

object! {
    /// A message of the role `developer` or `system`.
    pub struct InstructionMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// The text.
        content: ByteString = "content",
        /// The name of the author.
        name: Option<ByteString> = "name",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }

    /// A message of the role `assistant`.
    pub struct AssistantMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// The text, if there is any.
        content: Option<ByteString> = "content",
        /// The name of the author.
        name: Option<ByteString> = "name",
        /// The tool calls.
        tool_calls: Option<Vec<ToolCall>> = "toolCalls",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }

    /// A message of the role `user`.
    pub struct UserMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// A text, or parts.
        content: Content = "content",
        /// The name of the author.
        name: Option<ByteString> = "name",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }

    /// A message of the role `tool`.
    pub struct ToolMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// The result: a text, or (from 1.0 on) parts.
        content: Content = "content",
        /// The call that the result belongs to.
        tool_call_id: ByteString = "toolCallId",
        /// The error of a failed tool.
        error: Option<ByteString> = "error",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }

    /// A message of the role `activity`: a progress card. Clients do not send it back.
    pub struct ActivityMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The kind of card.
        activity_type: ByteString = "activityType",
        /// The content of the card.
        content: Metadata = "content",
    }

    /// A message of the role `reasoning`. Clients send it back.
    pub struct ReasoningMessage {
        /// The id of the message.
        id: ByteString = "id",
        /// The reasoning text.
        content: ByteString = "content",
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent that sent it.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }

    /// A tool call inside an assistant's message.
    pub struct ToolCall {
        /// The id of the message.
        id: ByteString = "id" @ 1,
        /// Always `function`.
        kind: ToolCallType = "type" @ 2,
        /// The function to call.
        function: FunctionCall = "function" @ 3,
        /// Free-form metadata.
        metadata: Option<Metadata> = "metadata" @ 4,
        /// The encrypted form.
        encrypted_value: Option<ByteString> = "encryptedValue" @ 5,
    }

    /// The name and arguments of a call.
    pub struct FunctionCall {
        /// The name of the tool.
        name: ByteString = "name" @ 1,
        /// The arguments as JSON text.
        arguments: ByteString = "arguments" @ 2,
    }
}
