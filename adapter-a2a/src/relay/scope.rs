//! The scope of a call: the tasks and contexts that it names, for a proxy that checks their owners.
//!
//! ```text
//! {"method":"SendMessage","params":{"message":{"taskId":"t","contextId":"c","referenceTaskIds":["r"]}}}
//! ► CallScope { reach: Send, tasks: ["t", "r"], contexts: ["c"], push_urls: [] }
//! ```
//!
//! A proxy compares ids with owners, so an agent must not read other ids than the proxy did:
//!
//! - repeated members are refused ([`unique`](super::unique));
//! - both spellings of a member (`taskId`, `task_id`) count;
//! - resource names of 0.3 (`tasks/t`) and ids in paths count, decoded as agents decode them;
//! - a method that is not part of the protocol is [`Reach::Unknown`], and the proxy decides about it.
//!
//! Too many ids are harmless, one too few is not: an id that occurs in a member with another meaning is reported
//! too. Not here: who owns an id, and what is done about a foreign one.

use serde_json::{Map, Value};

use super::unique::parse;
use super::{edited, members, text};
use crate::rest::decoded;

/// The member that contains a message: `request` in the protobuf of 0.3.
const MESSAGE: [&str; 2] = ["message", "request"];

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Sends a message: starts or continues a task.
    Send,
    /// Reads, cancels or subscribes to one task.
    Task,
    /// Lists tasks.
    List,
    /// Reads, writes or deletes push notification configurations of a task.
    Push,
    /// Reads the extended card.
    Card,
    /// Not a method of the protocol: nothing is known about its effect.
    Unknown,
}

/// The tasks, contexts and addresses that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallScope {
    /// The effect of the call.
    pub reach: Reach,
    /// The tasks that the call names, each as often as it is named.
    pub tasks: Vec<String>,
    /// The contexts that the call names.
    pub contexts: Vec<String>,
    /// The addresses that the call registers for push notifications.
    pub push_urls: Vec<String>,
}

impl CallScope {
    /// Returns a scope without ids.
    fn new(reach: Reach) -> Self {
        Self { reach, tasks: Vec::new(), contexts: Vec::new(), push_urls: Vec::new() }
    }

    /// Parses the body of a JSON-RPC call. Returns `None` if the body is not one JSON object without repeated members.
    pub fn of_jsonrpc(body: &str) -> Option<Self> {
        let Value::Object(top) = parse(body)? else { return None };
        let method = top.get("method").and_then(Value::as_str).unwrap_or_default();
        let is_push = method.contains("ushNotificationConfig");
        let reach = match method {
            "SendMessage" | "SendStreamingMessage" | "message/send" | "message/stream" => Reach::Send,
            "GetTask" | "CancelTask" | "SubscribeToTask" | "tasks/get" | "tasks/cancel"
            | "tasks/resubscribe" => Reach::Task,
            "ListTasks" | "tasks/list" => Reach::List,
            "GetExtendedAgentCard" | "agent/getAuthenticatedExtendedCard" => Reach::Card,
            _ if is_push => Reach::Push,
            _ => Reach::Unknown,
        };
        let mut scope = Self::new(reach);
        let empty = Map::new();
        let params = top.get("params").and_then(Value::as_object).unwrap_or(&empty);
        // In 1.0 `id` is that of the configuration, in 0.3 that of the task.
        let has_own_id = is_push && !method.contains('/');
        scope.read_params(params, has_own_id);
        Some(scope)
    }

    /// Parses a REST call: its method, its path below the interface's address, and its body. Returns `None` if the body
    /// is present and not one JSON object without repeated members.
    pub fn of_rest(method: &str, path: &str, body: &str) -> Option<Self> {
        let params = match body.trim() {
            "" => Map::new(),
            text => match parse(text)? {
                Value::Object(params) => params,
                _ => return None,
            },
        };
        let path = path.split('?').next().unwrap_or_default();
        let segments: Vec<String> =
            path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
        // Before it stand the prefix of 0.3 (`v1`) or a tenant.
        let at = segments.iter().position(|segment| segment == "tasks" || segment.starts_with("message:"));
        let below: Vec<&str> = segments.iter().skip(at.unwrap_or(0)).map(String::as_str).collect();
        let mut scope = Self::new(Reach::Unknown);
        match (method, below.as_slice()) {
            ("POST", ["message:send" | "message:stream"]) => scope.reach = Reach::Send,
            ("GET", ["tasks"]) => scope.reach = Reach::List,
            // A verb that is unknown still names a task: `tasks/T:archive`.
            (_, ["tasks", task]) => {
                let (id, verb) = task.rsplit_once(':').unwrap_or((task, ""));
                let is_known = matches!(
                    (method, verb),
                    ("GET", "") | ("GET" | "POST", "subscribe") | ("POST", "cancel")
                );
                scope.reach = if is_known { Reach::Task } else { Reach::Unknown };
                scope.tasks.push(id.to_owned());
            }
            (
                _,
                ["tasks", task, "pushNotificationConfigs"] | ["tasks", task, "pushNotificationConfigs", _],
            ) => {
                scope.reach = Reach::Push;
                scope.tasks.push((*task).to_owned());
            }
            ("GET", _)
                if matches!(segments.last().map(String::as_str), Some("extendedAgentCard" | "card")) =>
            {
                scope.reach = Reach::Card;
            }
            _ => {}
        }
        scope.read_params(&params, true);
        Some(scope)
    }

