//! Encodes calls as JSON-RPC requests: the method names of both versions, and their parameters.
//!
//! ```text
//! Call::GetTask { id: "t", history_length: Some(2) }
//! 1.0 ► POST {"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t","historyLength":2}}      a2a-version: 1.0
//! 0.3 ► POST {"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t","historyLength":2}}    no version header
//! ```
//!
//! The server's reader of the same parameters is in module `server` (`params`). REST shares the parameters of
//! messages, lists and push configurations ([`rest`](crate::rest)).
//!
//! Not here: the response ([`wire::frame`](crate::wire::frame)), and credentials, which the caller of a request
//! adds.

use serde_json::{Map, Value, json};

use crate::call::{Call, HttpRequest, ListTasks, PushConfig, SendMessage};
use crate::card::Endpoint;
use crate::error::Error;
use crate::version::{Binding, EVENT_STREAM, JSON, Version, headers};

/// Returns the name of a call's method, or `None` if the version has none: `ListTasks` is new in 1.0.
pub fn method(call: &Call, version: Version) -> Option<&'static str> {
    let (v1, v03) = match call {
        Call::SendMessage(_) => ("SendMessage", Some("message/send")),
        Call::SendStreamingMessage(_) => ("SendStreamingMessage", Some("message/stream")),
        Call::GetTask { .. } => ("GetTask", Some("tasks/get")),
        Call::ListTasks(_) => ("ListTasks", None),
        Call::CancelTask { .. } => ("CancelTask", Some("tasks/cancel")),
        Call::SubscribeToTask { .. } => ("SubscribeToTask", Some("tasks/resubscribe")),
        Call::CreatePushConfig(_) => {
            ("CreateTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/set"))
        }
        Call::GetPushConfig { .. } => {
            ("GetTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/get"))
        }
        Call::ListPushConfigs { .. } => {
            ("ListTaskPushNotificationConfigs", Some("tasks/pushNotificationConfig/list"))
        }
        Call::DeletePushConfig { .. } => {
            ("DeleteTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/delete"))
        }
        Call::GetExtendedCard => ("GetExtendedAgentCard", Some("agent/getAuthenticatedExtendedCard")),
    };
    match version {
        Version::V1 => Some(v1),
        Version::V03 => v03,
    }
}

/// Encodes a call as a `POST` to the endpoint's address. `id` is the JSON-RPC id; the caller chooses it, and the
/// response repeats it.
///
/// A stream is requested by its method and by the header `accept`. Parameters are omitted if there are none.
///
/// # Errors
///
/// Returns [`Error::NotInVersion`] if the version has no such method.
pub fn request(endpoint: &Endpoint, call: &Call, id: u64) -> Result<HttpRequest, Error> {
    let version = endpoint.version;
    let Some(method) = method(call, version) else {
        return Err(Error::NotInVersion { method: "ListTasks", version: version.as_str() });
    };
    let mut params = params(call, version);
    // The tenant that the card names must be in every request (spec 8.3.2).
    if version == Version::V1 && !endpoint.tenant.is_empty() {
        params.insert("tenant".to_owned(), endpoint.tenant.clone().into());
    }
    let mut body = json!({"jsonrpc": "2.0", "id": id, "method": method});
    if let Some(object) = body.as_object_mut()
        && !params.is_empty()
    {
        object.insert("params".to_owned(), Value::Object(params));
    }
    let accept = if call.is_streaming() { EVENT_STREAM } else { JSON };
    let mut headers = headers(version, &endpoint.extensions);
    headers.push(("content-type", JSON.to_owned()));
    headers.push(("accept", accept.to_owned()));
    Ok(HttpRequest {
        method: "POST",
        url: endpoint.url.clone(),
        headers,
        body: body.to_string().into_bytes(),
        streaming: call.is_streaming(),
    })
}

/// Returns the parameters of a call. The versions differ in the names for push configurations: 0.3 uses `id` for
/// the task.
fn params(call: &Call, version: Version) -> Map<String, Value> {
    let mut params = Map::new();
    let mut put = |key: &str, value: Value| {
        params.insert(key.to_owned(), value);
    };
    match call {
        Call::SendMessage(send) | Call::SendStreamingMessage(send) => {
            return send_params(send, version, Binding::JsonRpc);
        }
        Call::GetTask { id, history_length } => {
            put("id", id.as_str().into());
            // In 0.3 zero means all; in 1.0 none. Omitting it is as near as 0.3 comes to none.
            if let Some(length) = history_length.filter(|length| version == Version::V1 || *length > 0) {
                put("historyLength", length.into());
            }
        }
        Call::ListTasks(list) => return list_params(list),
        Call::CancelTask { id, metadata } => {
            put("id", id.as_str().into());
            if let Some(metadata) = metadata {
                put("metadata", Value::Object(metadata.clone()));
            }
        }
        Call::SubscribeToTask { id } => put("id", id.as_str().into()),
        Call::CreatePushConfig(config) => return push_params(config, version),
        Call::GetPushConfig { task_id, id } | Call::DeletePushConfig { task_id, id } => match version {
            Version::V1 => {
                put("taskId", task_id.as_str().into());
                put("id", id.as_str().into());
            }
            Version::V03 => {
                put("id", task_id.as_str().into());
                put("pushNotificationConfigId", id.as_str().into());
            }
        },
        Call::ListPushConfigs { task_id } => {
            put(if version == Version::V1 { "taskId" } else { "id" }, task_id.as_str().into());
        }
        Call::GetExtendedCard => {}
    }
    params
}

