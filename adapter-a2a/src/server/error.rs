//! Refusals of calls, and their form in each binding (spec 1.0.1, §5.4; the table is in `docs/a2a.md`).

use aqueduct_core::Exceeded;
use aqueduct_core::service::{RefusalKind, ServiceError};
use serde_json::{Value, json};
use thiserror::Error;

use crate::wire::ErrorKind;

/// The `domain` of every `ErrorInfo`.
const DOMAIN: &str = "a2a-protocol.org";

/// A refusal of a call. Each binding encodes it in its own form; the kind determines code, reason and status.
///
/// | | JSON-RPC | REST | gRPC |
/// |---|---|---|---|
/// | kind | `error.code`, `error.data[0].reason` | HTTP status, `error.details[0].reason` | status code, `ErrorInfo.reason` |
/// | violations | `error.data[1]` | `error.details[1]` | `BadRequest` |
/// | exceeded quota | HTTP 429, `RetryInfo` | HTTP 429, `RetryInfo` | `RESOURCE_EXHAUSTED`, `RetryInfo` |
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{message}")]
pub struct ServerError {
    /// The error of the specification.
    pub kind: ErrorKind,
    /// The message for the caller: what, where, and what to do.
    pub message: String,
    /// The invalid members of the request.
    pub violations: Vec<FieldViolation>,
    /// The exceeded limit, if that is the reason.
    pub exceeded: Option<Exceeded>,
}

/// An invalid member of a request (`google.rpc.BadRequest.FieldViolation`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The path of the member, e.g. `message.parts`.
    pub field: String,
    /// What is wrong with the member.
    pub description: String,
}

/// The status codes of gRPC, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of gRPC")]
pub enum GrpcCode {
    InvalidArgument = 3,
    NotFound = 5,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl GrpcCode {
    /// Returns the name, which REST error bodies contain.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl ServerError {
    /// Returns a refusal with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), violations: Vec::new(), exceeded: None }
    }

    /// Returns the refusal of an invalid member.
    pub fn invalid_field(field: impl Into<String>, description: impl Into<String>) -> Self {
        let violation = FieldViolation { field: field.into(), description: description.into() };
        Self::invalid_fields(vec![violation])
    }

    /// Returns the refusal of invalid members (-32602). The message lists all of them: `message.parts: must hold
    /// at least one part; …`.
    pub fn invalid_fields(violations: Vec<FieldViolation>) -> Self {
        let told =
            violations.iter().map(|violation| format!("{}: {}", violation.field, violation.description));
        let message = told.collect::<Vec<_>>().join("; ");
        Self { violations, ..Self::new(ErrorKind::InvalidParams, message) }
    }

    /// Returns the refusal for a task that does not exist, or belongs to another principal. Both are equal, so
    /// that ids of other principals cannot be probed.
    pub fn task_not_found(id: &str) -> Self {
        let shown: String = id.chars().take(80).collect();
        Self::new(ErrorKind::TaskNotFound, format!("there is no task {shown:?}: it may have expired"))
    }

    /// Returns the JSON-RPC code.
    pub fn code(&self) -> i64 {
        // Errors without a JSON-RPC code are internal errors there; the HTTP status is more specific.
        self.kind.code().unwrap_or(-32603)
    }

    /// Returns the HTTP status of REST. JSON-RPC responds with 200, except where [`ServerError::is_of_http`].
    pub fn http_status(&self) -> u16 {
        match self.kind {
            _ if self.exceeded.is_some() => 429,
            ErrorKind::TaskNotFound | ErrorKind::MethodNotFound => 404,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Unavailable => 503,
            ErrorKind::InvalidAgentResponse | ErrorKind::Internal | ErrorKind::Other => 500,
            _ => 400,
        }
    }

    /// Returns `true` for refusals before the protocol: the caller is not authenticated, or has used its quota. They
    /// have their HTTP status in every binding.
    pub fn is_of_http(&self) -> bool {
        self.kind == ErrorKind::Unauthorized || self.exceeded.is_some()
    }

    /// Returns the status of gRPC, whose name REST bodies contain too.
    pub fn grpc_code(&self) -> GrpcCode {
        match self.kind {
            _ if self.exceeded.is_some() => GrpcCode::ResourceExhausted,
            ErrorKind::TaskNotFound => GrpcCode::NotFound,
            ErrorKind::TaskNotCancelable
            | ErrorKind::PushNotificationNotSupported
            | ErrorKind::UnsupportedOperation
            | ErrorKind::ExtendedCardNotConfigured
            | ErrorKind::ExtensionSupportRequired
            | ErrorKind::VersionNotSupported => GrpcCode::FailedPrecondition,
            ErrorKind::ContentTypeNotSupported
            | ErrorKind::Parse
            | ErrorKind::InvalidRequest
            | ErrorKind::InvalidParams => GrpcCode::InvalidArgument,
            ErrorKind::MethodNotFound => GrpcCode::Unimplemented,
            ErrorKind::Unauthorized => GrpcCode::Unauthenticated,
            ErrorKind::Unavailable => GrpcCode::Unavailable,
            ErrorKind::InvalidAgentResponse | ErrorKind::Internal | ErrorKind::Other => GrpcCode::Internal,
        }
    }