    /// Reads the ids in parameters. If `has_own_id` is set, `id` is not the id of a task: it is that of a push
    /// configuration, or, over REST, it is in the path.
    fn read_params(&mut self, params: &Map<String, Value>, has_own_id: bool) {
        let names = if has_own_id { &["taskId", "task_id"][..] } else { &["id", "taskId", "task_id"] };
        if matches!(self.reach, Reach::Task | Reach::Push) {
            self.tasks.extend(texts(params, names));
            self.tasks.extend(texts(params, &["name", "parent"]).filter_map(|name| task_in(&name)));
        }
        self.contexts.extend(texts(params, &CONTEXT));
        self.push_urls.extend(urls(&Value::Object(params.clone()), self.reach == Reach::Push));
        for message in MESSAGE.iter().filter_map(|name| params.get(*name)?.as_object()) {
            self.tasks.extend(texts(message, &["taskId", "task_id"]));
            self.contexts.extend(texts(message, &CONTEXT));
            for name in ["referenceTaskIds", "reference_task_ids"] {
                let list = message.get(name).and_then(Value::as_array).into_iter().flatten();
                self.tasks.extend(list.filter_map(Value::as_str).map(str::to_owned));
            }
        }
    }
}

/// The ids in a response: those of its task, and of its context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerIds {
    /// The ids of tasks.
    pub tasks: Vec<String>,
    /// The ids of contexts.
    pub contexts: Vec<String>,
}

impl AnswerIds {
    /// Reads a response, or one event of a stream, of either binding and version.
    pub fn of(answer: &Value) -> Self {
        let result = answer.get("result").unwrap_or(answer);
        let parts =
            ["task", "message", "statusUpdate", "artifactUpdate", "status_update", "artifact_update", "msg"];
        let objects = [Some(result)].into_iter().chain(parts.map(|part| result.get(part))).flatten();
        let mut ids = Self::default();
        for object in objects.filter_map(Value::as_object) {
            // A task has a status; so has an update, which names its task.
            let is_task = object.contains_key("status") && !object.contains_key("taskId");
            ids.tasks.extend(texts(object, if is_task { &["id"] } else { &["taskId", "task_id"] }));
            ids.contexts.extend(texts(object, &CONTEXT));
        }
        ids.tasks.dedup();
        ids.contexts.dedup();
        ids
    }
}

/// The names of the member that contains a context.
const CONTEXT: [&str; 2] = ["contextId", "context_id"];

/// Returns the body of a call (its parameters are in `params` over JSON-RPC) with other ids for its contexts; all other
/// bytes are unchanged. Returns `None` if none is replaced.
pub fn replace_contexts(body: &str, is_rpc: bool, other: impl Fn(&str) -> Option<String>) -> Option<String> {
    let params = if is_rpc { members(body).get("params")?.get() } else { body };
    let inside = members(params);
    let messages = MESSAGE.iter().filter_map(|name| inside.get(*name).map(|raw| members(raw.get())));
    let mut edits = Vec::new();
    for object in messages.chain([members(params)]) {
        for raw in CONTEXT.iter().filter_map(|name| object.get(*name)) {
            let found = text(raw).filter(|id| !id.is_empty()).and_then(|id| other(&id));
            let start = raw.get().as_ptr().addr().checked_sub(body.as_ptr().addr())?;
            edits.extend(found.map(|id| (start, start + raw.get().len(), Value::from(id).to_string())));
        }
    }
    if edits.is_empty() { None } else { edited(body, edits) }
}

/// Returns the contexts that the query of a REST call names.
pub fn query_contexts(query: &str) -> Vec<String> {
    query_members(query).filter_map(|(_, id)| id).collect()
}

/// Returns the query of a REST call with other ids for its contexts.
pub fn replace_query_contexts(query: &str, other: impl Fn(&str) -> Option<String>) -> String {
    let written = query_members(query).map(|(member, id)| match id.and_then(|id| other(&id)) {
        Some(other) => format!("contextId={other}"),
        None => member.to_owned(),
    });
    written.collect::<Vec<_>>().join("&")
}

