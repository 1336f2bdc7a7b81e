//! The state of an A2A client that folds the items of a stream as the protocol defines: artifacts by id, status
//! messages in order, and the last state. Chunk boundaries are not part of it.

use aqueduct_adapter_a2a::mark;
use serde_json::{Map, Value, json};

/// The content of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Content {
    artifacts: Vec<Value>,
    said: Vec<Value>,
    state: Value,
}

impl Content {
    pub(super) fn of(item: &Value) -> Self {
        let mut content = Self::default();
        content.apply(item);
        content
    }

    pub(super) fn apply(&mut self, item: &Value) {
        if let Some(task) = item.get("task") {
            let (artifacts, history) = (list(task, "artifacts"), list(task, "history"));
            *self = Self { artifacts: artifacts.into_iter().map(joined).collect(), ..Self::default() };
            self.said = history.into_iter().filter(|message| message["role"] != "ROLE_USER").collect();
            self.set_status(&task["status"]);
        } else if let Some(update) = item.get("statusUpdate") {
            self.set_status(&update["status"]);
        } else {
            self.add(&item["artifactUpdate"]);
        }
    }

    /// True if the agent does no more by itself.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self.state.as_str(), Some("TASK_STATE_WORKING" | "TASK_STATE_SUBMITTED"))
    }

    /// True if the agent waits for its user.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state.as_str(), Some("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED"))
    }

    fn set_status(&mut self, status: &Value) {
        self.said.extend(status.get("message").cloned());
        self.state = status["state"].clone();
    }

    fn add(&mut self, update: &Value) {
        let artifact = joined(update["artifact"].clone());
        let known = self.artifacts.iter_mut().find(|known| known["artifactId"] == artifact["artifactId"]);
        match known {
            Some(known) if update["append"] == true => append(known, &artifact),
            Some(known) => *known = artifact,
            None => self.artifacts.push(artifact),
        }
    }
}

fn list(object: &Value, member: &str) -> Vec<Value> {
    object.get(member).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn append(known: &mut Value, more: &Value) {
    let mut parts = list(known, "parts");
    parts.extend(list(more, "parts"));
    let mut metadata = object(known);
    for (key, value) in object(more) {
        // The mark of the first chunk contains the kind of the artifact, and stays.
        if key != mark::KEY || !metadata.contains_key(mark::KEY) {
            metadata.insert(key, value);
        }
    }
    for member in ["name", "description"] {
        if known.get(member).is_none() && more.get(member).is_some() {
            known[member] = more[member].clone();
        }
    }
    known["parts"] = parts.into();
    if !metadata.is_empty() {
        known["metadata"] = metadata.into();
    }
    *known = joined(known.take());
}

fn object(artifact: &Value) -> Map<String, Value> {
    artifact.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The artifact with neighbouring texts as one. An empty text only opens or ends an artifact.
fn joined(mut artifact: Value) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    for part in list(&artifact, "parts") {
        let Some(words) = part["text"].as_str() else {
            parts.push(part);
            continue;
        };
        let beside = |part: &Value| {
            let mut part = part.clone();
            part["text"] = json!("");
            part
        };
        match parts.last_mut() {
            _ if words.is_empty() => {}
            Some(last) if last["text"].is_string() && beside(last) == beside(&part) => {
                last["text"] = format!("{}{words}", last["text"].as_str().unwrap()).into();
            }
            _ => parts.push(part),
        }
    }
    artifact["parts"] = parts.into();
    artifact
}
