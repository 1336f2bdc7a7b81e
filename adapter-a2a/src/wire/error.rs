//! Errors of A2A peers: a JSON-RPC error, a REST error body, a gRPC status, an HTTP status with any body.
//!
//! All are converted into a [`WireError`], which keeps what the peer sent; [`WireError::kind`] classifies it.
//!
//! ```text
//! {"code":-32001,"message":"…","data":[{"@type":"…ErrorInfo","reason":"TASK_NOT_FOUND"}]}   JSON-RPC ► TaskNotFound
//! {"code":404,"status":"NOT_FOUND","message":"…"}                                              REST     ► TaskNotFound
//! {"message":"Task not found"}, HTTP 404                                                       0.3 REST ► TaskNotFound
//! <html>Bad gateway</html>, HTTP 502                                                           proxy    ► Unavailable
//! ```
//!
//! Not here: whether a call is retried ([`client`](crate::client)), and errors that this crate's server sends.

use serde_json::Value;

use super::object::object;
use super::text::{Raw, Text};

/// An error of the peer, in any format.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WireError {
    /// The JSON-RPC code. `None` for REST and gRPC, except for codes that a server puts there all the same.
    pub code: Option<i64>,
    /// The HTTP status, or the one that corresponds to a gRPC code.
    pub http_status: Option<u16>,
    /// The machine-readable reason (`google.rpc.ErrorInfo.reason`), or the gRPC status name.
    pub reason: Option<String>,
    /// The error message for people.
    pub message: String,
    /// Further data of the error.
    pub data: Option<Value>,
    /// The failure code, where the transport knows a better one (a timeout, no connection). A code of
    /// [`error`](crate::error).
    pub failure: Option<&'static str>,
}

/// The errors that A2A defines, and classes of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of the specification, §3.3.2")]
pub enum ErrorKind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    ExtendedCardNotConfigured,
    ExtensionSupportRequired,
    VersionNotSupported,
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// 401 and 403: credentials are missing or refused.
    Unauthorized,
    /// 408, 425, 429, 502, 503, 504: the same request may succeed later.
    Unavailable,
    /// None of the above.
    Other,
}

impl ErrorKind {
    /// Code, reason and kind, in the order of the specification. The three kinds without a JSON-RPC code are
    /// missing.
    const TABLE: [(i64, &'static str, Self); 14] = [
        (-32001, "TASK_NOT_FOUND", Self::TaskNotFound),
        (-32002, "TASK_NOT_CANCELABLE", Self::TaskNotCancelable),
        (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", Self::PushNotificationNotSupported),
        (-32004, "UNSUPPORTED_OPERATION", Self::UnsupportedOperation),
        (-32005, "CONTENT_TYPE_NOT_SUPPORTED", Self::ContentTypeNotSupported),
        (-32006, "INVALID_AGENT_RESPONSE", Self::InvalidAgentResponse),
        (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", Self::ExtendedCardNotConfigured),
        (-32008, "EXTENSION_SUPPORT_REQUIRED", Self::ExtensionSupportRequired),
        (-32009, "VERSION_NOT_SUPPORTED", Self::VersionNotSupported),
        (-32700, "PARSE_ERROR", Self::Parse),
        (-32600, "INVALID_REQUEST", Self::InvalidRequest),
        (-32601, "METHOD_NOT_FOUND", Self::MethodNotFound),
        (-32602, "INVALID_PARAMS", Self::InvalidParams),
        (-32603, "INTERNAL", Self::Internal),
    ];

    /// Returns the kind of a JSON-RPC code.
    pub fn of_code(code: i64) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.0 == code).map(|row| row.2)
    }

    /// Returns the kind of an `ErrorInfo.reason`.
    pub fn of_reason(reason: &str) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.1 == reason).map(|row| row.2)
    }

    /// Returns the JSON-RPC code, or `None` if JSON-RPC has none for it.
    pub fn code(self) -> Option<i64> {
        Self::TABLE.iter().find(|row| row.2 == self).map(|row| row.0)
    }

    /// Returns the `ErrorInfo.reason`, or `None` if it is not an error of the protocol.
    pub fn reason(self) -> Option<&'static str> {
        Self::TABLE.iter().find(|row| row.2 == self).map(|row| row.1)
    }

    /// Returns the kind of an HTTP status alone, for bodies that name no code or reason. 404 is taken as an
    /// unknown task: the other cause, a wrong address, fails before a task exists.
    pub fn of_http(status: u16) -> Self {
        match status {
            400 | 422 => Self::InvalidRequest,
            401 | 403 => Self::Unauthorized,
            404 => Self::TaskNotFound,
            405 | 501 => Self::UnsupportedOperation,
            408 | 425 | 429 | 502..=504 => Self::Unavailable,
            415 => Self::ContentTypeNotSupported,
            500 => Self::Internal,
            _ => Self::Other,
        }
    }
}

object! {
    /// The `error` member of JSON-RPC.
    struct RpcErrorShape {
        code: Option<i64> = "code",
        message: Text<'a> = "message",
        data: Option<Raw<'a>> = "data",
    }

