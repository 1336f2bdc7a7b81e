//! The request of a push notification: `POST` with the event (1.0) or the task (0.3), the client's token and
//! credentials.

use serde_json::Value;

use super::PushRequest;
use crate::call::PushConfig;
use crate::server::ServerError;
use crate::version::{JSON, VERSION_HEADER, Version};

/// The header by which a receiver deduplicates notifications.
const NOTIFICATION_ID: &str = "x-a2a-notification-id";

/// Refuses secrets that cannot be sent as a header, or would forge others: a line break in a token would begin
/// another header.
///
/// # Errors
///
/// Returns `InvalidParams` that names the member. The secret itself is not repeated.
pub(super) fn check_secrets(config: &PushConfig) -> Result<(), ServerError> {
    let is_clean = |text: &str| text.len() <= 4_096 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let words = "must be at most 4096 printable ASCII letters";
    if !config.token.as_deref().is_none_or(is_clean) {
        return Err(ServerError::invalid_field("token", words));
    }
    if let Some((scheme, credentials)) = &config.authentication {
        let is_word =
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_word {
            return Err(ServerError::invalid_field("authentication.scheme", "must be one word, e.g. Bearer"));
        }
        if !is_clean(credentials) {
            return Err(ServerError::invalid_field("authentication.credentials", words));
        }
    }
    Ok(())
}

/// Returns the request for one event.
///
/// ```text
/// POST {url}      content-type: application/json      a2a-version: 1.0 (1.0 only)
/// x-a2a-notification-id, x-a2a-notification-token, a2a-notification-token, authorization: as far as configured
/// ```
pub(super) fn request(
    config: &PushConfig,
    version: Version,
    address: std::net::SocketAddr,
    id: Option<&str>,
    body: &Value,
) -> PushRequest {
    // The specification has `application/a2a+json`; receivers parse what the SDKs send.
    let mut headers = vec![("content-type", JSON.to_owned())];
    if version == Version::V1 {
        headers.push((VERSION_HEADER, version.to_string()));
    }
    if let Some(id) = id {
        headers.push((NOTIFICATION_ID, id.to_owned()));
    }
    if let Some(token) = &config.token {
        // The first is what Python and JavaScript send and read, the second what Rust does.
        headers.push(("x-a2a-notification-token", token.clone()));
        headers.push(("a2a-notification-token", token.clone()));
    }
    if let Some((scheme, credentials)) = &config.authentication {
        headers.push(("authorization", format!("{scheme} {credentials}").trim_end().to_owned()));
    }
    PushRequest { url: config.url.clone(), address, headers, body: body.to_string().into_bytes() }
}
