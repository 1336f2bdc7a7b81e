//! Whole messages, as they stand in a history.

use aqueduct_core::{ByteString, Metadata};

use super::content::Content;
use super::declare::{object, union};
use super::scalar::words;

union! {
    /// A message of a conversation.
    pub enum Message by "role" {
        /// Of the application's developer.
        Developer(InstructionMessage) = "developer",
        /// Of the agent's operator.
        System(InstructionMessage) = "system",
        /// Of the agent.
        Assistant(AssistantMessage) = "assistant",
        /// Of the human.
        User(UserMessage) = "user",
        /// A tool's answer.
        Tool(ToolMessage) = "tool",
        /// A progress card.
        Activity(ActivityMessage) = "activity",
        /// The agent's thoughts.
        Reasoning(ReasoningMessage) = "reasoning",
    }
}

impl Default for Message {
    fn default() -> Self {
        Self::Unknown(Metadata::new())
    }
}

impl Message {
    /// Its id; empty for an unknown kind without one.
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

    /// The sub-agent it belongs to; none means the parent agent.
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

    /// Its tool calls; only an assistant's message has some.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant(message) => message.tool_calls.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

object! {
    /// A message of the role `developer` or `system`.
    pub struct InstructionMessage {
        /// Its id.
        id: ByteString = "id",
        /// The words.
        content: ByteString = "content",
        /// The name of who speaks.
        name: Option<ByteString> = "name",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }
}

object! {
    /// A message of the role `assistant`.
    pub struct AssistantMessage {
        /// Its id.
        id: ByteString = "id",
        /// The words, if there are any.
        content: Option<ByteString> = "content",
        /// The name of who speaks.
        name: Option<ByteString> = "name",
        /// Calls of tools.
        tool_calls: Option<Vec<ToolCall>> = "toolCalls",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }
}

object! {
    /// A message of the role `user`.
    pub struct UserMessage {
        /// Its id.
        id: ByteString = "id",
        /// A text, or parts.
        content: Content = "content",
        /// The name of who speaks.
        name: Option<ByteString> = "name",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }
}

object! {
    /// A message of the role `tool`.
    pub struct ToolMessage {
        /// Its id.
        id: ByteString = "id",
        /// The answer: a text, or (from 1.0 on) parts.
        content: Content = "content",
        /// The call that is answered.
        tool_call_id: ByteString = "toolCallId",
        /// Why the tool failed, if it did.
        error: Option<ByteString> = "error",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }
}

object! {
    /// A message of the role `activity`: a progress card. Clients do not send it back.
    pub struct ActivityMessage {
        /// Its id.
        id: ByteString = "id",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// What kind of card.
        activity_type: ByteString = "activityType",
        /// What it shows.
        content: Metadata = "content",
    }
}

object! {
    /// A message of the role `reasoning`. Clients send it back.
    pub struct ReasoningMessage {
        /// Its id.
        id: ByteString = "id",
        /// The thoughts.
        content: ByteString = "content",
        /// Free data.
        metadata: Option<Metadata> = "metadata",
        /// The sub-agent it belongs to.
        subagent_run_id: Option<ByteString> = "subagentRunId",
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue",
    }
}

words! {
    /// The only kind of tool call.
    pub enum ToolCallType ("\"function\"") {
        /// The only one.
        #[default]
        Function = "function",
    }
}

object! {
    /// A call of a tool inside an assistant's message.
    pub struct ToolCall {
        /// Its id.
        id: ByteString = "id" @ 1,
        /// Always `function`.
        kind: ToolCallType = "type" @ 2,
        /// What is called.
        function: FunctionCall = "function" @ 3,
        /// Free data.
        metadata: Option<Metadata> = "metadata" @ 4,
        /// The sealed form.
        encrypted_value: Option<ByteString> = "encryptedValue" @ 5,
    }
}

object! {
    /// The name and arguments of a call.
    pub struct FunctionCall {
        /// The tool.
        name: ByteString = "name" @ 1,
        /// JSON text.
        arguments: ByteString = "arguments" @ 2,
    }
}
