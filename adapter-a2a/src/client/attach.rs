//! Attaches to a task that another client began, from a small checkpoint.
//!
//! A replica that takes over a run has the run log and the checkpoint, not the memory of the client that was lost. It
//! reads the task and decodes it from the start of the turn; the caller deduplicates the result against its log. The
//! checkpoint adds what neither the log nor the task contains: which artifacts belong to earlier turns.
//!
//! ```text
//! {"taskId": "t", "contextId": "c", "earlier": {"artifact-1": 1204}}
//! ```

use std::time::Duration;

use aqueduct_core::ByteString;
use serde_json::{Map, Value, json};

use super::TaskClient;
use crate::call::{SendMessage, TaskRef};
use crate::config::ClientConfig;
use crate::decode::TaskMemory;

/// What another client needs to attach to a task: small enough to be stored beside the task's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The id of the task and its context.
    pub task: TaskRef,
    /// Artifacts of earlier turns of the task, and the length of their text in bytes. An artifact that still has this
    /// length has no new content.
    pub earlier: Vec<(String, usize)>,
}

impl Attachment {
    /// Returns the attachment as JSON, for a checkpoint in the run log.
    pub fn to_value(&self) -> Value {
        let mut value =
            json!({ TaskRef::TASK_ID: self.task.task_id, TaskRef::CONTEXT_ID: self.task.context_id });
        if let (false, Some(object)) = (self.earlier.is_empty(), value.as_object_mut()) {
            let earlier: Map<String, Value> =
                self.earlier.iter().map(|(id, length)| (id.clone(), (*length).into())).collect();
            object.insert("earlier".to_owned(), Value::Object(earlier));
        }
        value
    }

    /// Parses an attachment. Returns `None` if the value names no task. Artifacts whose length is not a whole number
    /// are left out.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let task_id = text(TaskRef::TASK_ID).filter(|id| !id.is_empty())?.to_owned();
        let context_id = text(TaskRef::CONTEXT_ID).unwrap_or_default().to_owned();
        let earlier = value.get("earlier").and_then(Value::as_object).into_iter().flatten();
        let length = |value: &Value| value.as_u64().and_then(|length| usize::try_from(length).ok());
        let earlier = earlier.filter_map(|(id, value)| Some((id.clone(), length(value)?))).collect();
        Some(Self { task: TaskRef { task_id, context_id }, earlier })
    }
}

/// Returns `true` if an id has the form of those that the decoder assigns to items without an id, or with one that is
/// taken. Such ids are counters, so another client may assign them differently.
pub fn is_made_id(id: &str) -> bool {
    let counted = id.strip_prefix("status-").or_else(|| id.strip_prefix("answer-"));
    let number = counted.or_else(|| id.rsplit_once('#').map(|(_, number)| number));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl TaskClient {
    /// Returns what another client needs to attach to the task, once the task is known.
    pub fn attachment(&self) -> Option<Attachment> {
        let earlier = self.decoder.memory().left_by_earlier_turns();
        let earlier = earlier.map(|(id, length)| (id.to_string(), length)).collect();
        Some(Attachment { task: self.task_ref()?, earlier })
    }

    /// Returns `true` once the agent has sent anything about the task. Before that, a lost response leaves open
    /// whether the message arrived.
    pub fn has_heard(&self) -> bool {
        self.decoder.has_heard()
    }

    /// Returns a client for a turn that another client began with the message `sent`. It emits everything that the task
    /// has shown in this turn again, from the start; the caller suppresses what its log already contains.
    pub fn attaching(mut config: ClientConfig, sent: SendMessage, at: Attachment) -> Self {
        let memory = TaskMemory {
            task_id: at.task.task_id.into(),
            context_id: at.task.context_id.into(),
            earlier: at.earlier.into_iter().map(|(id, length)| (ByteString::from(id), length)).collect(),
            ..TaskMemory::default()
        };
        config.decode.follow_up = false;
        let mut client = Self::waiting(config, sent, memory);
        client.plan_get(Duration::ZERO);
        client
    }
}
