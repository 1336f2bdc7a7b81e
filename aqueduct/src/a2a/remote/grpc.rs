//! Sends calls to an agent over gRPC.
//!
//! ```text
//! Call ──► path, metadata, message (adapter-a2a) ──► RawClient ──► message | stream of messages ──► wire types
//!           └ headers, credentials and trace context of a call over HTTP, as metadata
//! ```
//!
//! The observer of calls (limits, circuit, telemetry) sees a gRPC call as it sees one over HTTP. Retries and resumption are decided by
//! [`TaskClient`](aqueduct_adapter_a2a::TaskClient), not here.
//!
//! Limits: `connect_timeout`, `response_timeout` for unary calls and for the head of a stream, `idle_timeout` between two messages,
//! `frame_bytes` for one message.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_adapter_a2a::call::Call;
use aqueduct_adapter_a2a::client::Purpose;
use aqueduct_adapter_a2a::pb::answer::{read_event, read_task_answer};
use aqueduct_adapter_a2a::version::Version;
use aqueduct_adapter_a2a::wire::WireError;
use aqueduct_core::RunFailure;
use aqueduct_core::agent::CallContext;
use aqueduct_transport_grpc::raw::{RawClient, RawRequest, RawStatus, RawStream};
use aqueduct_transport_grpc::{ClientConfig, ClientLimits, ClientTimeouts, Error as GrpcError};
use aqueduct_transport_http::{CallGuard, Error as HttpError};
use bytes::Bytes;
use futures_core::Stream as _;
use http::StatusCode;
use tokio::sync::OnceCell;
use tokio::time::{Instant, Sleep};

use super::connection::{Answer, Incoming, Stream};
use super::endpoint::ResolvedCard;
use crate::remote::{Connection, RemoteSettings, TIMEOUT, UNREACHABLE, failure_code};

/// The status code `UNAVAILABLE`.
const UNAVAILABLE: i32 = 14;

/// The connection to one endpoint, opened by the first call. It reconnects by itself.
#[derive(Debug)]
pub(super) struct GrpcConnection {
    url: String,
    config: ClientConfig,
    idle: Duration,
    client: OnceCell<RawClient>,
}

impl GrpcConnection {
    /// Returns an unconnected client with the timeouts and limits of `settings`.
    pub(super) fn new(url: String, settings: &RemoteSettings) -> Self {
        let timeouts = ClientTimeouts {
            connect: settings.connect_timeout,
            call: settings.response_timeout,
            open: settings.response_timeout,
            ..ClientTimeouts::default()
        };
        let limits = ClientLimits { message_bytes: settings.frame_bytes, ..ClientLimits::default() };
        let config = ClientConfig {
            limits,
            timeouts,
            #[cfg(feature = "tls")]
            tls: settings.tls.clone(),
            ..ClientConfig::default()
        };
        Self { url, config, idle: settings.idle_timeout, client: OnceCell::new() }
    }

    /// Returns the client; connects on the first call.
    async fn client(&self) -> Result<&RawClient, GrpcError> {
        let connect = || RawClient::connect(&self.url, self.config.clone());
        self.client.get_or_try_init(connect).await
    }
}

/// The messages of a stream.
pub(super) struct Messages {
    stream: RawStream,
    version: Version,
    idle: Duration,
    /// The idle timer, created when the stream is first awaited and reset for each message.
    timer: Option<Pin<Box<Sleep>>>,
    received_at: Instant,
    /// Observes the call until its stream is dropped.
    guard: Option<Box<dyn CallGuard>>,
}

impl Messages {
    /// Polls the next message, or reports a cut after the idle timeout.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        let Poll::Ready(message) = Pin::new(&mut self.stream).poll_next(cx) else {
            return self.poll_idle(cx);
        };
        self.received_at = Instant::now();
        Poll::Ready(match message {
            None => Incoming::End,
            Some(Err(status)) => {
                self.guard = None;
                Incoming::Status(wire_error(&status))
            }
            Some(Ok(message)) => match read_event(self.version, &message) {
                Ok(Some(item)) => Incoming::Item(Box::new(item)),
                Ok(None) => Incoming::Nothing,
                Err(error) => Incoming::Cut(error.to_string(), RunFailure::UPSTREAM_ENDED),
            },
        })
    }

    /// Returns [`Incoming::Cut`] once no message has arrived for `idle`.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        let due = self.received_at + self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if due <= Instant::now() {
                let idle = self.idle;
                return Poll::Ready(Incoming::Cut(
                    format!("the agent sent nothing for {idle:?} (timeout `idle`)"),
                    TIMEOUT,
                ));
            }
            timer.as_mut().reset(due);
        }
    }
}

