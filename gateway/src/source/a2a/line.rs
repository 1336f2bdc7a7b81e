//! The two ways to an agent: HTTP with its JSON, and gRPC. Both end in what the adapter's client is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::call::{Call, HttpRequest};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::pb::answer::{read_event, read_task_answer};
use aqueduct_adapter_a2a::version::{Binding, Version};
use aqueduct_adapter_a2a::wire::{StreamItem, WireError};
use aqueduct_transport_grpc::raw::{RawClient, RawError, RawRequest, RawStatus, RawStream};
use aqueduct_transport_grpc::{
    ClientConfig as GrpcConfig, ClientError as GrpcError, ClientLimits as GrpcLimits,
    ClientTimeouts as GrpcTimeouts, TlsError,
};
use aqueduct_transport_http::{ClientError, SseStream, sse};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Response;

use super::super::Ask;
use super::super::upstream::{Forwarded, Upstream};
use super::endpoint::Known;
use crate::config::Agent;
use crate::tls;

/// JSON-RPC ids, unique in the process: some servers take a repeated one for a repetition.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);
/// What gRPC calls `UNAVAILABLE`.
const UNAVAILABLE: i32 = 14;

/// How gRPC is spoken with an agent.
#[derive(Debug, Clone)]
pub(crate) struct GrpcSettings {
    config: GrpcConfig,
    idle: Duration,
}

impl GrpcSettings {
    /// As the agent is configured.
    pub(crate) fn of(agent: &Agent) -> Result<Self, TlsError> {
        let tls = tls::of_client(agent.tls.as_ref())?;
        let timeouts = GrpcTimeouts {
            connect: agent.timeouts.connect,
            call: agent.timeouts.response,
            open: agent.timeouts.response,
            ..GrpcTimeouts::default()
        };
        let limits = GrpcLimits { message_bytes: agent.limits.frame, ..GrpcLimits::default() };
        let config = GrpcConfig { limits, timeouts, tls, ..GrpcConfig::default() };
        Ok(Self { config, idle: agent.timeouts.idle })
    }
}

/// What came of a request.
pub(super) enum Answer {
    Stream(Box<Stream>),
    /// A response of HTTP.
    Whole(Response<Bytes>),
    /// An answer of gRPC; nothing if it held neither a task nor a message.
    Item(Option<Box<StreamItem<'static>>>),
    /// The agent said no, by a status of gRPC.
    Refused(WireError),
    /// There was no answer.
    Failed {
        what: String,
        /// True if nobody was there.
        unreachable: bool,
    },
}

impl Answer {
    fn failed(what: String) -> Self {
        Self::Failed { what, unreachable: false }
    }
}

/// A stream that was opened.
pub(super) struct Stream {
    /// What it was opened for.
    pub(super) purpose: Purpose,
    /// True until it has said something.
    pub(super) is_fresh: bool,
    kind: Kind,
}

enum Kind {
    Sse(Box<SseStream>),
    Grpc { stream: Box<RawStream>, version: Version, idle: Duration },
}

/// What a stream says.
pub(super) enum Heard {
    /// An event whose payload is the adapter's to read.
    Frame(sse::Event),
    /// An event that is read.
    Item(Box<StreamItem<'static>>),
    /// A sign of life.
    Nothing,
    /// The agent ended it with a status.
    Status(WireError),
    /// It broke off.
    Cut(String),
    /// It ended.
    End,
}

impl Heard {
    fn of(event: Result<sse::Event, ClientError>) -> Self {
        event.map_or_else(|error| Self::Cut(error.to_string()), Self::Frame)
    }
}

impl Stream {
    /// What was read already, if anything.
    pub(super) fn ready(&mut self) -> Option<Heard> {
        match &mut self.kind {
            Kind::Sse(stream) => stream.ready_event().map(Heard::of),
            Kind::Grpc { .. } => None,
        }
    }