    /// Returns the `reason` of the `ErrorInfo`: that of the specification, or the name of the gRPC status for
    /// refusals that it does not define.
    pub fn reason(&self) -> &'static str {
        self.kind.reason().unwrap_or_else(|| self.grpc_code().name())
    }

    /// Returns the details as typed JSON objects: `error.data` of JSON-RPC, `error.details` of REST.
    pub fn details(&self) -> Vec<Value> {
        let metadata = self.exceeded.map_or_else(|| json!({}), |exceeded| json!({ "limit": exceeded.limit }));
        let mut details = vec![json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.reason(), "domain": DOMAIN, "metadata": metadata
        })];
        if let Some(exceeded) = self.exceeded {
            let delay = format!("{}s", exceeded.retry_seconds());
            details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}));
        }
        if !self.violations.is_empty() {
            let told = |violation: &FieldViolation| json!({"field": violation.field, "description": violation.description});
            let violations: Vec<Value> = self.violations.iter().map(told).collect();
            details.push(
                json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}),
            );
        }
        details
    }
}

/// Converts the refusal of a run. Runs are tasks here, and an expired run counts as unknown.
impl From<ServiceError> for ServerError {
    fn from(error: ServiceError) -> Self {
        let kind = match error.kind {
            RefusalKind::NotFound | RefusalKind::Gone { .. } => ErrorKind::TaskNotFound,
            RefusalKind::Unauthenticated => ErrorKind::Unauthorized,
            RefusalKind::Invalid => ErrorKind::InvalidParams,
            RefusalKind::Busy | RefusalKind::Unavailable => ErrorKind::Unavailable,
            RefusalKind::Unsupported => ErrorKind::UnsupportedOperation,
            _ => ErrorKind::Internal,
        };
        Self { exceeded: error.exceeded, ..Self::new(kind, error.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spec 1.0.1, §5.4.
    #[test]
    fn errors_are_told_as_the_specification_says() {
        for (kind, code, grpc, http, reason) in [
            (ErrorKind::TaskNotFound, -32001, "NOT_FOUND", 404, "TASK_NOT_FOUND"),
            (ErrorKind::TaskNotCancelable, -32002, "FAILED_PRECONDITION", 400, "TASK_NOT_CANCELABLE"),
            (
                ErrorKind::PushNotificationNotSupported,
                -32003,
                "FAILED_PRECONDITION",
                400,
                "PUSH_NOTIFICATION_NOT_SUPPORTED",
            ),
            (ErrorKind::UnsupportedOperation, -32004, "FAILED_PRECONDITION", 400, "UNSUPPORTED_OPERATION"),
            (
                ErrorKind::ContentTypeNotSupported,
                -32005,
                "INVALID_ARGUMENT",
                400,
                "CONTENT_TYPE_NOT_SUPPORTED",
            ),
            (ErrorKind::InvalidAgentResponse, -32006, "INTERNAL", 500, "INVALID_AGENT_RESPONSE"),
            (
                ErrorKind::ExtendedCardNotConfigured,
                -32007,
                "FAILED_PRECONDITION",
                400,
                "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            ),
            (
                ErrorKind::ExtensionSupportRequired,
                -32008,
                "FAILED_PRECONDITION",
                400,
                "EXTENSION_SUPPORT_REQUIRED",
            ),
            (ErrorKind::VersionNotSupported, -32009, "FAILED_PRECONDITION", 400, "VERSION_NOT_SUPPORTED"),
            (ErrorKind::Parse, -32700, "INVALID_ARGUMENT", 400, "PARSE_ERROR"),
            (ErrorKind::InvalidParams, -32602, "INVALID_ARGUMENT", 400, "INVALID_PARAMS"),
            (ErrorKind::MethodNotFound, -32601, "UNIMPLEMENTED", 404, "METHOD_NOT_FOUND"),
            (ErrorKind::Internal, -32603, "INTERNAL", 500, "INTERNAL"),
            (ErrorKind::Unauthorized, -32603, "UNAUTHENTICATED", 401, "UNAUTHENTICATED"),
            (ErrorKind::Unavailable, -32603, "UNAVAILABLE", 503, "UNAVAILABLE"),
        ] {
            let error = ServerError::new(kind, "x");
            let told = (error.code(), error.grpc_code().name(), error.http_status(), error.reason());
            assert_eq!(told, (code, grpc, http, reason), "{kind:?}");
        }
    }

    #[test]
    fn a_limit_is_named_with_the_time_to_wait() {
        let exceeded = Exceeded {
            code: "too_many_runs",
            limit: "quotas.runs",
            retry_after: std::time::Duration::from_secs(2),
        };
        let error = ServerError::from(ServiceError::exceeded(exceeded, 3, "runs"));
        let told = (error.code(), error.grpc_code().name(), error.http_status(), error.reason());
        assert_eq!(told, (-32603, "RESOURCE_EXHAUSTED", 429, "RESOURCE_EXHAUSTED"));
        assert_eq!(error.details()[0]["metadata"], json!({"limit": "quotas.runs"}));
        assert_eq!(error.details()[1]["retryDelay"], "2s");
    }

    #[test]
    fn fields_at_fault_are_named() {
        let error = ServerError::invalid_field("message.parts", "must hold a part");
        assert_eq!(error.message, "message.parts: must hold a part");
        assert_eq!(
            error.details()[1],
            json!({"@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": "message.parts", "description": "must hold a part"}]})
        );
    }
}
