//! The connecting side of `aqueduct.v1`: start, watch, cancel and publish over one socket.
//!
//! A [`Client`] is a handle; two tasks behind it read and write, so a write that waits never stops reading. The handle,
//! its [`RunEvents`] and its [`Publisher`]s keep the connection open; when the last is dropped it is closed.
//!
//! Several runs share one socket, and the socket has one order: a [`RunEvents`] that nobody reads holds back the others
//! once its queue is full. Read all of them, or connect once per run.

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

pub use self::connect::ConnectOptions;
pub use self::publisher::Publisher;
pub use self::resuming::{ResumingPublisher, RetryPolicy};
pub use self::run::{Event, Position, RunEvents};

use self::link::{Expected, Link};
use crate::error::Error;

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct Client {
    link: Link,
    patience: Duration,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    ///
    /// An error if the address is malformed, the server cannot be reached, or refuses the handshake.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let socket = connect::open(options).await?;
        Ok(Self { link: Link::open(socket, options), patience: options.request_timeout })
    }

    /// The agents that may be run.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or the connection is lost.
    pub async fn list_agents(&self) -> Result<Vec<AgentInfo>, Error> {
        let answer = self.ask(&Outgoing::of("list"), Expected::Agents).await?;
        Ok(answer)
    }

    /// Starts a run of `agent` (or of the path's agent) with `input`, a JSON text that is passed on as it is. Answers
    /// to the interrupts of an earlier run stand in the input too: resuming is starting in the same thread.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or the connection is lost.
    pub async fn start(&self, agent: Option<&str>, input: &str) -> Result<RunEvents, Error> {
        let input = raw(input)?;
        self.ask(&Outgoing { agent, input: Some(input), ..Outgoing::of("start") }, Expected::Run).await
    }

    /// Follows a run from the event after number `after` on.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or the connection is lost.
    pub async fn watch(&self, run: &str, after: u64) -> Result<RunEvents, Error> {
        self.ask(&Outgoing { run: Some(run), after: Some(after), ..Outgoing::of("watch") }, Expected::Run)
            .await
    }

    /// Stops a run; tells whether it was running.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or the connection is lost.
    pub async fn cancel(&self, run: &str) -> Result<bool, Error> {
        self.ask(&Outgoing { run: Some(run), ..Outgoing::of("cancel") }, Expected::Cancelled).await
    }

    /// Opens a run that this side feeds. The same run again continues it.
    ///
    /// # Errors
    ///
    /// An error if the service refuses, or the connection is lost.
    pub async fn publish(&self, request: &PublishRequest) -> Result<Publisher, Error> {
        let message = Outgoing {
            agent: Some(&request.agent),
            run: request.run_id.as_ref().map(RunId::as_str),
            thread: request.thread_id.as_deref(),
            format: Some(&request.format),
            ..Outgoing::of("publish")
        };
        self.ask(&message, Expected::Publisher).await
    }

    /// Closes the connection; what still runs on it ends with [`Error::Cut`].
    pub async fn close(&self) {
        self.link.close().await;
    }

    async fn ask<T>(
        &self,
        message: &Outgoing<'_>,
        expected: fn(link::Answer<T>) -> Expected,
    ) -> Result<T, Error> {
        let timeout =
            || Error::Timeout { what: "the answer of the server", seconds: self.patience.as_secs_f32() };
        let asking = self.link.ask(message, expected);
        tokio::time::timeout(self.patience, asking).await.map_err(|_| timeout())?
    }
}

/// A message of a client. Absent fields are left out.
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
    fn of(kind: &'a str) -> Self {
        Self { kind, ..Self::default() }
    }

    fn to_text(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(|error| Error::Protocol(error.to_string()))
    }
}

/// A JSON text that is sent as it is.
fn raw(text: &str) -> Result<&RawValue, Error> {
    serde_json::from_str(text).map_err(|error| Error::Rejected {
        code: "invalid".to_owned(),
        message: format!("the text to send is no JSON: {error}"),
    })
}

#[cfg(test)]
mod tests;