/// Returns the members of a query, each with the context that it names.
fn query_members(query: &str) -> impl Iterator<Item = (&str, Option<String>)> {
    query.split('&').map(|member| {
        let (name, value) = member.split_once('=').unwrap_or((member, ""));
        let is_context = CONTEXT.contains(&decoded(name).as_str());
        let id = is_context.then(|| decoded(&value.replace('+', " "))).filter(|id| !id.is_empty());
        (member, id)
    })
}

/// Returns the ids of the tasks in the response to a list request.
pub fn listed_tasks(answer: &Value) -> Vec<String> {
    let tasks = answer.get("result").unwrap_or(answer).get("tasks").and_then(Value::as_array);
    tasks.into_iter().flatten().filter_map(|task| task.get("id")?.as_str()).map(str::to_owned).collect()
}

/// Removes unwanted tasks from the response to a list request, and corrects its count.
pub fn retain_tasks(answer: &mut Value, is_wanted: impl Fn(&str) -> bool) {
    let list = if answer.get("result").is_some() { answer.get_mut("result") } else { Some(answer) };
    let Some(list) = list.and_then(Value::as_object_mut) else { return };
    let mut left = 0;
    if let Some(tasks) = list.get_mut("tasks").and_then(Value::as_array_mut) {
        tasks.retain(|task| task.get("id").and_then(Value::as_str).is_some_and(&is_wanted));
        left = tasks.len();
    }
    for name in ["totalSize", "total_size"] {
        if let Some(total) = list.get_mut(name) {
            *total = left.into();
        }
    }
}

/// Returns the members of these names that are non-empty strings.
fn texts(object: &Map<String, Value>, names: &[&str]) -> impl Iterator<Item = String> {
    let found: Vec<String> = names
        .iter()
        .filter_map(|name| object.get(*name)?.as_str())
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect();
    found.into_iter()
}

/// Returns the task of a resource name such as `tasks/T/pushNotificationConfigs/C`.
fn task_in(name: &str) -> Option<String> {
    let mut segments = name.split('/');
    segments.find(|segment| *segment == "tasks")?;
    segments.next().map(str::to_owned)
}

