//! The answers of agents, as they go to the caller.

use aqueduct::remote::TIMEOUT;
use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_core::RunFailure;
use aqueduct_transport_http::{ClientError, Refusal};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// Headers of answers that are between two neighbours (RFC 9110 §7.6.1), or this server's to say.
const KEPT: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What an agent answered.
pub(super) type Answer = http::Response<AnswerBody>;

/// A stream, as it comes.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, ClientError>>;

pub(super) enum AnswerBody {
    Whole(Bytes),
    Stream(Chunks),
}

/// How the body is compressed, if it is.
pub(super) fn encoding(headers: &HeaderMap) -> Option<&str> {
    let coding = headers.get(header::CONTENT_ENCODING)?.to_str().unwrap_or("unknown").trim();
    (!coding.is_empty() && !coding.eq_ignore_ascii_case("identity")).then_some(coding)
}

/// The headers of an answer that are for the caller.
pub(super) fn passed_back(headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let is_kept = |name: &HeaderName| {
        let name = name.as_str();
        // Who may read an answer is this server's to say.
        KEPT.contains(&name) || name.starts_with("access-control-") || named.iter().any(|other| other == name)
    };
    let mut passed = HeaderMap::new();
    let mut last = None;
    for (name, value) in headers {
        last = name.or(last);
        if let Some(name) = last.clone().filter(|name| !is_kept(name)) {
            passed.append(name, value);
        }
    }
    passed
}

fn status_of(failure: &RunFailure) -> StatusCode {
    match &*failure.code {
        TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}

pub(super) fn refuse_http(failure: &RunFailure) -> Response {
    Refusal::new(status_of(failure), "upstream_error", failure.message.to_string()).into_response()
}

/// A failure on the way to the agent, as the binding tells errors.
pub(super) fn refuse(call: &PassingCall<'_>, failure: &RunFailure) -> Response {
    let reason = failure.code.to_ascii_uppercase();
    let (status, body) = call.refusal(status_of(failure).as_u16(), &reason, &failure.message);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
