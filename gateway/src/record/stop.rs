//! Ctrl-C while a stream is recorded: cancels the request at the agent, as far as its protocol supports that.

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
    /// By cancelling the A2A task, once the stream has named it.
    Task { source: Box<RemoteAgent>, dialect: Dialect, task: Option<String> },
    /// By cancelling a run of the gateway, which cancels its agent.
    Run { service: Arc<Gateway>, run: RunId },
}

impl Stop {
    /// Reads the id of the task from a frame. Frames that cannot be decoded are recorded all the same.
    pub(super) fn note(&mut self, data: &str) {
        let Self::Task { dialect, task: task @ None, .. } = self else { return };
        if let Ok(FrameContent::Item(item)) = FrameContent::parse(data, *dialect)
            && !item.task_id().is_empty()
        {
            *task = Some(item.task_id().to_owned());
        }
    }

    /// Cancels the request. Returns `true` if the agent is expected to end its stream.
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
