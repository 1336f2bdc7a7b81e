//! Decodes gRPC statuses into [`WireError`]s.
//!
//! 1.0 identifies the error in a `google.rpc.ErrorInfo` (metadata `grpc-status-details-bin`); 0.3 writes the name of
//! its error class before the message (`TaskNotFoundError: …`). A status with neither is classified by its code.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};

use crate::wire::{ErrorKind, WireError};

/// `google.rpc.Status`: the content of `grpc-status-details-bin`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// The gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The error message for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Details, each with its type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`: the machine-readable reason.
#[derive(Clone, PartialEq, Message)]
pub struct ErrorInfo {
    /// The reason, in capitals.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// The namespace of the reason.
    #[prost(string, tag = "2")]
    pub domain: String,
    /// Further facts about the error.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: BTreeMap<String, String>,
}

/// `google.rpc.RetryInfo`: when to retry.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// The time to wait.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<prost_types::Duration>,
}

/// `google.rpc.BadRequest`: the invalid fields.
#[derive(Clone, PartialEq, Message)]
pub struct BadRequest {
    /// The invalid fields.
    #[prost(message, repeated, tag = "1")]
    pub field_violations: Vec<FieldFault>,
}

/// `google.rpc.BadRequest.FieldViolation`.
#[derive(Clone, PartialEq, Message)]
pub struct FieldFault {
    /// The path of the field.
    #[prost(string, tag = "1")]
    pub field: String,
    /// What is wrong with the field.
    #[prost(string, tag = "2")]
    pub description: String,
}

/// The type URL of [`ErrorInfo`] in details.
pub const ERROR_INFO_TYPE: &str = "type.googleapis.com/google.rpc.ErrorInfo";
/// The type URL of [`BadRequest`] in details.
pub const BAD_REQUEST_TYPE: &str = "type.googleapis.com/google.rpc.BadRequest";
/// The type URL of [`RetryInfo`] in details.
pub const RETRY_INFO_TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// The domain of the protocol's reasons.
pub const DOMAIN: &str = "a2a-protocol.org";

/// The gRPC codes by number: their names, and the equivalent HTTP statuses (`google.rpc.Code`).
const CODES: [(&str, u16); 17] = [
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
];

/// Names of the error classes that 0.3 servers write before their messages, and their kinds.
pub(super) const CLASSES: [(&str, ErrorKind); 14] = [
    ("TaskNotFoundError", ErrorKind::TaskNotFound),
    ("TaskNotCancelableError", ErrorKind::TaskNotCancelable),
    ("PushNotificationNotSupportedError", ErrorKind::PushNotificationNotSupported),
    ("UnsupportedOperationError", ErrorKind::UnsupportedOperation),
    ("ContentTypeNotSupportedError", ErrorKind::ContentTypeNotSupported),
    ("InvalidAgentResponseError", ErrorKind::InvalidAgentResponse),
    ("AuthenticatedExtendedCardNotConfiguredError", ErrorKind::ExtendedCardNotConfigured),
    ("ExtensionSupportRequiredError", ErrorKind::ExtensionSupportRequired),
    ("VersionNotSupportedError", ErrorKind::VersionNotSupported),
    ("JSONParseError", ErrorKind::Parse),
    ("InvalidRequestError", ErrorKind::InvalidRequest),
    ("MethodNotFoundError", ErrorKind::MethodNotFound),
    ("InvalidParamsError", ErrorKind::InvalidParams),
    ("InternalError", ErrorKind::Internal),
];

impl WireError {
    /// Decodes a gRPC status that is not OK: its code, its message, and the bytes of `grpc-status-details-bin`, which
    /// may be empty.
    pub fn from_grpc(code: i32, message: &str, details: &[u8]) -> Self {
        // A code out of range is a fault of the peer; gRPC treats it as UNKNOWN.
        let row = usize::try_from(code).ok().and_then(|code| CODES.get(code));
        let (name, http_status) = row.copied().unwrap_or(("UNKNOWN", 500));
        let details = RpcStatus::decode(details).map(|status| status.details).unwrap_or_default();
        let info = details.iter().find(|detail| detail.type_url.ends_with("google.rpc.ErrorInfo"));
        let info = info.and_then(|detail| ErrorInfo::decode(&*detail.value).ok());
        let told = info.map(|info| info.reason).filter(|reason| !reason.is_empty());
        let data: Vec<Value> = details.iter().map(detail_json).collect();
        Self {
            code: class_of(message).and_then(ErrorKind::code),
            http_status: Some(http_status),
            reason: told.or_else(|| Some(name.to_owned())),
            message: if message.is_empty() { format!("gRPC status {name}") } else { message.to_owned() },
            data: (!data.is_empty()).then_some(Value::Array(data)),
            failure: None,
        }
    }
}

/// Returns the kind of the error class before a message of 0.3: `TaskNotFoundError: …`. Returns `None` if the
/// message does not begin with a known class.
fn class_of(message: &str) -> Option<ErrorKind> {
    let (class, _) = message.split_once(':')?;
    CLASSES.iter().find(|row| row.0 == class).map(|row| row.1)
}

/// Returns a detail as JSON-RPC and REST show it; an unknown one by its type and its bytes.
fn detail_json(detail: &prost_types::Any) -> Value {
    let (name, bytes) = (&detail.type_url, &*detail.value);
    if name.ends_with("google.rpc.ErrorInfo")
        && let Ok(info) = ErrorInfo::decode(bytes)
    {
        return json!({"@type": name, "reason": info.reason, "domain": info.domain, "metadata": info.metadata});
    }
    if name.ends_with("google.rpc.BadRequest")
        && let Ok(request) = BadRequest::decode(bytes)
    {
        let fault = |fault: &FieldFault| json!({"field": fault.field, "description": fault.description});
        let faults: Vec<Value> = request.field_violations.iter().map(fault).collect();
        return json!({"@type": name, "fieldViolations": faults});
    }
    json!({"@type": name, "value": STANDARD.encode(bytes)})
}
