//! [`RawServer`]: a service whose messages are bytes, as a tower service.
//!
//! ```text
//! request ──► content type gRPC? ──► draining? ──► one request message, size-limited ──► RawService::call ──► message | stream
//!              └ no: 415                └ UNAVAILABLE                                     └ RawStatus
//! ```
//!
//! Streams of answers are pulled by HTTP/2 ([`RawPump`](super::pump)), and are dropped when the caller disconnects, its deadline elapses, the
//! server closes or the reader stalls. The module knows nothing of the bytes: message types are those of the service.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_core::service::Caller;
use aqueduct_transport_http::{Counters, Total};
use bytes::Bytes;
use futures_core::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, StdError};
use tonic::server::{Grpc, NamedService, ServerStreamingService};

use super::RawStatus;
use super::codec::BytesCodec;
use super::pump::RawPump;
use crate::call::Call;
use crate::config::Config;
use crate::driver::Shared;
use crate::server::{TimedBody, admitted, refused, stall_watched};
use crate::stall::{StallWatch, WatchedStream};

/// The prefix of gRPC content types.
const GRPC: &[u8] = b"application/grpc";

/// The messages of an answer, in order; an error is the last item. Dropped when the caller disconnects.
pub type Payloads = Pin<Box<dyn Stream<Item = Result<Bytes, RawStatus>> + Send>>;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawCall {
    /// The method, without the service.
    pub method: String,
    /// The requested host, with its port if the request has one.
    pub authority: Option<String>,
    /// The caller; its headers are the metadata.
    pub caller: Caller,
    /// The request message.
    pub message: Bytes,
}

/// The answer to a call.
pub enum RawAnswer {
    /// One message.
    Message(Bytes),
    /// A stream of messages.
    Stream(Payloads),
}

impl fmt::Debug for RawAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.debug_tuple("Message").field(&message.len()).finish(),
            Self::Stream(_) => f.write_str("Stream(…)"),
        }
    }
}

/// A service whose messages are bytes.
pub trait RawService: Send + Sync + 'static {
    /// Package and name of the service, as in paths.
    const NAME: &'static str;

    /// Answers a call. The future is dropped if the caller disconnects, its deadline elapses or the server closes.
    fn call(&self, call: RawCall) -> impl Future<Output = Result<RawAnswer, RawStatus>> + Send;
}

/// A [`RawService`] as a gRPC service. Clones share it.
pub struct RawServer<S> {
    service: Arc<S>,
    shared: Arc<Shared>,
    stalls: Arc<StallWatch>,
}

impl<S> Clone for RawServer<S> {
    fn clone(&self) -> Self {
        let (service, shared) = (Arc::clone(&self.service), Arc::clone(&self.shared));
        Self { service, shared, stalls: Arc::clone(&self.stalls) }
    }
}

impl<S: RawService> fmt::Debug for RawServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawServer").field("name", &S::NAME).finish_non_exhaustive()
    }
}

impl<S: RawService> RawServer<S> {
    /// Returns the service with limits and counters of its own.
    pub fn new(service: Arc<S>, config: &Config) -> Self {
        Self::sharing(service, Arc::new(Shared::new(config)), StallWatch::new(config.timeouts.write_stall))
    }

    /// Returns the service with the limits and counters of another.
    pub(crate) fn sharing(service: Arc<S>, shared: Arc<Shared>, stalls: Arc<StallWatch>) -> Self {
        Self { service, shared, stalls }
    }

    /// Returns the live counts.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }
}

impl<S: RawService> NamedService for RawServer<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for RawServer<S>
where
    S: RawService,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !is_grpc(request.headers()) {
            return Box::pin(async { Ok(not_grpc()) });
        }
        if let Some(refused) = refused(request.extensions(), &self.shared) {
            return Box::pin(async { Ok(refused) });
        }
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let named = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(http::uri::Authority::as_str).or(named);
        let authority = authority.map(str::to_owned);
        let (limit, statuses) = (self.shared.timeouts.request, self.shared.statuses);
        let request = admitted(request).map(|body| TimedBody::new(body, Some(limit), statuses));
        // A unary response is a stream of one message on the wire, so one handler serves both.
        let mut grpc = Grpc::new(BytesCodec).max_decoding_message_size(self.shared.limits.request_bytes);
        let handler = Handler { server: self.clone(), method, authority };
        Box::pin(async move { Ok(stall_watched(grpc.server_streaming(handler, request).await)) })
    }
}

/// Returns `true` for `application/grpc` with or without a suffix (`+proto`, parameters).
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], http::HeaderValue::as_bytes);
    kind.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
}

/// Returns a plain HTTP response for a client that does not use gRPC, as the protocol requires.
fn not_grpc() -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// One call of a [`RawServer`].
struct Handler<S> {
    server: RawServer<S>,
    method: String,
    authority: Option<String>,
}

impl<S: RawService> ServerStreamingService<Bytes> for Handler<S> {
    type Response = Bytes;
    type ResponseStream = WatchedStream<RawPump>;
    type Future = BoxFuture<tonic::Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let (server, method) = (self.server.clone(), std::mem::take(&mut self.method));
        let authority = self.authority.take();
        Box::pin(async move {
            let answer = server.answer(method, authority, request).await;
            if answer.is_err() {
                server.shared.counters.count(Total::Refusals);
            }
            answer.map(tonic::Response::new)
        })
    }
}

impl<S: RawService> RawServer<S> {
    /// Calls the service, and wraps its response as a stream that the watchdog observes.
    async fn answer(
        &self,
        method: String,
        authority: Option<String>,
        request: tonic::Request<Bytes>,
    ) -> Result<WatchedStream<RawPump>, Status> {
        let Call { caller, bounds } = Call::of(&request);
        let (shared, message) = (&self.shared, request.into_inner());
        let call = self.service.call(RawCall { method, authority, caller, message });
        let answer = bounds.within(shared.statuses, call).await??;
        let payloads: Payloads = match answer {
            RawAnswer::Message(message) => Box::pin(futures_util::stream::iter([Ok(message)])),
            RawAnswer::Stream(payloads) => payloads,
        };
        Ok(self.stalls.watch(RawPump::new(payloads, &bounds, Arc::clone(shared))))
    }
}
