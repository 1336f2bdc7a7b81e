//! [`RawClient`]: calls of any path with bytes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::RawStatus;
use super::codec::BytesCodec;
use crate::client::channel;
use crate::config::ClientConfig;
use crate::error::Error;

/// A connection to any gRPC server. Clones share it.
#[derive(Debug, Clone)]
pub struct RawClient {
    channel: Channel,
    config: ClientConfig,
}

/// A request to any path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawRequest {
    /// `/service/method`.
    pub path: String,
    /// Text metadata; names in lower case. Values under `authorization` are omitted from logs.
    pub metadata: Vec<(String, String)>,
    /// The request message.
    pub message: Bytes,
}

impl RawClient {
    /// Connects to `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is malformed, TLS cannot be set up, or the server cannot be reached.
    pub async fn connect(address: &str, config: ClientConfig) -> Result<Self, Error> {
        Ok(Self { channel: channel(address, &config).await?, config })
    }

    /// Calls a method with one response message. Its deadline is `timeouts.call`.
    ///
    /// # Errors
    ///
    /// Returns the status of the server, or the reason why it was not reached.
    pub async fn unary(&self, request: RawRequest) -> Result<Bytes, Error> {
        let (path, mut request) = self.request(request)?;
        let limit = self.config.timeouts.call;
        request.set_timeout(limit);
        let mut grpc = self.grpc();
        in_time(limit, "the call", async move {
            ready(&mut grpc).await?;
            grpc.unary(request, path, BytesCodec).await
        })
        .await
    }

    /// Calls a method with a stream of responses. It must open within `timeouts.open`; it has no deadline after that. Some servers
    /// open it only with their first message.
    ///
    /// # Errors
    ///
    /// Returns the status of the server, or the reason why it was not reached.
    pub async fn stream(&self, request: RawRequest) -> Result<RawStream, Error> {
        let (path, request) = self.request(request)?;
        let mut grpc = self.grpc();
        let opening = async move {
            ready(&mut grpc).await?;
            grpc.server_streaming(request, path, BytesCodec).await
        };
        in_time(self.config.timeouts.open, "opening the stream", opening).await.map(RawStream)
    }

    /// Returns a client of the channel with the message limit of the configuration.
    fn grpc(&self) -> tonic::client::Grpc<Channel> {
        tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(self.config.limits.message_bytes)
    }

    /// Builds a request; an invalid path or metadata is an error.
    fn request(&self, raw: RawRequest) -> Result<(PathAndQuery, Request<Bytes>), Error> {
        let path: PathAndQuery = raw.path.parse().map_err(|error: http::uri::InvalidUri| Error::Address {
            address: raw.path.clone(),
            problem: error.to_string(),
        })?;
        let mut request = Request::new(raw.message);
        if let Some(token) = &self.config.token {
            request.metadata_mut().insert("authorization", token.value());
        }
        for (name, value) in raw.metadata {
            let unusable = |_| Error::Metadata { name: name.clone() };
            let key: MetadataKey<Ascii> = name.parse().map_err(|_| Error::Metadata { name: name.clone() })?;
            let mut text: MetadataValue<Ascii> = value.parse().map_err(unusable)?;
            text.set_sensitive(name == "authorization");
            request.metadata_mut().insert(key, text);
        }
        Ok((path, request))
    }
}

/// Waits until the channel can send; a lost connection is reported as unavailable.
async fn ready(grpc: &mut tonic::client::Grpc<Channel>) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unavailable(format!("the connection is gone: {error}")))
}

/// Waits for an answer within the limit.
async fn in_time<T>(
    limit: Duration,
    what: &'static str,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Error> {
    let started = Instant::now();
    let late = Error::Timeout { what };
    match tokio::time::timeout(limit, call).await {
        Err(_) => Err(late),
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        // tonic measures the deadline, too, and may notice it first.
        Ok(Err(status)) if status.code() == Code::Cancelled && started.elapsed() >= limit => Err(late),
        Ok(Err(status)) => Err(Error::Raw(status.into())),
    }
}

/// The messages of a stream, in order. An error is the last item. Dropping the stream cancels the call.
#[derive(Debug)]
pub struct RawStream(Streaming<Bytes>);

impl Stream for RawStream {
    type Item = Result<Bytes, RawStatus>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(Into::into)
    }
}
