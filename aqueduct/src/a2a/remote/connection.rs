//! Calls to an agent over HTTP or gRPC. Both end in the inputs of the adapter's client.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use aqueduct_adapter_a2a::call::{Call, HttpRequest, TaskRef};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::{StreamItem, WireError};
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;
use aqueduct_transport_http::{ClientError, SseStream, sse};
use bytes::Bytes;
use futures_core::Stream as _;
use http::Response;

use super::endpoint::ResolvedCard;
#[cfg(feature = "grpc")]
use super::grpc;
use crate::remote::{Connection, failure_code};

/// JSON-RPC ids, unique in the process: some servers treat a repeated id as a repetition.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The answer to a request.
pub(super) enum Answer {
    Stream(Box<Stream>),
    /// A whole HTTP response.
    Whole(Response<Bytes>),
    /// A gRPC answer; `None` if it held neither a task nor a message.
    #[cfg(feature = "grpc")]
    Item(Option<Box<StreamItem<'static>>>),
    /// The agent refused, by a gRPC status.
    #[cfg(feature = "grpc")]
    Refused(WireError),
    /// The task of a message whose answer was lost, or the reason why there is none.
    Found(Result<TaskRef, String>),
    /// There was no answer.
    Failed {
        reason: String,
        /// The code of a run that fails by it.
        code: &'static str,
    },
}

impl Answer {
    pub(super) fn failed(reason: String) -> Self {
        Self::Failed { reason, code: RunFailure::UPSTREAM_ENDED }
    }
}

/// An open stream.
pub(super) struct Stream {
    /// The request that opened it.
    pub(super) purpose: Purpose,
    /// `true` until its first event.
    pub(super) is_fresh: bool,
    kind: Kind,
}

enum Kind {
    Sse(Box<SseStream>),
    #[cfg(feature = "grpc")]
    Grpc(Box<grpc::Messages>),
}

/// What a stream brings.
pub(super) enum Incoming {
    /// An event that the adapter parses.
    Frame(sse::Event),
    /// A parsed event.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "gRPC alone sends parsed events"))]
    Item(Box<StreamItem<'static>>),
    /// A keep-alive.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "the SSE decoder leaves keep-alives out"))]
    Nothing,
    /// The agent ended the stream with a status.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "gRPC alone ends streams with a status"))]
    Status(WireError),
    /// The stream was cut: the reason, and the code of a run that fails by it.
    Cut(String, &'static str),
    /// The stream ended.
    End,
}

impl Incoming {
    fn of(event: Result<sse::Event, ClientError>) -> Self {
        event.map_or_else(|error| Self::Cut(error.to_string(), failure_code(&error)), Self::Frame)
    }
}

impl Stream {
    fn sse(purpose: Purpose, stream: SseStream) -> Self {
        Self { purpose, is_fresh: true, kind: Kind::Sse(Box::new(stream)) }
    }

    #[cfg(feature = "grpc")]
    pub(super) fn grpc(purpose: Purpose, messages: grpc::Messages) -> Self {
        Self { purpose, is_fresh: true, kind: Kind::Grpc(Box::new(messages)) }
    }

    /// Returns an event that was read already.
    pub(super) fn ready(&mut self) -> Option<Incoming> {
        match &mut self.kind {
            Kind::Sse(stream) => stream.ready_event().map(Incoming::of),
            #[cfg(feature = "grpc")]
            Kind::Grpc(_) => None,
        }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        match &mut self.kind {
            Kind::Sse(stream) => {
                Pin::new(&mut **stream).poll_next(cx).map(|event| event.map_or(Incoming::End, Incoming::of))
            }
            #[cfg(feature = "grpc")]
            Kind::Grpc(messages) => messages.poll_next(cx),
        }
    }
}

/// Sends a call by the binding of the endpoint.
pub(super) async fn send(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    planned: &Planned,
) -> Answer {
    let Planned { purpose, call, version, .. } = planned;
    match card.endpoint.binding {
        #[cfg(feature = "grpc")]
        Binding::Grpc => grpc::send(connection, card, context, *purpose, call).await,
        #[cfg(not(feature = "grpc"))]
        Binding::Grpc => Answer::failed("A2A over gRPC needs the feature `grpc`".to_owned()),
        Binding::JsonRpc | Binding::HttpJson => {
            let mut endpoint = card.endpoint.clone();
            endpoint.version = version.unwrap_or(endpoint.version);
            send_http(connection, &endpoint, context, *purpose, call).await
        }
    }
}

/// Returns a call as an HTTP request, and whether its answer is a stream; or the reason why it cannot be built.
pub(super) fn http_request(
    connection: &Connection,
    endpoint: &Endpoint,
    context: &dyn CallContext,
    call: &Call,
) -> Result<(http::Request<Bytes>, bool), String> {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let request = endpoint.http_request(call, id).map_err(|error| error.to_string())?;
    let HttpRequest { method, url, headers, body, streaming } = request;
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok((connection.request(method, &url, &headers, context, body.into())?, streaming))
}

async fn send_http(
    connection: &Connection,
    endpoint: &Endpoint,
    context: &dyn CallContext,
    purpose: Purpose,
    call: &Call,
) -> Answer {
    let (request, streaming) = match http_request(connection, endpoint, context, call) {
        Ok(request) => request,
        Err(reason) => return Answer::failed(reason),
    };
    let failed =
        |error: ClientError| Answer::Failed { code: failure_code(&error), reason: error.to_string() };
    if streaming {
        return match connection.client().open_stream(request).await {
            Ok(stream) => Answer::Stream(Box::new(Stream::sse(purpose, stream))),
            Err(ClientError::NotAStream(response)) => Answer::Whole(*response),
            Err(error) => failed(error),
        };
    }
    connection.client().request(request).await.map_or_else(failed, Answer::Whole)
}