    /// The `error` member of REST, in the form of `google.rpc.Status` as JSON. Some servers write `data` instead
    /// of `details`.
    struct RestErrorShape {
        code: Option<i64> = "code",
        status: Text<'a> = "status",
        message: Text<'a> = "message",
        details: Option<Raw<'a>> = "details",
        data: Option<Raw<'a>> = "data",
    }
}

impl WireError {
    /// Returns the kind of the error: by JSON-RPC code, else by reason, else by HTTP status. A code that the
    /// specification does not define is skipped.
    pub fn kind(&self) -> ErrorKind {
        let by_code = self.code.and_then(ErrorKind::of_code);
        let by_reason = self.reason.as_deref().and_then(ErrorKind::of_reason);
        by_code.or(by_reason).or_else(|| self.http_status.map(ErrorKind::of_http)).unwrap_or(ErrorKind::Other)
    }

    /// Parses the `error` member of a JSON-RPC response. A member of another shape becomes an error of unknown
    /// kind.
    pub fn from_rpc(raw: &Raw<'_>) -> Self {
        let Some(shape) = raw.parse::<RpcErrorShape<'_>>() else { return Self::from_unknown(raw) };
        let data = shape.data.map(|data| data.to_value());
        Self {
            code: shape.code,
            reason: data.as_ref().and_then(error_info_reason),
            message: shape.message.to_string(),
            data,
            ..Self::default()
        }
    }

    /// Parses the `error` member of a REST body. Its code is an HTTP status, unless a server sends a JSON-RPC code.
    pub fn from_rest(raw: &Raw<'_>) -> Self {
        let Some(shape) = raw.parse::<RestErrorShape<'_>>() else { return Self::from_unknown(raw) };
        let data = shape.details.or(shape.data).map(|data| data.to_value());
        let http_status = shape.code.and_then(|code| u16::try_from(code).ok());
        Self {
            code: shape.code.filter(|_| http_status.is_none()),
            http_status,
            reason: data
                .as_ref()
                .and_then(error_info_reason)
                .or_else(|| shape.status.set().map(str::to_owned)),
            message: shape.message.to_string(),
            data,
            failure: None,
        }
    }

    /// Wraps an error payload of unknown shape. The message is the first text in a usual member (`message`,
    /// `detail` and `title` of problem details, `error`); the whole payload is kept as data.
    pub fn from_unknown(raw: &Raw<'_>) -> Self {
        let value = raw.to_value();
        let words = ["message", "detail", "title", "error"].iter().find_map(|key| value.get(key)?.as_str());
        Self {
            message: words
                .or(value.as_str())
                .unwrap_or("the peer sent an error without a message")
                .to_owned(),
            data: Some(value),
            ..Self::default()
        }
    }

    /// Parses a response that is not a stream: a JSON-RPC error, a REST error, a 0.3 body (`{"message": …}`), problem
    /// details, or any other HTTP body. Returns `None` if the body is a result.
    pub fn from_response(status: u16, body: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(body);
        let parsed = super::frame::FrameContent::parse(&text, super::Dialect::V1);
        let mut error = match parsed {
            Ok(super::frame::FrameContent::Error(error)) => error,
            _ if (200..300).contains(&status) => return None,
            _ => serde_json::from_str::<Raw<'_>>(&text)
                .map_or_else(|_| Self::from_plain(status, &text), |raw| Self::from_unknown(&raw)),
        };
        if error.http_status.is_none() && !(200..300).contains(&status) {
            error.http_status = Some(status);
        }
        Some(error)
    }

    /// Wraps a body that is not JSON: a page of a proxy, or nothing.
    fn from_plain(status: u16, text: &str) -> Self {
        // Error pages of proxies can be long; their beginning suffices.
        let words: String = text.trim().chars().take(200).collect();
        let message = if words.is_empty() { format!("HTTP status {status} without a body") } else { words };
        Self { message, ..Self::default() }
    }

    /// Sets the failure code.
    #[must_use]
    pub fn failing_as(mut self, code: &'static str) -> Self {
        self.failure = Some(code);
        self
    }

    /// Returns `true` if the agent only refuses to stream: servers of 0.3 report that as an internal error.
    pub fn refuses_streaming(&self) -> bool {
        let says_so = || self.message.to_ascii_lowercase().contains("streaming is not supported");
        match self.kind() {
            ErrorKind::UnsupportedOperation | ErrorKind::MethodNotFound => true,
            ErrorKind::Internal | ErrorKind::InvalidRequest | ErrorKind::Other => says_so(),
            _ => false,
        }
    }

    /// Returns an error of the connection itself: refused, reset, timed out.
    pub fn transport(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// Returns the reason of the first `google.rpc.ErrorInfo` in a list of details.
fn error_info_reason(details: &Value) -> Option<String> {
    let info = details.as_array()?.iter().find(|detail| {
        detail.get("@type").and_then(Value::as_str).is_some_and(|name| name.ends_with("google.rpc.ErrorInfo"))
    })?;
    Some(info.get("reason")?.as_str()?.to_owned())
}
