//! What a client can ask of an agent: [`Call`], the same for all versions and bindings.
//!
//! [`Endpoint::http_request`] writes a call for the two bindings over HTTP; gRPC has its own messages (module `pb`).

use std::sync::Arc;

use aqueduct_core::{Interrupt, Metadata};
use serde_json::Value;

use crate::card::Endpoint;
use crate::error::Error;
use crate::version::{Binding, JSON, VERSION_HEADER, Version};
use crate::wire::{Message, Part, Role, Text};
use crate::{jsonrpc, rest};

/// One request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// Say something and take the answer whole.
    SendMessage(Box<SendMessage>),
    /// Say something and take the answer as a stream.
    SendStreamingMessage(Box<SendMessage>),
    /// Ask where a task stands.
    GetTask {
        /// Which.
        id: String,
        /// How many messages of its history to send; absent: as many as the server likes.
        history_length: Option<u32>,
    },
    /// Ask for many tasks (1.0 only).
    ListTasks(Box<ListTasks>),
    /// Stop a task.
    CancelTask {
        /// Which.
        id: String,
        /// What to tell with it (1.0 only).
        metadata: Option<Metadata>,
    },
    /// Take the rest of a task as a stream.
    SubscribeToTask {
        /// Which.
        id: String,
    },
    /// Ask to be called back about a task.
    CreatePushConfig(Box<PushConfig>),
    /// Ask for one such wish.
    GetPushConfig {
        /// Of which task.
        task_id: String,
        /// Which.
        id: String,
    },
    /// Ask for all such wishes.
    ListPushConfigs {
        /// Of which task.
        task_id: String,
    },
    /// Take such a wish back.
    DeletePushConfig {
        /// Of which task.
        task_id: String,
        /// Which.
        id: String,
    },
    /// Ask for the card that only known clients may see.
    GetExtendedCard,
}

/// What to say, and how to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct SendMessage {
    /// What to say.
    pub message: Message<'static>,
    /// Media types that can be shown; empty: any.
    pub accepted_output_modes: Vec<String>,
    /// How many messages of the history to send back.
    pub history_length: Option<u32>,
    /// True to be answered before the task is done. Without effect on streams.
    pub return_immediately: bool,
    /// Where to be called back.
    pub push: Option<PushConfig>,
    /// What to tell with the request.
    pub metadata: Option<Metadata>,
}

impl SendMessage {
    /// A message of the user.
    pub fn new(message: Message<'static>) -> Self {
        Self {
            message,
            accepted_output_modes: Vec::new(),
            history_length: None,
            return_immediately: false,
            push: None,
            metadata: None,
        }
    }
}

/// The filters of [`Call::ListTasks`]. Absent ones are the server's choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListTasks {
    /// Only of that conversation.
    pub context_id: Option<String>,
    /// Only in that state (1.0 name).
    pub status: Option<String>,
    /// At most so many at once (1 to 100).
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// How much history each.
    pub history_length: Option<u32>,
    /// Only those whose status is newer (RFC 3339).
    pub status_timestamp_after: Option<String>,
    /// With what they produced.
    pub include_artifacts: Option<bool>,
}

/// Where and how an agent calls back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushConfig {
    /// About which task. Empty inside a [`SendMessage`]: the task has no id yet.
    pub task_id: String,
    /// Its id; empty: the server's choice.
    pub id: String,
    /// Where.
    pub url: String,
    /// A secret by which the receiver knows the sender.
    pub token: Option<String>,
    /// Scheme and credentials for the receiver.
    pub authentication: Option<(String, String)>,
}

/// A task and its conversation. Follow-ups need both: with the task alone, Python servers run the executor in a
/// fresh context and fail (client rule 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
}

impl TaskRef {
    /// Metadata key of the task id in interrupts.
    pub const TASK_ID: &'static str = "taskId";
    /// Metadata key of the context id in interrupts.
    pub const CONTEXT_ID: &'static str = "contextId";

    /// The task that an interrupt of this adapter belongs to.
    pub fn of_interrupt(interrupt: &Interrupt) -> Option<Self> {
        Self::of_metadata(interrupt.metadata.as_ref()?)
    }

    /// The task that such metadata names.
    pub fn of_metadata(metadata: &Arc<Metadata>) -> Option<Self> {
        let field = |key: &str| metadata.get(key).and_then(Value::as_str);
        Some(Self {
            task_id: field(Self::TASK_ID)?.to_owned(),
            context_id: field(Self::CONTEXT_ID).unwrap_or_default().to_owned(),
        })
    }
}

/// A message of the user, that starts a task in a conversation (if one is named) or a new one.
pub fn user_message(
    message_id: impl Into<String>,
    context_id: Option<String>,
    parts: Vec<Part<'static>>,
) -> Message<'static> {
    Message {
        message_id: Text::from(message_id.into()),
        context_id: Text::from(context_id.unwrap_or_default()),
        role: Role::User,
        parts,
        ..Message::default()
    }
}

/// A message of the user to a task that waits for it.
pub fn follow_up(
    message_id: impl Into<String>,
    task: &TaskRef,
    parts: Vec<Part<'static>>,
) -> Message<'static> {
    let mut message = user_message(message_id, Some(task.context_id.clone()), parts);
    message.task_id = Text::from(task.task_id.clone());
    message
}

/// An HTTP request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Lower-case names.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for `GET` and `DELETE`.
    pub body: Vec<u8>,
    /// True if the answer is a stream. It may still be one JSON body (client rule 2).
    pub streaming: bool,
}

impl Endpoint {
    /// Writes a call. `id` becomes the JSON-RPC id; REST has none.
    ///
    /// # Errors
    ///
    /// An error if the binding has no such call, or a value cannot be written.
    pub fn http_request(&self, call: &Call, id: u64) -> Result<HttpRequest, Error> {
        match self.binding {
            Binding::JsonRpc => jsonrpc::request(self, call, id),
            Binding::HttpJson => rest::request(self, call),
            Binding::Grpc => Err(Error::NotHttp(Binding::Grpc.as_str())),
        }
    }
}

/// The request for an agent's card. It names version 1.0: some servers show a 0.3 card to those who do not.
pub fn card_request(url: impl Into<String>) -> HttpRequest {
    HttpRequest {
        method: "GET",
        url: url.into(),
        headers: vec![("accept", JSON.to_owned()), (VERSION_HEADER, Version::V1.to_string())],
        body: Vec::new(),
        streaming: false,
    }
}

impl Call {
    /// True if the answer is a stream.
    pub fn is_streaming(&self) -> bool {
        matches!(self, Self::SendStreamingMessage(_) | Self::SubscribeToTask { .. })
    }
}

#[cfg(test)]
mod tests;