    pub(super) async fn next(&mut self) -> Heard {
        match &mut self.kind {
            Kind::Sse(stream) => stream.next().await.map_or(Heard::End, Heard::of),
            Kind::Grpc { stream, version, idle } => match tokio::time::timeout(*idle, stream.next()).await {
                Err(_) => Heard::Cut(format!("the agent sent nothing for {idle:?} (timeout `idle`)")),
                Ok(None) => Heard::End,
                Ok(Some(Err(status))) => Heard::Status(wire_error(&status)),
                Ok(Some(Ok(message))) => match read_event(*version, &message) {
                    Ok(Some(item)) => Heard::Item(Box::new(item)),
                    Ok(None) => Heard::Nothing,
                    Err(error) => Heard::Cut(error.to_string()),
                },
            },
        }
    }
}

/// Sends a call by the way that the endpoint speaks.
pub(super) async fn send(upstream: &Upstream, known: &Known, ask: &Ask, planned: &Planned) -> Answer {
    let Planned { purpose, call, version, .. } = planned;
    match known.endpoint.binding {
        Binding::Grpc => send_grpc(upstream, known, ask, *purpose, call).await,
        Binding::JsonRpc | Binding::HttpJson => {
            let mut endpoint = known.endpoint.clone();
            endpoint.version = version.unwrap_or(endpoint.version);
            send_http(upstream, &endpoint, ask, *purpose, call).await
        }
    }
}

/// A call as a request of HTTP, and whether a stream is to come back; or why it cannot be made.
pub(super) fn http_request(
    upstream: &Upstream,
    endpoint: &Endpoint,
    forwarded: &Forwarded,
    call: &Call,
) -> Result<(http::Request<Bytes>, bool), String> {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let request = endpoint.http_request(call, id).map_err(|error| error.to_string())?;
    let HttpRequest { method, url, headers, body, streaming } = request;
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok((upstream.request(method, &url, &headers, forwarded, body.into())?, streaming))
}

async fn send_http(
    upstream: &Upstream,
    endpoint: &Endpoint,
    ask: &Ask,
    purpose: Purpose,
    call: &Call,
) -> Answer {
    let (request, streaming) = match http_request(upstream, endpoint, &ask.forwarded, call) {
        Ok(request) => request,
        Err(what) => return Answer::failed(what),
    };
    let failed = |error: ClientError| Answer::Failed {
        unreachable: matches!(error, ClientError::Connect { .. }),
        what: error.to_string(),
    };
    if streaming {
        return match upstream.client.open_stream(request).await {
            Ok(stream) => Answer::Stream(Box::new(Stream {
                purpose,
                is_fresh: true,
                kind: Kind::Sse(Box::new(stream)),
            })),
            Err(ClientError::NotAStream(response)) => Answer::Whole(*response),
            Err(error) => failed(error),
        };
    }
    upstream.client.request(request).await.map_or_else(failed, Answer::Whole)
}

async fn send_grpc(upstream: &Upstream, known: &Known, ask: &Ask, purpose: Purpose, call: &Call) -> Answer {
    let request = match known.endpoint.grpc_request(call) {
        Ok(request) => request,
        Err(error) => return Answer::failed(error.to_string()),
    };
    let streaming = request.streaming;
    let metadata: Vec<(&str, &str)> = request.metadata.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let url = format!("{}{}", known.endpoint.url.trim_end_matches('/'), request.path);
    // What is added to requests of HTTP is added here too; metadata of gRPC are headers of HTTP.
    let head = match upstream.request("POST", &url, &metadata, &ask.forwarded, Bytes::new()) {
        Ok(head) => head,
        Err(what) => return Answer::failed(what),
    };
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let metadata = head.headers().iter().filter_map(text).collect();
    let request = RawRequest { path: request.path, metadata, message: request.message.into() };
    let client = match known.grpc_client().await {
        Ok(client) => client,
        Err(error) => return grpc_failed(error.into()),
    };
    let version = known.endpoint.version;
    if streaming {
        return match client.stream(request).await {
            Ok(stream) => {
                let kind = Kind::Grpc { stream: Box::new(stream), version, idle: known.grpc.idle };
                Answer::Stream(Box::new(Stream { purpose, is_fresh: true, kind }))
            }
            Err(error) => grpc_failed(error),
        };
    }
    match client.unary(request).await {
        Ok(message) => match read_task_answer(call, version, &message) {
            Ok(item) => Answer::Item(item.map(Box::new)),
            Err(error) => Answer::failed(error.to_string()),
        },
        Err(error) => grpc_failed(error),
    }
}

fn grpc_failed(error: RawError) -> Answer {
    match error {
        // What a lost connection looks like, too: the agent may be elsewhere by now.
        RawError::Status(status) if status.code == UNAVAILABLE && status.details.is_empty() => {
            Answer::Failed { what: status.message, unreachable: true }
        }
        RawError::Status(status) => Answer::Refused(wire_error(&status)),
        RawError::Client(error) => Answer::Failed {
            unreachable: matches!(error, GrpcError::Connect { .. }),
            what: error.to_string(),
        },
        other => Answer::failed(other.to_string()),
    }
}

fn wire_error(status: &RawStatus) -> WireError {
    WireError::from_grpc(status.code, &status.message, &status.details)
}

impl Known {
    /// The connection, made when it is first needed. It mends itself after that.
    async fn grpc_client(&self) -> Result<&RawClient, GrpcError> {
        let connect = || RawClient::connect(&self.endpoint.url, self.grpc.config.clone());
        self.connection.get_or_try_init(connect).await
    }
}
