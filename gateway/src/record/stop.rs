//! Ctrl-C while a stream is recorded: cancels the request at the agent, as far as its protocol supports that.
//!
//! ```text
//!          ┌─ HangUp, or no task id yet ──► false: the recorder closes the connection
//! tell() ──┼─ Task: a cancel request ─────► true, unless the endpoint cannot be resolved
//!          └─ Run: cancel of the run ─────► whether the run service accepted it
//! ```

use std::sync::Arc;

use aqueduct::a2a::RemoteAgent;
use aqueduct_adapter_a2a::wire::{Dialect, FrameContent};
use aqueduct_core::RunId;
use aqueduct_core::agent::NoContext;
use aqueduct_core::service::{Caller, RunService as _};

use crate::service::Gateway;

/// How the request is cancelled.
pub(super) enum Stop {
    /// By closing the connection: AG-UI has no other way, and a response that is complete needs none.
    HangUp,
    /// By cancelling the A2A task, once the stream has named it. Before that, the task cannot be addressed, and
    /// Ctrl-C closes the connection.
    Task { source: Box<RemoteAgent>, dialect: Dialect, task: Option<String> },
    /// By cancelling a run of the gateway, which cancels its agent.
    Run { service: Arc<Gateway>, run: RunId },
}

impl Stop {
    /// Reads the id of the task from a frame, until one was found. Frames that cannot be decoded are recorded
    /// all the same.
    pub(super) fn note(&mut self, data: &str) {
        let Self::Task { dialect, task: task @ None, .. } = self else { return };
        if let Ok(FrameContent::Item(item)) = FrameContent::parse(data, *dialect)
            && !item.task_id().is_empty()
        {
            *task = Some(item.task_id().to_owned());
        }
    }

    /// Cancels the request. Returns `true` if the agent is expected to end its stream.
    ///
    /// With `false` the recorder stops at once: waiting for a stream that goes on would look like a recorder
    /// that ignores Ctrl-C.
    pub(super) async fn tell(&self) -> bool {
        match self {
            Self::HangUp | Self::Task { task: None, .. } => false,
            Self::Task { source, task: Some(task), .. } => source.cancel_raw(task.clone(), &NoContext).await,
            Self::Run { service, run } => {
                service.runs().cancel(&Caller::default(), run).await.unwrap_or(false)
            }
        }
    }
}
