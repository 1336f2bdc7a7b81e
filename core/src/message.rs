//! Whole messages: the history that enters a run, and the merged [`Response`] that a caller may want instead of a
//! stream.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::block::{ContentBlock, ToolUse};
use crate::id::{MessageId, ResponseId, RunId, ThreadId, ToolCallId};
use crate::run::{InterruptReply, Usage};
use crate::source::Source;
use crate::update::{Channel, Role, Timestamp};

/// One whole message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id, where it has one.
    pub id: Option<MessageId>,
    /// Whose words they are.
    pub role: Role,
    /// The agent that wrote it.
    pub source: Source,
    /// What it is for.
    pub channel: Channel,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What it says, in order.
    pub contents: Vec<ContentBlock>,
    /// What the source told beside it.
    pub metadata: Option<Arc<Metadata>>,
}

impl Message {
    /// A message without content.
    pub fn new(role: Role) -> Self {
        Self {
            id: None,
            role,
            source: Source::root(),
            channel: Channel::Answer,
            created_at: None,
            contents: Vec::new(),
            metadata: None,
        }
    }

    /// Its text blocks, joined without separator.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for block in &self.contents {
            if let ContentBlock::Text(part) = block {
                text.push_str(&part.text);
            }
        }
        text
    }

    /// Its tool calls.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.contents.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

/// A whole turn as one value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The one response id of the turn.
    pub id: ResponseId,
    /// The agent, if there was only one.
    pub agent: Option<Source>,
    /// Its messages.
    pub messages: Vec<Message>,
    /// The earliest time known.
    pub created_at: Option<Timestamp>,
    /// Why the model stopped, if all that was said about it agrees.
    pub finish_reason: Option<ByteString>,
    /// What it cost, by provider and model.
    pub usage: Vec<Usage>,
    /// The source's metadata; what came later wins, key by key.
    pub metadata: Metadata,
}

impl Response {
    /// Returns a response without messages.
    pub fn new(id: ResponseId) -> Self {
        Self {
            id,
            agent: None,
            messages: Vec::new(),
            created_at: None,
            finish_reason: None,
            usage: Vec::new(),
            metadata: Metadata::new(),
        }
    }

    /// Returns the agent of all messages; `None` if there is no message, or several agents.
    pub fn only_agent(&self) -> Option<Source> {
        let first = &self.messages.first()?.source;
        self.messages.iter().all(|message| message.source == *first).then(|| first.clone())
    }

    /// The text of its answer messages, joined without separator.
    pub fn text(&self) -> String {
        self.messages
            .iter()
            .filter(|m| m.channel == Channel::Answer && m.role == Role::Assistant)
            .map(Message::text)
            .collect()
    }
}

/// A tool that the caller of a run offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: ByteString,
    /// What it does.
    pub description: ByteString,
    /// JSON Schema of its arguments.
    pub parameters: Option<Value>,
    /// What the caller told beside it.
    pub metadata: Option<Arc<Metadata>>,
}

/// What a run starts from, whichever protocol it came in by.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The conversation.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The run this one branches from.
    pub parent_run_id: Option<RunId>,
    /// The history, oldest first, each message id once.
    pub messages: Vec<Message>,
    /// Tools of the caller.
    pub tools: Vec<ToolSpec>,
    /// Facts of the caller, as description and value.
    pub context: Vec<(ByteString, ByteString)>,
    /// The shared state.
    pub state: Value,
    /// Answers to the interrupts of the run before.
    pub resume: Vec<InterruptReply>,
    /// Whatever else the caller passes on.
    pub forwarded: Value,
    /// What the surface that starts the run keeps with it in the run log, for other replicas and the next start. Agents and
    /// watchers do not see it. A run with a record goes on without watchers.
    pub record: Option<Arc<Value>>,
}

impl RunInput {
    /// An input with one user message.
    pub fn prompt(thread_id: impl Into<ByteString>, run_id: impl Into<ByteString>, text: &str) -> Self {
        let mut message = Message::new(Role::User);
        message.contents.push(ContentBlock::text(text));
        Self {
            thread_id: ThreadId::new(thread_id),
            run_id: RunId::new(run_id),
            parent_run_id: None,
            messages: vec![message],
            tools: Vec::new(),
            context: Vec::new(),
            state: Value::Null,
            resume: Vec::new(),
            forwarded: Value::Null,
            record: None,
        }
    }

    /// The ids of all tool calls in the history: a result for one of them is no orphan.
    pub fn known_calls(&self) -> impl Iterator<Item = &ToolCallId> {
        self.messages.iter().flat_map(Message::tool_uses).filter_map(|call| call.id.as_ref())
    }

    /// Returns the text of the last user message; empty if there is none.
    pub fn text(&self) -> String {
        self.latest_user_message().map(Message::text).unwrap_or_default()
    }

    /// Returns `true` if the input replies to interrupts: by `resume`, or by the `command` that frontends of `LangGraph` sent
    /// before AG-UI 1.0.
    pub fn answers_interrupts(&self) -> bool {
        !self.resume.is_empty() || self.resume_command().is_some()
    }

    /// Returns the reply in `forwarded.command.resume`, which names no interrupt.
    pub fn resume_command(&self) -> Option<&Value> {
        self.forwarded.get("command")?.get("resume").filter(|resume| !resume.is_null())
    }

    /// What the user said last.
    pub fn latest_user_message(&self) -> Option<&Message> {
        self.messages.iter().rev().find(|m| m.role == Role::User)
    }
}
