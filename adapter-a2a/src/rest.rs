//! Encodes calls as REST requests: methods and paths of both versions, and their bodies.
//!
//! Paths are below the interface's address, and below `/{tenant}` if the card names one; 0.3 has `/v1` before all of
//! them. `:subscribe` is sent by `POST` in 1.0, where the specification's text and its proto file disagree and every
//! known server accepts `POST`; in 0.3 by `GET`, which is all that Python's server accepts.

use std::fmt::Write as _;

use aqueduct_core::principal::percent_decoded;
use serde_json::{Map, Value, json};

use crate::call::{Call, HttpRequest};
use crate::card::Endpoint;
use crate::error::Error;
use crate::jsonrpc::{list_fields, push_json, send_params};
use crate::version::{Binding, EVENT_STREAM, Version, headers};

/// Encodes a call as method, address, headers and body.
///
/// ```text
/// Call::CancelTask { id: "t/1" } to https://agent/a2a
/// 1.0 ► POST https://agent/a2a/tasks/t%2F1:cancel       {}
/// 0.3 ► POST https://agent/a2a/v1/tasks/t%2F1:cancel    {}
/// ```
///
/// # Errors
///
/// Returns [`Error::NotInVersion`] if the version has no such call (`ListTasks` in 0.3).
pub fn request(endpoint: &Endpoint, call: &Call) -> Result<HttpRequest, Error> {
    let version = endpoint.version;
    let (method, path) = route(call, version)?;
    let mut url = endpoint.url.trim_end_matches('/').to_owned();
    if version == Version::V03 {
        // Cards of 0.3 name the address with or without the prefix `/v1`; the route always contains it.
        url.truncate(url.strip_suffix("/v1").unwrap_or(&url).len());
        url.push_str("/v1");
    } else if !endpoint.tenant.is_empty() {
        url.push('/');
        url.push_str(&encode_segment(&endpoint.tenant));
    }
    url.push_str(&path);
    let body = body(call, version);
    let media_type = Binding::HttpJson.media_type(version);
    let mut headers = headers(version, &endpoint.extensions);
    let accept = if call.is_streaming() { EVENT_STREAM } else { media_type };
    headers.push(("accept", accept.to_owned()));
    if body.is_some() {
        headers.push(("content-type", media_type.to_owned()));
    }
    Ok(HttpRequest {
        method,
        url,
        headers,
        body: body.map(|body| Value::Object(body).to_string().into_bytes()).unwrap_or_default(),
        streaming: call.is_streaming(),
    })
}

/// Returns the method and the path of a call, below the prefix of the version and the tenant.
///
/// # Errors
///
/// Returns [`Error::NotInVersion`] for a call that the version does not have.
fn route(call: &Call, version: Version) -> Result<(&'static str, String), Error> {
    let task = |id: &str| format!("/tasks/{}", encode_segment(id));
    let configs = |id: &str| format!("{}/pushNotificationConfigs", task(id));
    Ok(match call {
        Call::SendMessage(_) => ("POST", "/message:send".to_owned()),
        Call::SendStreamingMessage(_) => ("POST", "/message:stream".to_owned()),
        Call::GetTask { id, history_length } => {
            // In 0.3 zero means all, so it is omitted there.
            let length = history_length.filter(|length| version == Version::V1 || *length > 0);
            let query = length.map(|length| format!("?historyLength={length}")).unwrap_or_default();
            ("GET", format!("{}{query}", task(id)))
        }
        Call::ListTasks(_) if version == Version::V03 => {
            return Err(Error::NotInVersion { method: "ListTasks", version: version.as_str() });
        }
        Call::ListTasks(list) => ("GET", format!("/tasks{}", query(list_fields(list)))),
        Call::CancelTask { id, .. } => ("POST", format!("{}:cancel", task(id))),
        Call::SubscribeToTask { id } => {
            let method = if version == Version::V1 { "POST" } else { "GET" };
            (method, format!("{}:subscribe", task(id)))
        }
        Call::CreatePushConfig(config) => ("POST", configs(&config.task_id)),
        Call::ListPushConfigs { task_id } => ("GET", configs(task_id)),
        Call::GetPushConfig { task_id, id } => {
            ("GET", format!("{}/{}", configs(task_id), encode_segment(id)))
        }
        Call::DeletePushConfig { task_id, id } => {
            ("DELETE", format!("{}/{}", configs(task_id), encode_segment(id)))
        }
        Call::GetExtendedCard => match version {
            Version::V1 => ("GET", "/extendedAgentCard".to_owned()),
            Version::V03 => ("GET", "/card".to_owned()),
        },
    })
}

/// Returns the body of a call; `None` for calls whose parameters are in the path and the query. A `POST` without
/// parameters has an empty object as its body.
fn body(call: &Call, version: Version) -> Option<Map<String, Value>> {
    match call {
        Call::SendMessage(send) | Call::SendStreamingMessage(send) => {
            Some(send_params(send, version, Binding::HttpJson))
        }
        Call::CancelTask { metadata, .. } => {
            let metadata = metadata.as_ref().filter(|_| version == Version::V1);
            let fields = metadata.map(|metadata| ("metadata".to_owned(), Value::Object(metadata.clone())));
            Some(fields.into_iter().collect())
        }
        Call::SubscribeToTask { .. } => (version == Version::V1).then(Map::new),
        Call::CreatePushConfig(config) => match (version, push_json(config, version)) {
            (Version::V1, Value::Object(object)) => Some(object),
            // The body is the `config` of the 0.3 request: a name below the task, and the configuration.
            (_, value) => Some(Map::from_iter([
                (
                    "name".to_owned(),
                    json!(format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id)),
                ),
                ("pushNotificationConfig".to_owned(), value),
            ])),
        },
        _ => None,
    }
}

/// Returns the query of a list, with its question mark; empty without fields. Values are percent-encoded, names
/// need no encoding.
fn query(fields: impl Iterator<Item = (&'static str, Value)>) -> String {
    let mut query = String::new();
    for (key, value) in fields {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(key);
        query.push('=');
        match value {
            Value::String(text) => query.push_str(&encode_segment(&text)),
            other => query.push_str(&other.to_string()),
        }
    }
    query
}

/// Percent-encodes all but unreserved characters: an id of the peer must not change the path.
fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            write!(encoded, "%{byte:02X}").ok();
        }
    }
    // "." and ".." would be resolved as directories.
    if encoded.bytes().all(|byte| byte == b'.') { encoded.replace('.', "%2E") } else { encoded }
}

/// Decodes percent-encoding in a path or a query. Invalid escapes are kept, and invalid UTF-8 is replaced.
pub(crate) fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(text)).into_owned()
}
