//! A task that another client began: what leads back to it, and how it is taken up.

use std::time::Duration;

use aqueduct_core::ByteString;
use serde_json::{Map, Value, json};

use super::TaskClient;
use crate::call::{SendMessage, TaskRef};
use crate::config::ClientConfig;
use crate::decode::TaskMemory;

/// What another client must know to take a task up: small enough to be kept beside the task's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The task.
    pub task: TaskRef,
    /// Artifacts that earlier turns of the task left, and the length of their words.
    pub earlier: Vec<(String, usize)>,
}

impl Attachment {
    /// As JSON.
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

    /// From JSON; none if it names no task.
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

/// True if the decoder made an id of this shape itself, for something that had none or one that was taken: it counts
/// such things, so another client may count otherwise.
pub fn is_made_id(id: &str) -> bool {
    let counted = id.strip_prefix("status-").or_else(|| id.strip_prefix("answer-"));
    let number = counted.or_else(|| id.rsplit_once('#').map(|(_, number)| number));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl TaskClient {
    /// What another client would need to take the task up, once there is one.
    pub fn attachment(&self) -> Option<Attachment> {
        let earlier = self.decoder.memory().left_by_earlier_turns();
        let earlier = earlier.map(|(id, length)| (id.to_string(), length)).collect();
        Some(Attachment { task: self.task_ref()?, earlier })
    }

    /// True once the agent has told anything of the task.
    pub fn has_heard(&self) -> bool {
        self.decoder.has_heard()
    }

    /// A turn that another client began with the message `sent`. Everything the task has shown in this turn is told
    /// again, from the start; who knows what was told before leaves that out.
    pub fn attaching(mut config: ClientConfig, sent: SendMessage, at: Attachment) -> Self {
        let memory = TaskMemory {
            task_id: at.task.task_id.into(),
            context_id: at.task.context_id.into(),
            earlier: at.earlier.into_iter().map(|(id, length)| (ByteString::from(id), length)).collect(),
            ..TaskMemory::default()
        };
        config.decode.follow_up = false;
        let mut client = Self::waiting(config, sent, memory);
        client.look(Duration::ZERO);
        client
    }
}
