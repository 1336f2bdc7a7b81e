//! A message whose response was lost before it named a task: the record that is stored before the message is sent, and
//! the search for its task in the agent's list. The message is never sent again.

use serde_json::{Value, json};

use crate::call::{Call, ListTasks, TaskRef};

/// The member of a checkpoint that names the message.
const SENT: &str = "sent";

/// Tasks per page: the largest page that an agent has to support.
const PAGE_SIZE: u32 = 100;

/// A message that is about to be sent: small enough to be stored beside the run's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// The id of the message, which is unique.
    pub message_id: String,
    /// The context; empty if the agent starts one.
    pub context_id: String,
}

/// The result of searching one page of tasks for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentPage {
    /// The task that the message began or continued.
    Found(TaskRef),
    /// The message is not on this page; the token selects the next one.
    Next(String),
    /// No task of the agent contains the message.
    Unknown,
}

impl SentMessage {
    /// Returns the message as JSON, for a checkpoint that is stored before the message is sent.
    pub fn to_value(&self) -> Value {
        json!({ SENT: self.message_id, TaskRef::CONTEXT_ID: self.context_id })
    }

    /// Parses the message. Returns `None` if the value names no message.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let message_id = text(SENT).filter(|id| !id.is_empty())?;
        Some(Self { message_id, context_id: text(TaskRef::CONTEXT_ID).unwrap_or_default() })
    }

    /// Returns the request for a page of tasks, newest first. The first page has no token.
    pub fn list_call(&self, page_token: Option<String>) -> Call {
        Call::ListTasks(Box::new(ListTasks {
            context_id: Some(self.context_id.clone()).filter(|id| !id.is_empty()),
            page_size: Some(PAGE_SIZE),
            page_token,
            ..ListTasks::default()
        }))
    }

    /// Searches a page for the message, with or without its JSON-RPC envelope. Returns `None` if `body` is not a page
    /// of tasks.
    pub fn read_page(&self, body: &Value) -> Option<SentPage> {
        let TasksPage { messages, next } = TasksPage::read(body)?;
        let found = messages.into_iter().find(|(id, _)| *id == self.message_id);
        Some(match (found, next) {
            (Some((_, task)), _) => SentPage::Found(task),
            (None, Some(next)) => SentPage::Next(next),
            (None, None) => SentPage::Unknown,
        })
    }
}

/// One page of the agent's tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TasksPage {
    /// The ids of the messages in the histories of the tasks, each with its task.
    pub messages: Vec<(String, TaskRef)>,
    /// The token of the next page.
    pub next: Option<String>,
}

impl TasksPage {
    /// Reads a page, with or without its JSON-RPC envelope. Returns `None` if `body` is not a page of tasks.
    pub fn read(body: &Value) -> Option<Self> {
        let page = body.get("result").unwrap_or(body);
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut messages = Vec::new();
        for task in page.get("tasks")?.as_array()? {
            let of = TaskRef { task_id: text(task, "id"), context_id: text(task, TaskRef::CONTEXT_ID) };
            let history = task.get("history").and_then(Value::as_array).into_iter().flatten();
            let ids = history.map(|message| text(message, "messageId")).filter(|id| !id.is_empty());
            messages.extend(ids.filter(|_| !of.task_id.is_empty()).map(|id| (id, of.clone())));
        }
        Some(Self { messages, next: Some(text(page, "nextPageToken")).filter(|next| !next.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> SentMessage {
        SentMessage { message_id: "run-input".to_owned(), context_id: String::new() }
    }

    #[test]
    fn what_is_kept_comes_back() {
        let with_context = SentMessage { context_id: "c".to_owned(), ..sent() };
        for sent in [sent(), with_context] {
            assert_eq!(SentMessage::from_value(&sent.to_value()), Some(sent));
        }
        assert_eq!(SentMessage::from_value(&json!({ "taskId": "t", "contextId": "c" })), None);
    }

    #[test]
    fn the_task_is_found_by_the_message_in_its_history() {
        let task = |id: &str, message: &str| json!({ "id": id, "contextId": "c", "history": [{ "messageId": message }] });
        let page = json!({ "tasks": [task("a", "other"), { "id": "b" }, task("mine", "run-input")] });
        let found = SentPage::Found(TaskRef { task_id: "mine".to_owned(), context_id: "c".to_owned() });
        assert_eq!(sent().read_page(&page), Some(found.clone()));
        assert_eq!(sent().read_page(&json!({ "jsonrpc": "2.0", "id": 1, "result": page })), Some(found));
        let others = json!({ "tasks": [task("a", "other")], "nextPageToken": "2" });
        assert_eq!(sent().read_page(&others), Some(SentPage::Next("2".to_owned())));
        assert_eq!(sent().read_page(&json!({ "tasks": [] })), Some(SentPage::Unknown));
        assert_eq!(sent().read_page(&json!({ "error": { "code": -32601 } })), None);
    }
}
