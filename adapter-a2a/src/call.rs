//! [`Call`]: the requests of a client to an agent, independent of version and binding.
//!
//! [`Endpoint::http_request`] encodes a call for the two bindings over HTTP; gRPC has its own messages (module `pb`).

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
    /// Sends a message; the response is complete.
    SendMessage(Box<SendMessage>),
    /// Sends a message; the response is a stream.
    SendStreamingMessage(Box<SendMessage>),
    /// Reads a task.
    GetTask {
        /// The id of the task.
        id: String,
        /// The number of history messages to return; `None` leaves it to the server.
        history_length: Option<u32>,
    },
    /// Lists tasks (1.0 only).
    ListTasks(Box<ListTasks>),
    /// Cancels a task.
    CancelTask {
        /// The id of the task.
        id: String,
        /// Metadata of the request (1.0 only).
        metadata: Option<Metadata>,
    },
    /// Streams the rest of a task.
    SubscribeToTask {
        /// The id of the task.
        id: String,
    },
    /// Registers push notifications for a task.
    CreatePushConfig(Box<PushConfig>),
    /// Reads one push configuration.
    GetPushConfig {
        /// The id of the task.
        task_id: String,
        /// The id of the configuration.
        id: String,
    },
    /// Lists all push configurations of a task.
    ListPushConfigs {
        /// The id of the task.
        task_id: String,
    },
    /// Deletes a push configuration.
    DeletePushConfig {
        /// The id of the task.
        task_id: String,
        /// The id of the configuration.
        id: String,
    },
    /// Reads the extended card, which requires authentication.
    GetExtendedCard,
}

/// A message, and how the response is returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendMessage {
    /// The message.
    pub message: Message<'static>,
    /// Media types that the client accepts; empty for any.
    pub accepted_output_modes: Vec<String>,
    /// The number of history messages to return.
    pub history_length: Option<u32>,
    /// Set to receive the response before the task is done. Has no effect on streams.
    pub return_immediately: bool,
    /// The push configuration of the new task.
    pub push: Option<PushConfig>,
    /// Metadata of the request.
    pub metadata: Option<Metadata>,
}

impl SendMessage {
    /// Returns a request with this message and defaults for everything else.
    pub fn new(message: Message<'static>) -> Self {
        Self { message, ..Self::default() }
    }
}

/// The filters of [`Call::ListTasks`]. The server chooses absent ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListTasks {
    /// Only tasks of that context.
    pub context_id: Option<String>,
    /// Only tasks in that state (1.0 name).
    pub status: Option<String>,
    /// The number of tasks per page (1 to 100).
    pub page_size: Option<u32>,
    /// The token of the next page, from the response before.
    pub page_token: Option<String>,
    /// The number of history messages per task.
    pub history_length: Option<u32>,
    /// Only tasks whose status is newer (RFC 3339).
    pub status_timestamp_after: Option<String>,
    /// Set to include artifacts.
    pub include_artifacts: Option<bool>,
}

/// The target of push notifications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushConfig {
    /// The id of the task. Empty inside a [`SendMessage`]: the task has no id yet.
    pub task_id: String,
    /// The id of the configuration; empty leaves it to the server.
    pub id: String,
    /// The address of the receiver.
    pub url: String,
    /// A secret by which the receiver authenticates the sender.
    pub token: Option<String>,
    /// Scheme and credentials for the receiver.
    pub authentication: Option<(String, String)>,
}

/// A task and its context. Follow-ups need both: with the task alone, Python servers run the executor in a new context
/// and fail (client rule 7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    /// The id of the task.
    pub task_id: String,
    /// The id of its context.
    pub context_id: String,
}

impl TaskRef {
    /// Metadata key of the task id in interrupts.
    pub const TASK_ID: &'static str = "taskId";
    /// Metadata key of the context id in interrupts.
    pub const CONTEXT_ID: &'static str = "contextId";

    /// Returns the task of an interrupt of this adapter.
    pub fn of_interrupt(interrupt: &Interrupt) -> Option<Self> {
        Self::of_metadata(interrupt.metadata.as_ref()?)
    }

    /// Returns the task that the metadata name.
    pub fn of_metadata(metadata: &Arc<Metadata>) -> Option<Self> {
        let field = |key: &str| metadata.get(key).and_then(Value::as_str);
        Some(Self {
            task_id: field(Self::TASK_ID)?.to_owned(),
            context_id: field(Self::CONTEXT_ID).unwrap_or_default().to_owned(),
        })
    }
}

/// Returns a message of the user that starts a task, in the given context or in a new one.
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

/// Returns a message of the user to an interrupted task.
pub fn follow_up(
    message_id: impl Into<String>,
    task: &TaskRef,
    parts: Vec<Part<'static>>,
) -> Message<'static> {
    let mut message = user_message(message_id, Some(task.context_id.clone()), parts);
    message.task_id = Text::from(task.task_id.clone());
    message
}

/// An HTTP request, ready to be sent by a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The complete address.
    pub url: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for `GET` and `DELETE`.
    pub body: Vec<u8>,
    /// Set if a stream is requested. The response may still be one JSON body (client rule 2).
    pub streaming: bool,
}

impl Endpoint {
    /// Encodes a call. `id` becomes the JSON-RPC id; REST has none.
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_adapter_a2a::call::Call;
    /// use aqueduct_adapter_a2a::card::Endpoint;
    /// use aqueduct_adapter_a2a::version::{Binding, Version};
    ///
    /// let endpoint = Endpoint::new("https://agent.test/a2a", Binding::HttpJson, Version::V1);
    /// let call = Call::GetTask { id: "t".to_owned(), history_length: None };
    /// let request = endpoint.http_request(&call, 1)?;
    /// assert_eq!((request.method, request.url.as_str()), ("GET", "https://agent.test/a2a/tasks/t"));
    /// # Ok::<(), aqueduct_adapter_a2a::error::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotHttp`] for an endpoint of gRPC, and [`Error::NotInVersion`] if its version has no such
    /// call. Both are the caller's fault.
    pub fn http_request(&self, call: &Call, id: u64) -> Result<HttpRequest, Error> {
        match self.binding {
            Binding::JsonRpc => jsonrpc::request(self, call, id),
            Binding::HttpJson => rest::request(self, call),
            Binding::Grpc => Err(Error::NotHttp(Binding::Grpc.as_str())),
        }
    }
}

/// Returns the request for an agent's card. It names version 1.0: some servers return a 0.3 card otherwise.
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
    /// Returns `true` if the response is a stream.
    pub fn is_streaming(&self) -> bool {
        matches!(self, Self::SendStreamingMessage(_) | Self::SubscribeToTask { .. })
    }
}

#[cfg(test)]
mod tests;
