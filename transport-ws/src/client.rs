//! The client of `aqueduct.v1`: starts, watches, cancels and publishes runs over one socket.
//!
//! A [`Client`] is a handle; two tasks read and write, so a pending write never stops reading. The handle, its
//! [`RunEvents`] and its [`Publisher`]s keep the connection open; dropping the last of them closes it.
//!
//! Several runs share one socket, which has one order: a [`RunEvents`] that is not read blocks the others once its queue is
//! full. Read all of them, or connect once per run.

mod connect;
mod incoming;
mod link;
mod publisher;
mod resuming;
mod run;

use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::service::{AgentInfo, PublishRequest};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::connect::ConnectOptions;
pub use self::publisher::Publisher;
pub use self::resuming::{ResumingPublisher, RetryPolicy};
pub use self::run::{Event, Position, RunEvents};

use self::link::{Expected, Link};
use crate::error::Error;

/// A connection to a server.
///
/// # Examples
///
/// ```no_run
/// use aqueduct_transport_ws::client::{Client, ConnectOptions};
///
/// # async fn run() -> Result<(), aqueduct_transport_ws::Error> {
/// let client = Client::connect(&ConnectOptions::new("ws://127.0.0.1:8000/ws")).await?;
/// let input = r#"{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[]}"#;
/// let mut events = client.start(Some("oracle"), input).await?;
/// while let Some(event) = events.next().await {
///     println!("{:?}", event?.data);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    link: Link,
    patience: Duration,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is malformed, the server cannot be reached, or refuses the handshake.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let socket = connect::open(options).await?;
        Ok(Self { link: Link::open(socket, options), patience: options.request_timeout })
    }

    /// Connects over a connection that is open already: a Unix socket, a tunnel, or a pipe in the same process. The
    /// address of `options` is sent as path and `Host`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is malformed, or the server refuses the handshake.
    pub async fn connect_over(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        options: &ConnectOptions,
    ) -> Result<Self, Error> {
        let socket = connect::open_over(Box::new(io), options).await?;
        Ok(Self { link: Link::open(socket, options), patience: options.request_timeout })
    }

    /// Returns the agents that the caller may run.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost.
    pub async fn list_agents(&self) -> Result<Vec<AgentInfo>, Error> {
        let answer = self.request(&Outgoing::of("list"), Expected::Agents).await?;
        Ok(answer)
    }

    /// Starts a run of `agent` (or of the path's agent) with `input`, a JSON text that is sent unchanged. Replies to the
    /// interrupts of an earlier run are part of the input: a resume is a start in the same thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost.
    pub async fn start(&self, agent: Option<&str>, input: &str) -> Result<RunEvents, Error> {
        let input = raw(input)?;
        self.request(&Outgoing { agent, input: Some(input), ..Outgoing::of("start") }, Expected::Run).await
    }

    /// Watches a run from the event after number `after` on.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost.
    pub async fn watch(&self, run: &str, after: u64) -> Result<RunEvents, Error> {
        self.request(&Outgoing { run: Some(run), after: Some(after), ..Outgoing::of("watch") }, Expected::Run)
            .await
    }

    /// Cancels a run. Returns `true` if it was running.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost.
    pub async fn cancel(&self, run: &str) -> Result<bool, Error> {
        self.request(&Outgoing { run: Some(run), ..Outgoing::of("cancel") }, Expected::Cancelled).await
    }

    /// Opens a run that this client publishes. Publishing the same run again continues it.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or the connection is lost.
    pub async fn publish(&self, request: &PublishRequest) -> Result<Publisher, Error> {
        let message = Outgoing {
            agent: Some(&request.agent),
            run: request.run_id.as_ref().map(RunId::as_str),
            thread: request.thread_id.as_deref(),
            format: Some(&request.format),
            ..Outgoing::of("publish")
        };
        self.request(&message, Expected::Publisher).await
    }

    /// Closes the connection. Open streams and publishers end with [`Error::Cut`].
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// Sends a request and waits for its reply, at most for the configured time. A late reply is dropped.
    async fn request<T>(
        &self,
        message: &Outgoing<'_>,
        expected: fn(link::Answer<T>) -> Expected,
    ) -> Result<T, Error> {
        let timeout =
            || Error::Timeout { what: "the answer of the server", seconds: self.patience.as_secs_f32() };
        let answer = self.link.request(message, expected);
        tokio::time::timeout(self.patience, answer).await.map_err(|_| timeout())?
    }
}

/// A message of the client. Absent fields are omitted.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outgoing<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

impl<'a> Outgoing<'a> {
    /// Returns a message of that type without further fields.
    fn of(kind: &'a str) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Encodes the message as JSON.
    fn to_text(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(|error| Error::Protocol(error.to_string()))
    }
}

/// Returns a JSON text that is sent unchanged.
fn raw(text: &str) -> Result<&RawValue, Error> {
    serde_json::from_str(text).map_err(|error| Error::Rejected {
        code: "invalid".to_owned(),
        message: format!("the text to send is not JSON: {error}"),
    })
}

#[cfg(test)]
mod tests;
