//! A call whose agent asks, and which a proxy continues with the user's reply.
//!
//! ```text
//! caller ── message ──► proxy ── message ──► agent
//!                         │ ◄── input required ──┘      held: the caller does not receive it
//!                         │ ── reply, to the task ──► agent                          [`reply_body`]
//! caller ◄── the rest ────┘ ◄── the rest of the stream ────┘                         [`continue_event`]
//! ```
//!
//! The reply is the caller's own call with another message, so that its response is read as the response to that call:
//! same method, same JSON-RPC id, same configuration.

use aqueduct_core::{InterruptReply, RunInput};
use serde_json::{Map, Value, json};

use crate::call::TaskRef;
use crate::input::{Recipient, message};
use crate::wire::Dialect;

/// The members that contain a message: `request` in the protobuf of 0.3.
const MESSAGE: [&str; 2] = ["message", "request"];

/// Returns the body of a call that sends a message, with the replies to that task as its message. Returns `None` if the
/// body contains no message.
pub fn reply_body(
    body: &str,
    dialect: Dialect,
    (task, message_id): (&TaskRef, &str),
    replies: &[InterruptReply],
) -> Option<String> {
    let mut call: Value = serde_json::from_str(body).ok()?;
    let is_rpc = call.get("jsonrpc").is_some();
    let params = if is_rpc { call.get_mut("params")? } else { &mut call };
    let params = params.as_object_mut()?;
    let member = MESSAGE.into_iter().find(|member| params.get(*member).is_some_and(Value::is_object))?;
    let mut input = RunInput::prompt("", "", "");
    input.messages.clear();
    input.resume = replies.to_vec();
    let reply = message(&input, message_id, &Recipient::Task(task.clone()));
    params.insert(member.to_owned(), reply.to_json(dialect));
    Some(call.to_string())
}

/// Converts the data of an event of the response to a reply into events of the stream that the caller already reads.
///
/// A stream names its task once: clients of 0.3 refuse a second task. So a task becomes its artifacts, if it has ended,
/// and its status; everything else is unchanged.
pub fn continue_event(data: &str) -> Vec<String> {
    let changed = || -> Option<Vec<String>> {
        let event: Value = serde_json::from_str(data).ok()?;
        let is_rpc = event.get("jsonrpc").is_some();
        let result = if is_rpc { event.get("result")? } else { &event };
        let has_kind = result.get("kind").and_then(Value::as_str) == Some("task");
        let task = if has_kind { result } else { result.get("task")? }.as_object()?;
        let envelope = |result: Value| match event.get("id").filter(|_| is_rpc) {
            Some(id) => json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
            None => result.to_string(),
        };
        Some(updates(task, has_kind).into_iter().map(envelope).collect())
    };
    changed().unwrap_or_else(|| vec![data.to_owned()])
}

/// Returns the updates that are equivalent to a task.
fn updates(task: &Map<String, Value>, has_kind: bool) -> Vec<Value> {
    let member = |name: &str| task.get(name).cloned().unwrap_or_default();
    let state = task.get("status").and_then(|status| status.get("state")?.as_str()).unwrap_or_default();
    let is_over = ends(state);
    let ids = json!({ "taskId": member("id"), "contextId": member("contextId") });
    let update = |kind: &str, name: &str, more: Value| {
        let mut all = ids.clone();
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
            if has_kind {
                all.insert("kind".to_owned(), kind.into());
            }
        }
        if has_kind { all } else { json!({ name: all }) }
    };
    let artifacts = task.get("artifacts").and_then(Value::as_array).into_iter().flatten();
    let artifact = |artifact: &Value| {
        let more = json!({ "artifact": artifact, "append": false, "lastChunk": true });
        update("artifact-update", "artifactUpdate", more)
    };
    let mut all: Vec<Value> = artifacts.filter(|_| is_over).map(artifact).collect();
    let mut more = json!({ "status": member("status") });
    if let Some(more) = more.as_object_mut().filter(|_| has_kind) {
        more.insert("final".to_owned(), is_over.into());
    }
    all.push(update("status-update", "statusUpdate", more));
    all
}

/// Returns `true` if the stream of a task in that state ends.
fn ends(state: &str) -> bool {
    let state = state.trim_start_matches("TASK_STATE_").to_ascii_lowercase().replace('_', "-");
    !matches!(state.as_str(), "submitted" | "working" | "")
}

#[cfg(test)]
mod tests {
    use aqueduct_core::InterruptId;

    use super::*;

    fn reply() -> InterruptReply {
        InterruptReply { id: InterruptId::from("i"), resolved: true, payload: Some("prod".into()) }
    }

    #[test]
    fn the_reply_is_the_same_call_with_another_message() {
        let task = TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() };
        let body = json!({
            "jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage",
            "params": { "message": { "messageId": "m" }, "metadata": { "k": 1 }, "configuration": { "blocking": true } },
        });
        let found = reply_body(&body.to_string(), Dialect::V1, (&task, "n"), &[reply()]).unwrap();
        let mut expected = body;
        expected["params"]["message"] = json!({
            "messageId": "n", "taskId": "t", "contextId": "c", "role": "ROLE_USER", "parts": [{ "text": "prod" }],
        });
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), expected);

        let older =
            reply_body("{\"request\":{\"messageId\":\"m\"}}", Dialect::V03Rest, (&task, "n"), &[reply()]);
        let older: Value = serde_json::from_str(&older.unwrap()).unwrap();
        assert_eq!(older["request"]["taskId"], "t");
        for without in ["", "{}", "[]", "{\"message\":1}", "{\"jsonrpc\":\"2.0\"}"] {
            assert_eq!(reply_body(without, Dialect::V1, (&task, "n"), &[reply()]), None, "{without}");
        }
    }

    #[test]
    fn a_second_task_becomes_updates_of_the_first() {
        let of = |event: Value| -> Vec<Value> {
            let events = continue_event(&event.to_string());
            events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
        };
        let working = json!({ "jsonrpc": "2.0", "id": 7, "result": { "task": {
            "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" }, "artifacts": [{ "artifactId": "A" }],
        } } });
        let update = json!({ "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
        let expected = json!({ "jsonrpc": "2.0", "id": 7, "result": { "statusUpdate": update } });
        assert_eq!(of(working), [expected]);

        let ended = json!({
            "kind": "task", "id": "t", "contextId": "c", "status": { "state": "completed" }, "artifacts": [{ "artifactId": "A" }],
        });
        let found = of(ended);
        assert_eq!(found[0]["kind"], "artifact-update");
        assert_eq!(found[0]["artifact"], json!({ "artifactId": "A" }));
        assert_eq!(
            found[1],
            json!({ "taskId": "t", "contextId": "c", "status": { "state": "completed" }, "final": true, "kind": "status-update" })
        );
    }

    #[test]
    fn other_events_stay_byte_by_byte() {
        for data in [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"statusUpdate\" : {}}}",
            "{\"error\":{\"code\":400}}",
            "{\"kind\":\"message\"}",
            "not JSON",
            "",
        ] {
            assert_eq!(continue_event(data), [data]);
        }
    }
}
