//! From a `POST` to a run: reads and checks the body, parses it into a run with the caller's function, starts the run, and
//! streams its events as the response.
//!
//! ```text
//! POST ──► admitted by the service? ──► JSON? ──► body within size and time ──► parse (an adapter's) ──► RunService::start ──► stream_response
//!   └────────────── no at any step: `{"error":{…}}` with its status ──────────────┘
//! ```
//!
//! `parse` interprets the body. This module does not keep a run alive: when the peer disconnects, its events are dropped, and
//! the service decides what that means.

use std::sync::Arc;

use aqueduct_core::service::{Caller, EventEncoder, Proof, RunService, ServiceError};
use aqueduct_core::{RunId, RunInput};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::config::StreamOptions;
use crate::driver::stream_response;
use crate::position::EventPosition;
use crate::refusal::Refusal;
use crate::server::{BodyLimits, BodyTooLong, BodyTooSlow, PeerAddr, PeerCertificate};

/// A parsed request: a run, and the encoder of its events.
pub struct RunRequest {
    /// The input of the run.
    pub input: RunInput,
    /// Encodes the events in the protocol and dialect of the request.
    pub encoder: Box<dyn EventEncoder>,
}

aqueduct_core::debug_fields!(RunRequest { input });

/// Returns a route for one agent: `Router::new().route("/", run_endpoint(service, "name", parse, options))`.
pub fn run_endpoint<P>(
    service: Arc<dyn RunService>,
    agent: impl Into<String>,
    parse: P,
    options: StreamOptions,
) -> MethodRouter
where
    P: Fn(&Parts, &Bytes) -> Result<RunRequest, Refusal> + Clone + Send + Sync + 'static,
{
    let agent: Arc<str> = agent.into().into();
    post(async move |request: Request<Body>| start_run(&*service, &agent, request, parse, &options).await)
}

/// Starts the run of `request` and streams its events. For routes that determine the agent themselves.
pub async fn start_run(
    service: &dyn RunService,
    agent: &str,
    request: Request<Body>,
    parse: impl FnOnce(&Parts, &Bytes) -> Result<RunRequest, Refusal>,
    options: &StreamOptions,
) -> Response {
    let started = async {
        let caller = caller_from(request.headers(), request.extensions());
        service.admit(&caller, Some(agent))?;
        let options = options.for_query(request.uri().query());
        let (parts, body) = read_json(request).await?;
        let RunRequest { input, encoder } = parse(&parts, &body)?;
        let run = service.start(&caller, agent, input).await?;
        Ok(stream_response(&EventPosition::start(run.run_id), run.events, encoder, &options))
    };
    started.await.unwrap_or_else(Refusal::into_response)
}

/// Watches `run` from the position in `Last-Event-ID`, or from the start.
pub async fn watch_run(
    service: &dyn RunService,
    run: &RunId,
    parts: &Parts,
    encoder: Box<dyn EventEncoder>,
    options: &StreamOptions,
) -> Response {
    let watched = async {
        let position = last_position(run, &parts.headers)?;
        let events = service.watch(&caller(parts), run, position.after()).await?;
        Ok(stream_response(&position, events, encoder, &options.for_query(parts.uri.query())))
    };
    watched.await.unwrap_or_else(Refusal::into_response)
}

/// The surface of a request, named by the host: an extension that a host sets before its routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surface(pub &'static str);

/// Returns the caller of a request: token, headers, address and certificate.
pub fn caller(parts: &Parts) -> Caller {
    caller_from(&parts.headers, &parts.extensions)
}

/// Returns the caller from headers (or gRPC metadata) and extensions alone.
pub fn caller_from(headers: &HeaderMap, extensions: &Extensions) -> Caller {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Caller {
        token: bearer_token(headers).map(str::to_owned),
        headers: headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        peer: extensions.get::<PeerAddr>().map(|peer| peer.0.to_string()),
        certificate: extensions.get::<PeerCertificate>().map(|certificate| certificate.0.clone()),
        surface: extensions.get::<Surface>().map_or("", |surface| surface.0),
        proof: extensions.get::<Proof>().cloned().unwrap_or_default(),
    }
}

/// Reads a body with a JSON content type. Any web page can send a form or plain text without preflight, but not JSON. On a
/// server other than [`Server`](crate::Server), which sets no limits, the default ones apply.
///
/// # Errors
///
/// Returns a refusal if the content type is not JSON, or the body is too long, too slow or incomplete.
pub async fn read_json(request: Request<Body>) -> Result<(Parts, Bytes), Refusal> {
    if !is_json(request.headers()) {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    read_body(request).await
}

/// Reads a body of any type, within the same limits. The caller must reject content types that a web page can send without
/// preflight.
///
/// # Errors
///
/// Returns a refusal if the body is too long, too slow or incomplete.
pub async fn read_body(request: Request<Body>) -> Result<(Parts, Bytes), Refusal> {
    let (parts, body) = request.into_parts();
    let limits = parts.extensions.get::<BodyLimits>().cloned().unwrap_or_default();
    let body = tokio::time::timeout(limits.timeout, Limited::new(body, limits.bytes).collect());
    let body = body.await.unwrap_or_else(|_| Err(Box::new(BodyTooSlow)));
    let body = body.map_err(|error| body_refusal(&*error))?;
    Ok((parts, body.to_bytes()))
}

/// Returns the refusal for a body that could not be read: over a quota, too long, too slow, or cut.
fn body_refusal(error: &(dyn std::error::Error + 'static)) -> Refusal {
    if let Some(exceeded) = cause::<ServiceError>(error) {
        Refusal::from(exceeded.clone())
    } else if caused_by::<LengthLimitError>(error) || caused_by::<BodyTooLong>(error) {
        let message = "the body of the request is too long: shorten it, or raise the limit `body_bytes`";
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", message)
    } else if caused_by::<BodyTooSlow>(error) {
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", BodyTooSlow.to_string())
    } else {
        Refusal::invalid("the body of the request was cut: send it again")
    }
}

/// Returns `true` if the chain of causes contains an error of this type.
fn caused_by<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static)) -> bool {
    cause::<E>(error).is_some()
}

/// Returns the first error of this type in the chain of causes.
fn cause<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    std::iter::successors(Some(error), |&error| error.source())
        .find_map(<dyn std::error::Error>::downcast_ref)
}

/// Returns `true` for JSON media types, including those with the suffix `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::to_str) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns the token of the `Authorization` header, whose scheme is compared without case.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Parses `Last-Event-ID`. The id of another run is refused like an unknown run, so that ids cannot be used to probe for runs.
fn last_position(run: &RunId, headers: &HeaderMap) -> Result<EventPosition, Refusal> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(EventPosition::start(run.clone()));
    };
    let position = id.to_str().ok().and_then(EventPosition::parse);
    let position = position.ok_or_else(|| {
        Refusal::invalid(
            "`Last-Event-ID` is not an id of this server: send the id of the last event unchanged",
        )
    })?;
    if position.run == *run {
        Ok(position)
    } else {
        Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is no such run: check its id and the token",
        ))
    }
}
