//! The response to a call, before a binding encodes it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use super::ServerError;
use super::chunk::TaskItem;
use crate::call::PushConfig;
use crate::wire::{Message, StreamItem, Task};

/// The items of a task's stream, in order. The first is the complete task, or the only message; an error is the last.
/// Dropping the stream removes the watcher and stops nothing else.
pub struct TaskStream(Box<dyn TaskItems>);

impl TaskStream {
    /// Returns the stream of a task whose items come from `items`.
    pub(super) fn new(items: impl TaskItems + 'static) -> Self {
        Self(Box::new(items))
    }

    /// Returns the next item as its source has it. The end of the stream is `None`.
    pub(super) fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TaskItem, ServerError>>> {
        self.0.poll_item(cx)
    }
}

impl fmt::Debug for TaskStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskStream")
    }
}

impl Stream for TaskStream {
    type Item = Result<StreamItem<'static>, ServerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_item(cx).map(|item| item.map(|item| item.map(TaskItem::into_item)))
    }
}

/// A source of a task's items.
pub(super) trait TaskItems: Send {
    /// Returns the next item. The end of the stream is `None`.
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TaskItem, ServerError>>>;
}

/// The response to a [`Call`](crate::call::Call).
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// A task (send, get, cancel).
    Task(Box<Task<'static>>),
    /// A message without a task (send).
    Message(Box<Message<'static>>),
    /// A stream (send streaming, subscribe).
    Stream(TaskStream),
    /// A page of tasks (list).
    Tasks(Box<TaskPage>),
    /// A stored push configuration (create, get).
    PushConfig(Box<PushConfig>),
    /// All push configurations of a task (list).
    PushConfigs(Vec<PushConfig>),
    /// The extended card, as JSON that both versions can read.
    Card(Box<Value>),
    /// No content (delete).
    Nothing,
}

/// One page of a caller's tasks.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, by the time of their status, newest first.
    pub tasks: Vec<Task<'static>>,
    /// The token of the next page; empty on the last. Always encoded, also when it is empty.
    pub next_page_token: String,
    /// The largest number of tasks per page.
    pub page_size: u32,
    /// The number of tasks that match the filters, on all pages.
    pub total_size: u32,
}