/// Sends a call, and reports its result to the observer of calls.
pub(super) async fn send(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    purpose: Purpose,
    call: &Call,
) -> Answer {
    let (request, streaming, mut guard) = match raw_request(connection, card, context, call).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let client = match card.grpc.client().await {
        Ok(client) => client,
        Err(error) => return guarded(failed(error), &mut guard, &card.endpoint.url),
    };
    let version = card.endpoint.version;
    if streaming {
        return match client.stream(request).await {
            Ok(stream) => {
                let (idle, received_at) = (card.grpc.idle, Instant::now());
                if let Some(guard) = &mut guard {
                    guard.handle_head(StatusCode::OK);
                }
                let messages = Messages { stream, version, idle, timer: None, received_at, guard };
                Answer::Stream(Box::new(Stream::grpc(purpose, messages)))
            }
            Err(error) => guarded(failed(error), &mut guard, &card.endpoint.url),
        };
    }
    let answer = match client.unary(request).await {
        Ok(message) => match read_task_answer(call, version, &message) {
            Ok(item) => Answer::Item(item.map(Box::new)),
            Err(error) => Answer::failed(error.to_string()),
        },
        Err(error) => failed(error),
    };
    guarded(answer, &mut guard, &card.endpoint.url)
}

/// Reports the result of a call to its guard. A refusal counts as reached: the agent has responded.
fn guarded(answer: Answer, guard: &mut Option<Box<dyn CallGuard>>, url: &str) -> Answer {
    match (&answer, guard) {
        (Answer::Failed { reason, code }, Some(guard)) if *code == UNREACHABLE => {
            guard.handle_failure(&HttpError::Connect { upstream: url.to_owned(), reason: reason.clone() });
        }
        (Answer::Failed { reason, .. }, Some(guard)) => {
            guard.handle_failure(&HttpError::Cut { upstream: url.to_owned(), reason: reason.clone() });
        }
        (_, Some(guard)) => guard.handle_head(StatusCode::OK),
        (_, None) => {}
    }
    answer
}

/// Returns a call as a request, whether its response is a stream, and its guard.
async fn raw_request(
    connection: &Connection,
    card: &ResolvedCard,
    context: &dyn CallContext,
    call: &Call,
) -> Result<(RawRequest, bool, Option<Box<dyn CallGuard>>), Answer> {
    let request = card.endpoint.grpc_request(call).map_err(|error| Answer::failed(error.to_string()))?;
    let metadata: Vec<(&str, &str)> = request.metadata.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let url = format!("{}{}", card.endpoint.url.trim_end_matches('/'), request.path);
    // gRPC metadata are HTTP headers: a call carries the same as one over HTTP.
    let head = connection.request("POST", &url, &metadata, context, Bytes::new()).map_err(Answer::failed)?;
    let (mut head, _) = head.into_parts();
    let guard = connection.client().begin_call(&mut head).await;
    let guard =
        guard.map_err(|error| Answer::Failed { code: failure_code(&error), reason: error.to_string() })?;
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let metadata = head.headers.iter().filter_map(text).collect();
    let raw = RawRequest { path: request.path, metadata, message: request.message.into() };
    Ok((raw, request.streaming, guard))
}

/// Converts an error of the client: a refusal keeps its status, a lost connection becomes [`UNREACHABLE`].
fn failed(error: GrpcError) -> Answer {
    match error {
        // A lost connection has this status too: the agent may have moved.
        GrpcError::Raw(status) if status.code == UNAVAILABLE && status.details.is_empty() => {
            Answer::Failed { reason: status.message, code: UNREACHABLE }
        }
        GrpcError::Raw(status) => Answer::Refused(wire_error(&status)),
        GrpcError::Connect { .. } => Answer::Failed { reason: error.to_string(), code: UNREACHABLE },
        _ => Answer::Failed { reason: error.to_string(), code: RunFailure::UPSTREAM_ENDED },
    }
}

/// Converts a gRPC status into an error of the wire model.
fn wire_error(status: &RawStatus) -> WireError {
    WireError::from_grpc(status.code, &status.message, &status.details)
}
