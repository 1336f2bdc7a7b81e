//! Whole messages: the history that enters a run ([`RunInput`]), and the merged [`Response`] of a turn as one value.
//!
//! These types hold data only. [`merge`](crate::merge) builds a response; adapters read and write inputs.

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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// The id of the message, if it has one.
    pub id: Option<MessageId>,
    /// The author of the message.
    pub role: Role,
    /// The agent that wrote the message.
    pub source: Source,
    /// Whether the message is part of the answer or of the work on it.
    pub channel: Channel,
    /// The time at which the message was created.
    pub created_at: Option<Timestamp>,
    /// The content, in order.
    pub contents: Vec<ContentBlock>,
    /// Metadata of the source.
    pub metadata: Option<Arc<Metadata>>,
}

impl Message {
    /// Returns a message without content.
    pub fn new(role: Role) -> Self {
        Self { role, ..Self::default() }
    }

    /// Returns the text blocks, joined without separator.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for block in &self.contents {
            if let ContentBlock::Text(part) = block {
                text.push_str(&part.text);
            }
        }
        text
    }

    /// Returns the tool calls of the message.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.contents.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(&**call),
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
    /// The agent, if all messages are of one.
    pub agent: Option<Source>,
    /// The messages, grouped by agent.
    pub messages: Vec<Message>,
    /// The earliest known time of creation.
    pub created_at: Option<Timestamp>,
    /// Why the model stopped, if all reported reasons agree.
    pub finish_reason: Option<ByteString>,
    /// The sum of tokens spent, by provider and model.
    pub usage: Vec<Usage>,
    /// The source's metadata; for equal keys the later value counts.
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

    /// Returns the text of the answer messages, joined without separator.
    pub fn text(&self) -> String {
        self.messages
            .iter()
            .filter(|m| m.channel == Channel::Answer && m.role == Role::Assistant)
            .map(Message::text)
            .collect()
    }
}

/// A tool that the caller of a run provides.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name of the tool.
    pub name: ByteString,
    /// A description of the tool for the model.
    pub description: ByteString,
    /// JSON Schema of the arguments.
    pub parameters: Option<Value>,
    /// Metadata of the caller.
    pub metadata: Option<Arc<Metadata>>,
}

/// The input of a run, independent of the protocol it arrived in.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The id of the run.
    pub run_id: RunId,
    /// The run this one branches from.
    pub parent_run_id: Option<RunId>,
    /// The history, oldest first, each message id once.
    pub messages: Vec<Message>,
    /// Tools that the caller provides.
    pub tools: Vec<ToolSpec>,
    /// Context of the caller, as pairs of description and value.
    pub context: Vec<(ByteString, ByteString)>,
    /// The shared state.
    pub state: Value,
    /// Replies to the interrupts of the previous run.
    pub resume: Vec<InterruptReply>,
    /// Any further data that the caller passes to the agent.
    pub forwarded: Value,
    /// What the surface that starts the run keeps with it in the run log, for other replicas and the next start. Agents and
    /// watchers do not see it. A run with a record continues without watchers.
    pub record: Option<Arc<Value>>,
    /// The version of the surface's protocol that the caller declares. A watcher that declares none reads the run in this
    /// version.
    pub protocol_version: Option<ByteString>,
}

impl RunInput {
    /// Returns an input with one user message.
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
            protocol_version: None,
        }
    }

    /// Returns the ids of all tool calls in the history. A result for one of them needs no call in this run.
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

    /// Returns the last user message. Returns `None` if there is none.
    pub fn latest_user_message(&self) -> Option<&Message> {
        self.messages.iter().rev().find(|m| m.role == Role::User)
    }
}
