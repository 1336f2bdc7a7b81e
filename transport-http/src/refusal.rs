//! Error responses: JSON `{"error":{"code":…,"message":…}}` with a matching status.

use aqueduct_core::Exceeded;
use aqueduct_core::service::{RefusalKind, ServiceError};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable code for programs.
    pub code: &'static str,
    /// A message for people: what happened, where, and what to do.
    pub message: String,
    /// The earliest event that is still stored, where that is the reason.
    pub earliest: Option<u64>,
    /// The limit that was passed, where that is the reason.
    pub exceeded: Option<Exceeded>,
}

/// The reason of an error response, as an extension of the response: for logs and metrics of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalReason {
    /// A stable code for programs.
    pub code: &'static str,
    /// The message to the caller.
    pub message: String,
}

impl Refusal {
    /// Returns an error response.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), earliest: None, exceeded: None }
    }

    /// Returns status 400 for a malformed request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }
}

/// Returns `true` if the caller speaks gRPC, and reads a refusal as a status of gRPC alone.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        let (status, code) = match error.kind {
            RefusalKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            RefusalKind::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            RefusalKind::Invalid => (StatusCode::BAD_REQUEST, "invalid_request"),
            RefusalKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            RefusalKind::Gone { .. } => (StatusCode::GONE, "gone"),
            RefusalKind::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy"),
            RefusalKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            RefusalKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            // A kind that is new to this crate is unexpected here.
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let earliest = match error.kind {
            RefusalKind::Gone { earliest } => Some(earliest),
            _ => None,
        };
        let code = error.exceeded.map_or(code, |exceeded| exceeded.code);
        Self { earliest, exceeded: error.exceeded, ..Self::new(status, code, error.message) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(earliest), Some(error)) = (self.earliest, error.as_object_mut()) {
            error.insert("earliest".to_owned(), earliest.into());
        }
        if let (Some(exceeded), Some(error)) = (self.exceeded, error.as_object_mut()) {
            error.insert("limit".to_owned(), exceeded.limit.into());
        }
        let body = json!({ "error": error }).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        response.extensions_mut().insert(RefusalReason { code: self.code, message: self.message });
        let headers = response.headers_mut();
        match self.status {
            // RFC 9110, section 15.5.2 requires the challenge.
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                let seconds = self.exceeded.map_or(1, |exceeded| exceeded.retry_seconds());
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            _ => {}
        }
        response
    }
}
