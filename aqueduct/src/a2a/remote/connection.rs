//! Sends calls to an agent over HTTP or gRPC. The responses of both are inputs of the adapter's client.

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_adapter_a2a::call::{Call, HttpRequest, TaskRef};
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::client::{Planned, Purpose};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::wire::{StreamItem, WireError};
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;
use aqueduct_transport_http::{Error as HttpError, SseStream, sse};
use bytes::Bytes;
use futures_core::Stream as _;
use http::Response;

use super::endpoint::ResolvedCard;
#[cfg(feature = "grpc")]
use super::grpc;
use crate::remote::{Connection, failure_code};

/// The response to a request.
pub(super) enum Answer {
    Stream(Box<Stream>),
    /// A complete HTTP response.
    Whole(Response<Bytes>),
    /// A gRPC response; `None` if it contained neither a task nor a message.
    #[cfg(feature = "grpc")]
    Item(Option<Box<StreamItem<'static>>>),
    /// The agent refused with a gRPC status.
    #[cfg(feature = "grpc")]
    Refused(WireError),
    /// The task of a message whose response was lost, or the reason why it was not found.
    Found(Result<TaskRef, String>),
    /// No response arrived.
    Failed {
        reason: String,
        /// The code of a run that fails for this reason.
        code: &'static str,
    },
}

impl Answer {
    /// Returns a failure with the code of a cut stream.
    pub(super) fn failed(reason: String) -> Self {
        Self::Failed { reason, code: RunFailure::UPSTREAM_ENDED }
    }
}

/// An open stream.
pub(super) struct Stream {
    /// The request that opened it.
    pub(super) purpose: Purpose,
    /// Set until the first event.
    pub(super) is_fresh: bool,
    kind: Kind,
}

/// The transport of a stream.
enum Kind {
    Sse(Box<SseStream>),
    #[cfg(feature = "grpc")]
    Grpc(Box<grpc::Messages>),
}

/// The input of a stream.
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
    /// Converts an event of an SSE stream; an error becomes a cut.
    fn of(event: Result<sse::Event, HttpError>) -> Self {
        event.map_or_else(|error| Self::Cut(error.to_string(), failure_code(&error)), Self::Frame)
    }
}

impl Stream {
    /// Wraps an SSE stream that `purpose` opened.
    fn sse(purpose: Purpose, stream: SseStream) -> Self {
        Self { purpose, is_fresh: true, kind: Kind::Sse(Box::new(stream.without_headers())) }
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

    /// Polls the next input. [`Incoming::End`] or [`Incoming::Cut`] is the last one.
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

/// Sends a call over the binding of the endpoint.
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

/// Returns a call as an HTTP request, and whether its response is a stream; or the reason why the call cannot be
/// encoded.
pub(super) fn http_request(
    connection: &Connection,
    endpoint: &Endpoint,
    context: &dyn CallContext,
    call: &Call,
) -> Result<(http::Request<Bytes>, bool), String> {
    let request =
        endpoint.http_request(call, connection.next_call_id()).map_err(|error| error.to_string())?;
    let HttpRequest { method, url, headers, body, streaming } = request;
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok((connection.request(method, &url, &headers, context, body.into())?, streaming))
}

/// Sends a call over HTTP. A response that is not the requested stream is returned complete, so that the adapter can
/// parse it.
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
    let failed = |error: HttpError| Answer::Failed { code: failure_code(&error), reason: error.to_string() };
    if streaming {
        return match connection.client().open_stream(request).await {
            Ok(stream) => Answer::Stream(Box::new(Stream::sse(purpose, stream))),
            Err(HttpError::NotAStream(response)) => Answer::Whole(*response),
            Err(error) => failed(error),
        };
    }
    connection.client().request(request).await.map_or_else(failed, Answer::Whole)
}
