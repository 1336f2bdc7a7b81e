//! Tasks of runs that were not begun here: a framework publishes them, and A2A clients watch, answer and cancel them.
//!
//! Such a run becomes a task when somebody first asks for it by its id. It is read from its beginning, so nothing of it is
//! missed; from then on it is a task like any other. Only servers whose [`ServerConfig::adopts_runs`] says so do that:
//! elsewhere every task began with a message.
//!
//! [`ServerConfig::adopts_runs`]: super::ServerConfig::adopts_runs

use std::future::poll_fn;
use std::sync::Arc;

use aqueduct_core::service::{Caller, EventStream};
use aqueduct_core::{BlockEvent, RunId, RunInfo};

use super::ServerError;
use super::agent::AgentServer;
use super::items::Items;
use super::record::Recorder;
use super::task::TaskEntry;
use super::watch::within;
use crate::wire::time::format;
use crate::wire::{Task, TaskState, TaskStatus, Text};

impl AgentServer {
    /// The task, if it is this owner's: one that is kept, or that of a run.
    pub(super) async fn find(
        &self,
        caller: &Caller,
        owner: &str,
        id: &str,
    ) -> Result<Arc<TaskEntry>, ServerError> {
        match self.shared.store.find(owner, id) {
            Err(unknown) if self.shared.config.adopts_runs => {
                self.adopt(caller, owner, id).await.unwrap_or(Err(unknown))
            }
            found => found,
        }
    }

    /// Makes a task of a run; none if this agent has no such run, or none that this caller may see.
    async fn adopt(
        &self,
        caller: &Caller,
        owner: &str,
        id: &str,
    ) -> Option<Result<Arc<TaskEntry>, ServerError>> {
        let shared = &self.shared;
        let run = RunId::from(id);
        let started = first(shared.service.watch(caller, &run, 0).await.ok()?).await?;
        if started.agent.as_deref() != Some(shared.agent.as_str()) {
            return None;
        }
        let entry = Arc::new(self.entry(owner, &started));
        let kept = match shared.store.insert(&entry) {
            Ok(kept) => kept,
            Err(refused) => return Some(Err(refused)),
        };
        if Arc::ptr_eq(&kept, &entry) {
            let events = shared.service.watch(caller, &run, 0).await.ok()?;
            let recorder = Recorder { server: self.clone(), entry, turn: 0, run };
            shared.host.spawn(Box::pin(recorder.record(events)));
        }
        // What has been said by now is there in a moment; a run that goes on never is.
        let ended = kept.wait(|state| {
            let is_over = state.turns.first().is_none_or(|turn| turn.end.is_some());
            (is_over || state.is_removed).then_some(())
        });
        within(ended, shared.host.sleep(shared.config.reply_window)).await;
        Some(Ok(kept))
    }

    fn entry(&self, owner: &str, started: &RunInfo) -> TaskEntry {
        let shared = &self.shared;
        let now = shared.host.now();
        let status = TaskStatus {
            state: TaskState::Working,
            timestamp: Text::from(format(now)),
            ..TaskStatus::default()
        };
        let task = Task {
            id: Text::from(started.run_id.as_str().to_owned()),
            context_id: Text::from(started.thread_id.as_str().to_owned()),
            status,
            ..Task::default()
        };
        let maker = Items::new(&shared.config, &task.id, &task.context_id);
        let entry = TaskEntry::new(owner.to_owned(), task, started.run_id.clone(), maker, now);
        // Nobody waits for a message in reply.
        entry.lock().close_window();
        entry
    }
}

/// Which run it is.
async fn first(mut events: EventStream) -> Option<Arc<RunInfo>> {
    match poll_fn(|cx| events.as_mut().poll_next(cx)).await?.event {
        BlockEvent::RunStarted(run) => Some(run),
        _ => None,
    }
}
