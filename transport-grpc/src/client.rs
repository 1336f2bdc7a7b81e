//! [`Client`]: calls `aqueduct.v1` with the types of `aqueduct-core`.
//!
//! ```no_run
//! # use aqueduct_core::RunInput;
//! # use aqueduct_transport_grpc::{Client, ClientConfig, Error};
//! # use futures_util::StreamExt as _;
//! # async fn call() -> Result<(), Error> {
//! let client = Client::connect("http://127.0.0.1:50051", ClientConfig::default()).await?;
//! let mut run = client.run("echo", &RunInput::prompt("thread-1", "run-1", "hello")).await?;
//! while let Some(event) = run.next().await {
//!     println!("{:?}", event?.event);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is one connection, which is opened again when it is lost. Calls are not retried: to continue a stream that was
//! cut, call [`watch`](Client::watch) after [`RunStream::last`], or [`resume`](Publisher::resume) for a publisher.

mod connect;
mod publisher;
mod stream;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use aqueduct_core::service::{AgentInfo, PublishRequest};
use aqueduct_core::{CompletedRun, RunId, RunInput};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::config::ClientConfig;
use crate::convert::{completed_from_proto, input_to_proto, text, to_bytes};
use crate::error::Error;
use crate::proto;
use crate::proto::agent_stream_client::AgentStreamClient;
use crate::status::to_error;

pub(crate) use connect::channel;
pub use publisher::Publisher;
pub use stream::RunStream;

/// A connection to a server. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: AgentStreamClient<Channel>,
    config: ClientConfig,
}

/// A bearer token. Its `Debug` form does not contain it.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Returns a token. `token` does not include the word `Bearer`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Token`] if the token cannot be sent as metadata.
    pub fn new(token: &str) -> Result<Self, Error> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| Error::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Returns the value of the `authorization` metadata, marked as sensitive.
    pub(crate) fn value(&self) -> MetadataValue<Ascii> {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Client {
    /// Connects to `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is malformed, TLS cannot be set up, or the server cannot be reached.
    pub async fn connect(address: &str, config: ClientConfig) -> Result<Self, Error> {
        let channel = channel(address, &config).await?;
        let inner = AgentStreamClient::new(channel).max_decoding_message_size(config.limits.message_bytes);
        Ok(Self { inner, config })
    }

    /// Returns a client over an open connection: a Unix socket, a tunnel, or a pipe in the same process. A lost connection is
    /// not opened again.
    ///
    /// # Errors
    ///
    /// Returns an error if the HTTP/2 handshake fails.
    pub async fn connect_over(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        config: ClientConfig,
    ) -> Result<Self, Error> {
        let channel = connect::channel_over(io, &config).await?;
        let inner = AgentStreamClient::new(channel).max_decoding_message_size(config.limits.message_bytes);
        Ok(Self { inner, config })
    }

    /// Returns the agents that the caller may run.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn list_agents(&self) -> Result<Vec<AgentInfo>, Error> {
        let request = self.short_request(proto::ListAgentsRequest {});
        let mut inner = self.inner.clone();
        let agents = self.response(self.config.timeouts.call, inner.list_agents(request)).await?.agents;
        let info = |agent: proto::AgentInfo| {
            let name = text("agent.name", agent.name)?.to_string();
            Ok(AgentInfo { name, description: text("agent.description", agent.description)?.to_string() })
        };
        agents.into_iter().map(info).collect()
    }

    /// Starts a run of `agent`, and returns its events.
    ///
    /// # Errors
    ///
    /// Returns an error if `aqueduct.v1` cannot express the input, if the service refuses, or if it cannot be reached in time.
    pub async fn run(&self, agent: &str, input: &RunInput) -> Result<RunStream, Error> {
        let request =
            proto::RunRequest { agent: agent.to_owned().into(), input: Some(input_to_proto(input)?) };
        let mut inner = self.inner.clone();
        let request = self.request(request);
        self.open_stream(0, async move { inner.run(request).await }).await
    }

    /// Starts a run, waits for its end, and returns the run as one value. No timeout applies: wrap the future in one if
    /// needed. Dropping the future ends the watch, not the run.
    ///
    /// # Errors
    ///
    /// Returns an error if `aqueduct.v1` cannot express the input, or if the service refuses, cannot be reached, or loses the run. A run that failed is not an error:
    /// [`CompletedRun::outcome`] holds its failure.
    pub async fn complete(&self, agent: &str, input: &RunInput) -> Result<CompletedRun, Error> {
        let request =
            proto::RunRequest { agent: agent.to_owned().into(), input: Some(input_to_proto(input)?) };
        let mut inner = self.inner.clone();
        let response = inner.complete(self.request(request)).await.map_err(to_error)?;
        Ok(completed_from_proto(response.into_inner())?)
    }

    /// Watches a run from the event after number `after` on.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn watch(&self, run: &RunId, after: u64) -> Result<RunStream, Error> {
        let mut inner = self.inner.clone();
        let request = self.request(proto::WatchRequest { run_id: to_bytes(run.as_bytes()), after });
        self.open_stream(after, async move { inner.watch(request).await }).await
    }

    /// Cancels a run. Returns `true` if it was running.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn cancel(&self, run: &RunId) -> Result<bool, Error> {
        let request = self.short_request(proto::CancelRequest { run_id: to_bytes(run.as_bytes()) });
        let mut inner = self.inner.clone();
        Ok(self.response(self.config.timeouts.call, inner.cancel(request)).await?.was_running)
    }

    /// Opens a run that this client publishes. To continue a run after a lost connection, see [`Publisher::resume`].
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn publish(&self, request: PublishRequest) -> Result<Publisher, Error> {
        let opening =
            Publisher::open(self.inner.clone(), |stream| self.request(stream), &self.config, request);
        let late = |_| Error::Timeout { what: "opening the publisher" };
        tokio::time::timeout(self.config.timeouts.open, opening).await.map_err(late)?
    }

    /// Wraps a message in a request with the token of the client.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.config.token {
            request.metadata_mut().insert("authorization", token.value());
        }
        request
    }

    /// Wraps a message in a request with the deadline `timeouts.call`.
    fn short_request<T>(&self, message: T) -> Request<T> {
        let mut request = self.request(message);
        request.set_timeout(self.config.timeouts.call);
        request
    }

    /// Waits for a response within `limit`, and converts a status into an error.
    async fn response<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Error> {
        let response = tokio::time::timeout(limit, call).await;
        let response = response.map_err(|_| Error::Timeout { what: "the call" })?;
        Ok(response.map_err(to_error)?.into_inner())
    }

    /// Opens a stream of events within `timeouts.open`.
    async fn open_stream(
        &self,
        after: u64,
        call: impl Future<Output = Result<tonic::Response<tonic::Streaming<proto::StreamMessage>>, Status>>,
    ) -> Result<RunStream, Error> {
        let opening = async { RunStream::open(after, call.await.map_err(to_error)?.into_inner()).await };
        let late = |_| Error::Timeout { what: "opening the stream" };
        tokio::time::timeout(self.config.timeouts.open, opening).await.map_err(late)?
    }
}