/// Returns the addresses of push configurations: all of a call about one, else those in the configuration of a message.
fn urls(params: &Value, is_push: bool) -> Vec<String> {
    let mut found = Vec::new();
    // Iterative, with a flag whether the value is inside of a configuration: bodies can be deeply nested.
    let mut open = vec![(params, is_push)];
    while let Some((value, is_inside)) = open.pop() {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let is_config = is_inside || name.to_ascii_lowercase().contains("push");
                    match value {
                        Value::String(url) if is_config && name == "url" => found.push(url.clone()),
                        // The content of a message is not a configuration.
                        _ if MESSAGE.contains(&name.as_str()) => {}
                        value => open.push((value, is_config)),
                    }
                }
            }
            Value::Array(items) => open.extend(items.iter().map(|item| (item, is_inside))),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rpc(method: &str, params: &Value) -> CallScope {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        CallScope::of_jsonrpc(&body.to_string()).unwrap()
    }

    #[test]
    fn every_method_names_its_task_in_every_spelling() {
        for (method, params, reach) in [
            ("GetTask", json!({"id": "T"}), Reach::Task),
            ("tasks/cancel", json!({"id": "T"}), Reach::Task),
            ("SubscribeToTask", json!({"name": "tasks/T"}), Reach::Task),
            ("CreateTaskPushNotificationConfig", json!({"taskId": "T", "id": "config"}), Reach::Push),
            ("ListTaskPushNotificationConfigs", json!({"parent": "tasks/T"}), Reach::Push),
            ("tasks/pushNotificationConfig/get", json!({"id": "T"}), Reach::Push),
            ("tasks/pushNotificationConfig/set", json!({"taskId": "T"}), Reach::Push),
            ("message/send", json!({"message": {"task_id": "T"}}), Reach::Send),
            ("SendMessage", json!({"message": {"referenceTaskIds": ["T"]}}), Reach::Send),
            ("SendMessage", json!({"request": {"taskId": "T"}}), Reach::Send),
        ] {
            let scope = rpc(method, &params);
            assert_eq!((scope.reach, scope.tasks), (reach, vec!["T".to_owned()]), "{method} {params}");
        }
        let both = rpc("GetTask", &json!({"id": "mine", "task_id": "theirs"}));
        assert_eq!(both.tasks, ["mine", "theirs"]);
        assert_eq!(rpc("ListTasks", &json!({"contextId": "C"})).contexts, ["C"]);
        assert_eq!(rpc("tasks/dump", &json!({"id": "T"})).reach, Reach::Unknown);
    }

    #[test]
    fn paths_are_read_as_agents_read_them() {
        for (method, path, reach, tasks) in [
            ("GET", "tasks/T", Reach::Task, &["T"][..]),
            ("GET", "v1/tasks/T%3A1?historyLength=1", Reach::Unknown, &["T"]),
            ("POST", "tenant/tasks/a%2Fb:cancel", Reach::Task, &["a/b"]),
            ("GET", "tasks/T:subscribe", Reach::Task, &["T"]),
            ("DELETE", "tasks/T/pushNotificationConfigs/C", Reach::Push, &["T"]),
            ("GET", "tasks", Reach::List, &[]),
            ("POST", "v1/message:stream", Reach::Send, &[]),
            ("GET", "v1/card", Reach::Card, &[]),
            ("GET", "admin/dump", Reach::Unknown, &[]),
            ("PUT", "tasks/T", Reach::Unknown, &["T"]),
        ] {
            let scope = CallScope::of_rest(method, path, "").unwrap();
            assert_eq!(
                (scope.reach, scope.tasks),
                (reach, tasks.iter().map(|id| (*id).to_owned()).collect()),
                "{path}"
            );
        }
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused() {
        for body in [
            r#"{"method":"GetTask","params":{"id":"mine","id":"theirs"}}"#,
            r#"{"method":"GetTask","method":"ListTasks","params":{}}"#,
            r#"{"method":"GetTask","params":{"id":"mine"},"params":{"id":"theirs"}}"#,
            "[]",
            "nonsense",
        ] {
            assert_eq!(CallScope::of_jsonrpc(body), None, "{body}");
        }
    }

    #[test]
    fn contexts_are_replaced_and_nothing_else_is_touched() {
        let other = |id: &str| (id == "X\"1").then(|| "Y".to_owned());
        let body = r#"{ "id":1.50,"params" : {"message":{"contextId": "X\u00221", "parts":[{"text":"X\"1"}]},"context_id":"X\"1", "n":1e2}}"#;
        let expected = r#"{ "id":1.50,"params" : {"message":{"contextId": "Y", "parts":[{"text":"X\"1"}]},"context_id":"Y", "n":1e2}}"#;
        assert_eq!(replace_contexts(body, true, other).as_deref(), Some(expected));
        assert_eq!(replace_contexts(body, false, other), None, "another place");
        let rest = r#"{"request":{"context_id":"X\"1"}}"#;
        assert_eq!(replace_contexts(rest, false, other).unwrap(), r#"{"request":{"context_id":"Y"}}"#);
        assert_eq!(replace_contexts("nonsense", true, other), None);
        let query = "pageSize=1&contextId=X%221&context%5fid=X%221&x";
        assert_eq!(query_contexts(query), ["X\"1", "X\"1"]);
        assert_eq!(replace_query_contexts(query, other), "pageSize=1&contextId=Y&contextId=Y&x");
    }

    #[test]
    fn push_addresses_are_found_wherever_they_stand() {
        let config = json!({"configuration": {"pushNotificationConfig": {"url": "http://x"}}, "message": {"push": {"url": "no"}}});
        assert_eq!(rpc("message/send", &config).push_urls, ["http://x"]);
        let flat = json!({"taskId": "T", "url": "http://y"});
        assert_eq!(rpc("CreateTaskPushNotificationConfig", &flat).push_urls, ["http://y"]);
        assert_eq!(rpc("SendMessage", &json!({"message": {"url": "http://z"}})).push_urls, [""; 0]);
    }

    #[test]
    fn answers_of_all_shapes_name_their_ids() {
        for answer in [
            json!({"task": {"id": "T", "contextId": "C", "status": {}}}),
            json!({"result": {"kind": "task", "id": "T", "contextId": "C", "status": {}}}),
            json!({"result": {"statusUpdate": {"taskId": "T", "contextId": "C", "status": {}}}}),
            json!({"result": {"kind": "status-update", "taskId": "T", "contextId": "C", "status": {}}}),
            json!({"message": {"taskId": "T", "contextId": "C", "messageId": "M"}}),
        ] {
            let ids = AnswerIds::of(&answer);
            assert_eq!((ids.tasks, ids.contexts), (vec!["T".to_owned()], vec!["C".to_owned()]), "{answer}");
        }
        let mut list = json!({"result": {"tasks": [{"id": "A"}, {"id": "B"}], "totalSize": 2}});
        assert_eq!(listed_tasks(&list), ["A", "B"]);
        retain_tasks(&mut list, |id| id == "B");
        assert_eq!(list, json!({"result": {"tasks": [{"id": "B"}], "totalSize": 1}}));
    }
}
