//! Ctrl-C while a stream is recorded: the agent is told to stop, as far as its protocol knows how.

use std::sync::Arc;

use aqueduct::a2a::RemoteAgent;
use aqueduct_adapter_a2a::wire::{Dialect, FrameContent};
use aqueduct_core::RunId;
use aqueduct_core::agent::NoContext;
use aqueduct_core::service::{Caller, RunService as _};

use crate::service::Gateway;

/// How the agent is told.
pub(super) enum Stop {
    /// AG-UI has no way to tell it but to hang up; nor is there one for an answer that has come already.
    HangUp,
    /// A task is cancelled, once the stream has named it.
    Task { source: Box<RemoteAgent>, dialect: Dialect, task: Option<String> },
    /// A run of our own is cancelled, and its agent with it.
    Run { service: Arc<Gateway>, run: RunId },
}

impl Stop {
    /// Learns from a frame what there is to stop. What cannot be read is recorded all the same.
    pub(super) fn note(&mut self, data: &str) {
        let Self::Task { dialect, task: task @ None, .. } = self else { return };
        if let Ok(FrameContent::Item(item)) = FrameContent::parse(data, *dialect)
            && !item.task_id().is_empty()
        {
            *task = Some(item.task_id().to_owned());
        }
    }

    /// Tells the agent; true if it can be expected to end its stream by itself.
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
