//! [`Client`]: calls of the service with core types.
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
//! A [`Client`] is one connection, which reconnects when it is lost; calls are not repeated. The caller continues a stream
//! that was cut: by [`watch`](Client::watch) after [`RunStream::last`], or by [`resume`](Publisher::resume) of a
//! publisher.

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

/// A connection to a service. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: AgentStreamClient<Channel>,
    config: ClientConfig,
}

/// A bearer token. Omitted from logs.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Returns a token, given without the word `Bearer`.
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

    /// Uses a connection that is open already: a Unix socket, a tunnel, or a pipe in the same process. It is not opened
    /// again once it is lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not speak HTTP/2 on it.
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
        let request = self.short(proto::ListAgentsRequest {});
        let mut inner = self.inner.clone();
        let agents = self.answered(self.config.timeouts.call, inner.list_agents(request)).await?.agents;
        let info = |agent: proto::AgentInfo| {
            let name = text("agent.name", agent.name)?.to_string();
            Ok(AgentInfo { name, description: text("agent.description", agent.description)?.to_string() })
        };
        agents.into_iter().map(info).collect()
    }

    /// Starts a run of `agent`.
    ///
    /// # Errors
    ///
    /// Returns an error if the input has no form in `aqueduct.v1`, the service refuses, or cannot be reached in time.
    pub async fn run(&self, agent: &str, input: &RunInput) -> Result<RunStream, Error> {
        let request =
            proto::RunRequest { agent: agent.to_owned().into(), input: Some(input_to_proto(input)?) };
        let mut inner = self.inner.clone();
        let request = self.request(request);
        self.opened(0, async move { inner.run(request).await }).await
    }

    /// Starts a run and returns it as one value after its end. Waits as long as the run takes: wrap the future in a timeout if
    /// needed. Dropping it ends the watch, not the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, cannot be reached, or loses the run. A run that failed is not an error:
    /// [`CompletedRun::outcome`] holds its failure.
    pub async fn complete(&self, agent: &str, input: &RunInput) -> Result<CompletedRun, Error> {
        let request =
            proto::RunRequest { agent: agent.to_owned().into(), input: Some(input_to_proto(input)?) };
        let mut inner = self.inner.clone();
        let answer = inner.complete(self.request(request)).await.map_err(to_error)?;
        Ok(completed_from_proto(answer.into_inner())?)
    }

    /// Watches a run from the event after number `after` on.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn watch(&self, run: &RunId, after: u64) -> Result<RunStream, Error> {
        let mut inner = self.inner.clone();
        let request = self.request(proto::WatchRequest { run_id: to_bytes(run.as_bytes()), after });
        self.opened(after, async move { inner.watch(request).await }).await
    }

    /// Cancels a run. Returns `true` if it was running.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or cannot be reached in time.
    pub async fn cancel(&self, run: &RunId) -> Result<bool, Error> {
        let request = self.short(proto::CancelRequest { run_id: to_bytes(run.as_bytes()) });
        let mut inner = self.inner.clone();
        Ok(self.answered(self.config.timeouts.call, inner.cancel(request)).await?.was_running)
    }

    /// Opens a run that this client publishes. Publishing the same run again continues it: see [`Publisher::resume`].
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

    /// Returns a request with a short deadline.
    fn short<T>(&self, message: T) -> Request<T> {
        let mut request = self.request(message);
        request.set_timeout(self.config.timeouts.call);
        request
    }

    /// Waits for the answer within `timeouts.call`, and converts a status into an error.
    async fn answered<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Error> {
        let answer = tokio::time::timeout(limit, call).await;
        let answer = answer.map_err(|_| Error::Timeout { what: "the call" })?;
        Ok(answer.map_err(to_error)?.into_inner())
    }

    /// Opens a stream of events within `timeouts.open`.
    async fn opened(
        &self,
        after: u64,
        call: impl Future<Output = Result<tonic::Response<tonic::Streaming<proto::StreamMessage>>, Status>>,
    ) -> Result<RunStream, Error> {
        let opening = async { RunStream::open(after, call.await.map_err(to_error)?.into_inner()).await };
        let late = |_| Error::Timeout { what: "opening the stream" };
        tokio::time::timeout(self.config.timeouts.open, opening).await.map_err(late)?
    }
}
