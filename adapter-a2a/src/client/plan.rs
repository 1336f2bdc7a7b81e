//! The requests that the client plans: at most one for each [`Purpose`], each with the pause before it.

use std::time::Duration;

use super::{Cancel, TaskClient};
use crate::call::Call;
use crate::version::Version;

/// The purpose of a request, which is passed in again with the response: the driver needs no other knowledge of what
/// it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Sends the message that starts the turn.
    Send,
    /// Subscribes to a task whose stream was lost.
    Subscribe,
    /// Reads the task.
    Get,
    /// Cancels the task.
    Cancel,
}

/// A request to be sent by the driver, after a pause.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The request, independent of binding and version.
    pub call: Call,
    /// The pause before the request is sent; zero for the first of a series. The driver may add jitter.
    pub after: Duration,
    /// The version of the request, if it is not that of the endpoint.
    pub version: Option<Version>,
}

impl TaskClient {
    /// Plans the cancellation of the task, once it is requested and the task is known. Called after every item,
    /// because a cancel may be requested before the first item names the task.
    pub(super) fn plan_cancel(&mut self) {
        if self.cancel == Cancel::Requested
            && self.is_settled().is_none()
            && let Some(task) = self.task_ref()
        {
            self.cancel = Cancel::Sent;
            let pause = self.settings.retry.pause(self.cancel_attempts);
            self.plan(Purpose::Cancel, Call::CancelTask { id: task.task_id, metadata: None }, pause);
        }
    }

    /// Plans a request. It replaces a planned request of the same purpose that was not polled yet.
    pub(super) fn plan(&mut self, purpose: Purpose, call: Call, after: Duration) {
        self.planned.retain(|planned| planned.purpose != purpose);
        self.planned.push_back(Planned { purpose, call, after, version: self.version });
    }
}
