//! Encodes responses and refusals as JSON, in the form of each version and binding.
//!
//! | | 1.0 | 0.3 JSON-RPC | 0.3 REST |
//! |---|---|---|---|
//! | task of a message | `{"task": {…}}` | `{"kind": "task", …}` | `{"task": {…}}` |
//! | task of `GetTask` | `{…}` | `{"kind": "task", …}` | `{…}` |
//! | push configuration | flat | `{"taskId", "pushNotificationConfig"}` | `{"name", "pushNotificationConfig"}` |
//! | list of these | `{"configs": […]}` | `[…]` | `{"configs": […]}` |
//! | deletion | `null`, over REST `{}` | `null` | `{}` |
//! | error | code, message, typed details | code, message | `{"message"}` |
//!
//! Not here: the JSON-RPC envelope and the HTTP status, which the bindings write.

use serde_json::{Map, Value, json};

use super::params::Spelling;
use super::{Answer, ServerError, TaskPage};
use crate::call::PushConfig;
use crate::jsonrpc::push_json;
use crate::version::{Binding, Version};
use crate::wire::{Dialect, StreamItem};

/// Encodes the response of a call that is not a stream. `is_send` is set for the call that sends a message: its
/// response can be a task or a message, and must name which.
pub(super) fn json(answer: Answer, by: Spelling, is_send: bool) -> Value {
    let dialect = by.binding.dialect(by.version);
    match answer {
        // The response to a message is a task or a message, and names which; 0.3 over JSON-RPC by its `kind`.
        Answer::Task(task) if is_send => StreamItem::Task(*task).to_json(dialect),
        Answer::Message(message) if is_send => StreamItem::Message(*message).to_json(dialect),
        Answer::Task(task) => task.to_json(dialect),
        Answer::Message(message) => message.to_json(dialect),
        Answer::Tasks(page) => page_json(&page, dialect),
        Answer::PushConfig(config) => push_result(&config, by),
        Answer::PushConfigs(configs) => {
            let list: Vec<Value> = configs.iter().map(|config| push_result(config, by)).collect();
            match (by.version, by.binding) {
                (Version::V03, Binding::JsonRpc) => Value::Array(list),
                _ => json!({ "configs": list }),
            }
        }
        Answer::Card(card) => *card,
        Answer::Nothing if by.binding == Binding::HttpJson => json!({}),
        Answer::Nothing | Answer::Stream(_) => Value::Null,
    }
}

/// Encodes a page of tasks. `nextPageToken` is always present (spec 3.1.4), empty on the last page.
fn page_json(page: &TaskPage, dialect: Dialect) -> Value {
    json!({
        "tasks": page.tasks.iter().map(|task| task.to_json(dialect)).collect::<Vec<_>>(),
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    })
}

/// Encodes a stored push configuration, with the name of its task.
fn push_result(config: &PushConfig, by: Spelling) -> Value {
    let inner = push_json(config, by.version);
    match (by.version, by.binding) {
        (Version::V1, _) => inner,
        (Version::V03, Binding::JsonRpc) => {
            json!({"taskId": config.task_id, "pushNotificationConfig": inner})
        }
        (Version::V03, _) => {
            let name = format!("tasks/{}/pushNotificationConfigs/{}", config.task_id, config.id);
            json!({ "name": name, "pushNotificationConfig": inner })
        }
    }
}

/// Returns the `error` member of a JSON-RPC response.
pub(super) fn rpc_error(error: &ServerError, version: Version) -> Value {
    let mut object = Map::new();
    object.insert("code".to_owned(), error.code().into());
    object.insert("message".to_owned(), error.message.as_str().into());
    // 0.3 has no typed details.
    if version == Version::V1 {
        object.insert("data".to_owned(), Value::Array(error.details()));
    }
    Value::Object(object)
}

/// Returns the body of a REST refusal. 1.0: `google.rpc.Status` as JSON in `error`. 0.3: the message alone.
pub(super) fn rest_error(error: &ServerError, version: Version) -> Value {
    match version {
        Version::V1 => json!({"error": {
            "code": error.http_status(), "status": error.grpc_code().name(), "message": error.message, "details": error.details()
        }}),
        Version::V03 => json!({"message": error.message}),
    }
}
