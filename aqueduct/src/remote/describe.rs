//! Describes failed calls as failures of runs: a stable code, and one sentence with the cause.

use aqueduct_core::RunFailure;
use aqueduct_transport_http::Error as HttpError;
use bytes::Bytes;
use http::{Response, header};
use serde_json::json;

/// The code of a run whose agent cannot be reached.
pub const UNREACHABLE: &str = "upstream_unreachable";
/// The code of a run whose agent took longer than a timeout.
pub const TIMEOUT: &str = "upstream_timeout";
/// The code of a run whose agent responded with something other than a stream.
pub const REFUSED: &str = "upstream_refused";
/// The code of a run whose agent requires credentials, or other credentials.
pub const UNAUTHORIZED: &str = "upstream_unauthorized";

/// The code of a run whose takeover did not find the agent's work.
pub const OWNER_LOST: &str = "gateway_lost";

/// The longest quotation of an error body, in characters. A longer body is an error page.
const MESSAGE_CHARS: usize = 200;

/// Returns the failure of a request that could not be built.
pub fn unsent(message: String) -> RunFailure {
    RunFailure::new(UNREACHABLE, message)
}

/// Returns the failure of a run for a failed request.
pub fn failure_of(error: &HttpError) -> RunFailure {
    match error {
        HttpError::NotAStream(response) => refused(response),
        error => RunFailure::new(failure_code(error), error.to_string()),
    }
}

/// Returns the failure of a takeover whose agent does not respond, or no longer has the task.
pub fn work_lost(failure: &RunFailure) -> RunFailure {
    let message = format!(
        "the gateway that ran this is gone, and the agent could not be asked to go on ({}): run it again",
        &*failure.message
    );
    let mut lost = RunFailure::new(OWNER_LOST, message);
    lost.details = Some(json!({ "reason": &*failure.code }));
    lost
}

/// Returns the code of a run that fails with this error.
pub fn failure_code(error: &HttpError) -> &'static str {
    match error {
        HttpError::NotAStream(_) => REFUSED,
        HttpError::Connect { .. } => UNREACHABLE,
        HttpError::NotSent { code, .. } => code,
        #[cfg(feature = "tls")]
        HttpError::Tls(_) => UNREACHABLE,
        HttpError::Timeout { .. } => TIMEOUT,
        HttpError::Events { .. } | HttpError::BodyTooLong { .. } => RunFailure::UPSTREAM_INVALID,
        _ => RunFailure::UPSTREAM_ENDED,
    }
}

/// Returns the failure for a response that is not a stream; missing or refused credentials have a code of their own.
fn refused(response: &Response<Bytes>) -> RunFailure {
    let code = match response.status().as_u16() {
        401 | 403 => UNAUTHORIZED,
        _ => REFUSED,
    };
    RunFailure::new(code, describe_refusal(response))
}

/// Describes a response that is not a stream, in one sentence.
pub fn describe_refusal(response: &Response<Bytes>) -> String {
    let status = response.status();
    let kind = content_type(response);
    if status.is_redirection() {
        let to = redirect_target(response).map(|to| format!(" to {to}")).unwrap_or_default();
        return format!(
            "the agent answered {status}, a redirect{to}: redirects are not followed, configure the address it names"
        );
    }
    match (status.is_success(), body_message(response)) {
        (true, _) => format!("the agent answered {status} with {kind:?} instead of an event stream"),
        (false, None) => format!("the agent answered {status}"),
        (false, Some(message)) => format!("the agent answered {status}: {message}"),
    }
}

/// Returns the target of a redirect without its query, which may contain secrets.
fn redirect_target(response: &Response<Bytes>) -> Option<String> {
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    let address = location.split(['?', '#']).next().unwrap_or_default();
    Some(address.chars().take(MESSAGE_CHARS).collect()).filter(|address: &String| !address.is_empty())
}

/// Returns the media type, or an empty text.
fn content_type(response: &Response<Bytes>) -> &str {
    let value = response.headers().get(header::CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns `true` if the media type is JSON.
pub fn is_json(response: &Response<Bytes>) -> bool {
    let essence = content_type(response).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns the message of an error in JSON or plain text, or `None` for a page for browsers.
fn body_message(response: &Response<Bytes>) -> Option<String> {
    let text = String::from_utf8_lossy(response.body());
    let message = if is_json(response) {
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        let error = value.get("error").unwrap_or(&value);
        let member = ["message", "detail", "title"].iter().find_map(|name| error.get(name)?.as_str());
        member.or(error.as_str())?.to_owned()
    } else if content_type(response).starts_with("text/plain") {
        text.trim().to_owned()
    } else {
        return None;
    };
    Some(message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS).collect())
        .filter(|message: &String| !message.is_empty())
}
