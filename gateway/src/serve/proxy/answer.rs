//! Responses of agents on their way to the caller, and the gateway's own error responses.
//!
//! An agent is foreign code, and its response is sent from the origin of the gateway. So headers and media types pass
//! through allow lists, and every response forbids a browser to render or execute it.

use aqueduct::remote::{BUSY, CIRCUIT_OPEN, REFUSED, TIMEOUT, UNAUTHORIZED, UNREACHABLE};
use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_adapter_a2a::server::ServerError;
use aqueduct_core::RunFailure;
use aqueduct_transport_http::{Error as HttpError, Refusal, RefusalReason};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

/// Response headers of agents that are forwarded to callers. Agents are foreign: cookies, challenges and browser
/// permissions would apply to the origin of this server, and hop-by-hop headers to its connection.
const PASSED_BACK: [&str; 9] = [
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "etag",
    "last-modified",
    "retry-after",
    "a2a-version",
    "a2a-extensions",
];

/// Accepted media types of responses: those of the protocol. No browser renders them.
const MEDIA_TYPES: [&str; 5] = [
    "application/a2a+json",
    "application/json",
    "application/problem+json",
    "text/event-stream",
    "text/plain",
];

/// The response of an agent.
pub(super) type Answer = http::Response<AnswerBody>;

/// A streamed body.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, HttpError>>;

/// The body of a response: complete, or a stream of server-sent events.
pub(super) enum AnswerBody {
    Whole(Bytes),
    Stream(Chunks),
}

/// Returns the content encoding of the body, or `None` if the body can be read as it is (`identity`, or no header). A
/// value that is not ASCII text counts as an unknown encoding.
pub(super) fn encoding(headers: &HeaderMap) -> Option<&str> {
    let coding = headers.get(header::CONTENT_ENCODING)?.to_str().unwrap_or("unknown").trim();
    (!coding.is_empty() && !coding.eq_ignore_ascii_case("identity")).then_some(coding)
}

/// Returns the response headers to forward to the caller. A response with another media type is forwarded as bytes.
///
/// `nosniff` and the sandbox policy apply to every response, because a person may open the address of a response in a
/// browser that is logged in to the gateway's origin.
pub(super) fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in PASSED_BACK {
        if let Some(value) = headers.get(name) {
            passed.insert(HeaderName::from_static(name), value.clone());
        }
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !MEDIA_TYPES.contains(&kind.as_str()) {
        passed.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    }
    passed.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let sandbox = HeaderValue::from_static("default-src 'none'; sandbox");
    passed.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    passed
}

/// Returns the refusal of a call by the gateway, in the error format of its binding and version.
///
/// ```text
/// JSON-RPC  200  {"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"there is no such task","data":[…]}}
/// REST      404  {"error":{"code":404,"status":"NOT_FOUND","message":"there is no such task","details":[…]}}
/// ```
///
/// An exceeded quota adds `Retry-After`, and its code for metrics and logs.
pub(super) fn refuse_call(call: &PassingCall<'_>, is_rpc: bool, error: &ServerError) -> Response {
    let (status, body) = if is_rpc {
        let id = call.id.unwrap_or("null");
        let body = json!({ "code": error.code(), "message": error.message, "data": error.details() });
        // JSON-RPC reports errors in the body; only errors of the HTTP layer itself (quota, authentication) change the
        // status.
        let status = if error.is_of_http() { error.http_status() } else { 200 };
        (status, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}"))
    } else {
        let status = error.http_status();
        let (name, details) = (error.grpc_code().name(), error.details());
        let body = json!({ "code": status, "status": name, "message": error.message, "details": details });
        (status, json!({ "error": body }).to_string())
    };
    let mut response = json_response(status, body);
    if let Some(exceeded) = error.exceeded {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(exceeded.retry_seconds()));
        let message = error.message.clone();
        response.extensions_mut().insert(RefusalReason { code: exceeded.code, message });
    }
    response
}

/// Returns a JSON response. A number that is not an HTTP status becomes 502.
fn json_response(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Returns the status for a failed call: 504 and 503 are worth a retry by the caller, 502 is a fault of the agent.
fn status_of(failure: &RunFailure) -> StatusCode {
    match &*failure.code {
        TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
        BUSY | CIRCUIT_OPEN => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Returns the response for a failed request of a card, which belongs to no binding: a plain refusal of the gateway.
pub(super) fn refuse_http(failure: &RunFailure) -> Response {
    let mut response =
        Refusal::new(status_of(failure), "upstream_error", failure.message.to_string()).into_response();
    response.extensions_mut().insert(reason_of(failure));
    response
}

/// Returns the response for a failed call to the agent, in the error format of its binding.
pub(super) fn refuse(call: &PassingCall<'_>, failure: &RunFailure) -> Response {
    let reason = failure.code.to_ascii_uppercase();
    let (status, body) = call.refusal(status_of(failure).as_u16(), &reason, &failure.message);
    let mut response = json_response(status, body);
    response.extensions_mut().insert(reason_of(failure));
    response
}

/// Returns the reason of the failure for logs and metrics. Codes that are not listed are chosen by agents, and must not
/// become metric labels: they count as `upstream_error`.
fn reason_of(failure: &RunFailure) -> RefusalReason {
    let known = [TIMEOUT, UNREACHABLE, REFUSED, UNAUTHORIZED, BUSY, CIRCUIT_OPEN];
    let code = known.into_iter().find(|code| **code == *failure.code).unwrap_or("upstream_error");
    RefusalReason { code, message: failure.message.to_string() }
}