/// Returns the parameters of a message: the body of both bindings.
///
/// | | 1.0 | 0.3 JSON-RPC | 0.3 REST |
/// |---|---|---|---|
/// | return before the end | `returnImmediately: true` | `blocking: false` | `blocking: false` |
/// | push configuration | `taskPushNotificationConfig` | `pushNotificationConfig` | `pushNotification` |
///
/// `blocking` is always written in 0.3: an absent one means `true` over JSON-RPC and `false` over REST.
pub(crate) fn send_params(send: &SendMessage, version: Version, binding: Binding) -> Map<String, Value> {
    let dialect = binding.dialect(version);
    let mut configuration = Map::new();
    let modes = &send.accepted_output_modes;
    if !modes.is_empty() {
        configuration.insert("acceptedOutputModes".to_owned(), json!(modes));
    }
    if let Some(length) = send.history_length.filter(|length| version == Version::V1 || *length > 0) {
        configuration.insert("historyLength".to_owned(), length.into());
    }
    match version {
        Version::V1 if send.return_immediately => {
            configuration.insert("returnImmediately".to_owned(), true.into());
        }
        Version::V1 => {}
        Version::V03 => {
            configuration.insert("blocking".to_owned(), (!send.return_immediately).into());
        }
    }
    if let Some(push) = &send.push {
        let (key, value) = match (version, binding) {
            (Version::V1, _) => ("taskPushNotificationConfig", push_json(push, version)),
            (Version::V03, Binding::JsonRpc) => ("pushNotificationConfig", push_json(push, version)),
            (Version::V03, _) => ("pushNotification", push_json(push, version)),
        };
        configuration.insert(key.to_owned(), value);
    }
    let mut params = Map::new();
    params.insert("message".to_owned(), send.message.to_json(dialect));
    if !configuration.is_empty() {
        params.insert("configuration".to_owned(), Value::Object(configuration));
    }
    if let Some(metadata) = &send.metadata {
        params.insert("metadata".to_owned(), Value::Object(metadata.clone()));
    }
    params
}

/// Returns the parameters of a list, as JSON values. REST writes the same fields into its query.
fn list_params(list: &ListTasks) -> Map<String, Value> {
    list_fields(list).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the filters that are set, by name.
pub(crate) fn list_fields(list: &ListTasks) -> impl Iterator<Item = (&'static str, Value)> {
    let text = |value: &Option<String>| value.clone().map(Value::from);
    [
        ("contextId", text(&list.context_id)),
        ("status", text(&list.status)),
        ("pageSize", list.page_size.map(Value::from)),
        ("pageToken", text(&list.page_token)),
        ("historyLength", list.history_length.map(Value::from)),
        ("statusTimestampAfter", text(&list.status_timestamp_after)),
        ("includeArtifacts", list.include_artifacts.map(Value::from)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
}

/// Returns the parameters that register a push configuration: the configuration itself in 1.0, beside its task in
/// 0.3.
fn push_params(config: &PushConfig, version: Version) -> Map<String, Value> {
    match (version, push_json(config, version)) {
        (Version::V1, Value::Object(object)) => object,
        (_, value) => Map::from_iter([
            ("taskId".to_owned(), config.task_id.as_str().into()),
            ("pushNotificationConfig".to_owned(), value),
        ]),
    }
}

/// Returns a push configuration as JSON: flat with its task in 1.0, separate from it in 0.3.
pub(crate) fn push_json(config: &PushConfig, version: Version) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            object.insert(key.to_owned(), value.into());
        }
    };
    if version == Version::V1 {
        put("taskId", &config.task_id);
    }
    put("id", &config.id);
    put("url", &config.url);
    put("token", config.token.as_deref().unwrap_or_default());
    if let Some((scheme, credentials)) = &config.authentication {
        let authentication = match version {
            Version::V1 => json!({"scheme": scheme, "credentials": credentials}),
            Version::V03 => json!({"schemes": [scheme], "credentials": credentials}),
        };
        object.insert("authentication".to_owned(), authentication);
    }
    Value::Object(object)
}
