//! Tasks that this server does not hold: started at another replica or before a restart, or removed since.
//!
//! ```text
//! find ──┬ held ──► did another replica begin a turn? ── yes ──┐
//!        └ not held ──► the log has its first run ── insert ──┴─► reader: its runs in order ──► a task like any other
//! ```
//!
//! The reader folds the events in the log, then follows the open run, like the recorder of a run that was started here.
//! Callers wait until it has read everything that was in the log when they asked.
//!
//! Runs that a framework publishes have no record of a task. They become tasks when a client first requests them by
//! their ids, at servers with [`ServerConfig::adopts_runs`](super::ServerConfig::adopts_runs); elsewhere every task
//! starts with a message.

use std::sync::Arc;

use aqueduct_core::Timestamp;
use aqueduct_core::service::Caller;

use super::ServerError;
use super::agent::AgentServer;
use super::items::Items;
use super::log::{LoggedRun, TaskLog, turn_id};
use super::record::{Past, Recorder};
use super::task::{Reading, TaskEntry, Turn};
use crate::wire::time::format;
use crate::wire::{Message, Task, TaskState, TaskStatus, Text};

impl AgentServer {
    /// Returns the task of this owner: one that is held, or one that is built from runs in the log. Waits until
    /// everything is read that is in the log now.
    ///
    /// # Errors
    ///
    /// Returns `TaskNotFound` for unknown tasks, tasks of other owners and responses that are messages, all
    /// alike, and the error of the log.
    pub(super) async fn find(
        &self,
        caller: &Caller,
        owner: &str,
        id: &str,
    ) -> Result<Arc<TaskEntry>, ServerError> {
        let held = self.shared.store.find(owner, id);
        let Some(log) = self.shared.host.task_log() else { return held };
        let entry = match held {
            Ok(entry) => {
                self.find_turn(&log, caller, &entry).await?;
                entry
            }
            Err(unknown) => self.adopt(&log, caller, owner, id).await?.ok_or(unknown)?,
        };
        entry.wait(|state| state.reading.outcome()).await?;
        let is_visible = entry.lock().is_visible();
        if is_visible { Ok(entry) } else { Err(ServerError::task_not_found(id)) }
    }

    /// Builds a task from the runs in the log. Returns `None` if the owner has no run of that id.
    async fn adopt(
        &self,
        log: &Arc<dyn TaskLog>,
        caller: &Caller,
        owner: &str,
        id: &str,
    ) -> Result<Option<Arc<TaskEntry>>, ServerError> {
        let shared = &self.shared;
        let Some(first) = log.run(owner, &shared.agent, &turn_id(id, 0)).await? else { return Ok(None) };
        let is_task = first.task().map_or(shared.config.adopts_runs, |task| task == id);
        if !is_task {
            return Ok(None);
        }
        let entry = Arc::new(self.entry(owner, &first));
        // Another call may have inserted the task since: then that call reads it.
        let kept = shared.store.insert(&entry)?;
        if Arc::ptr_eq(&kept, &entry) {
            self.read(log, caller, &entry, 0, first);
        }
        Ok(Some(kept))
    }

    /// Continues a turn that another replica has started. Only an interrupted task can have one.
    pub(super) async fn find_turn(
        &self,
        log: &Arc<dyn TaskLog>,
        caller: &Caller,
        entry: &Arc<TaskEntry>,
    ) -> Result<(), ServerError> {
        let Some(turn) = entry.lock().next_turn() else { return Ok(()) };
        let run = log.run(&entry.owner, &self.shared.agent, &turn_id(&entry.id, turn)).await?;
        let Some(run) = run.filter(|run| run.task() == Some(entry.id.as_str())) else { return Ok(()) };
        // The log was read without the lock: only one call continues the turn.
        let is_first = {
            let mut state = entry.lock();
            let is_first = state.next_turn() == Some(turn);
            if is_first {
                state.reading = Reading::UnderWay;
            }
            is_first
        };
        if is_first {
            self.begin_turn(entry, &run.id, run.message(), run.opened_at);
            self.read(log, caller, entry, turn, run);
        }
        Ok(())
    }

    /// Spawns the reader of a task, from that turn on.
    fn read(
        &self,
        log: &Arc<dyn TaskLog>,
        caller: &Caller,
        entry: &Arc<TaskEntry>,
        turn: usize,
        run: LoggedRun,
    ) {
        let (server, log) = (self.clone(), Arc::clone(log));
        let reader = Reader { server, log, caller: caller.clone(), entry: Arc::clone(entry) };
        self.shared.host.spawn(Box::pin(reader.read(turn, run)));
    }

    /// Adds a turn that starts with a message. Returns its index, and the task at that time.
    pub(super) fn begin_turn(
        &self,
        entry: &TaskEntry,
        run: &aqueduct_core::RunId,
        message: Option<Message<'static>>,
        at: Timestamp,
    ) -> (usize, Task<'static>) {
        let shared = &self.shared;
        let mut state = entry.lock();
        state.turns.push(Turn::new(Some(run.clone()), None));
        state.converter = Items::new(&shared.config, &entry.id, &entry.context_id);
        state.interrupts.clear();
        state.folded.set_status(status(TaskState::Working, at), &shared.config.limits);
        if let Some(message) = message {
            state.folded.say(message, &shared.config.limits);
        }
        state.updated_at = at;
        let begun = (state.last_turn(), state.folded.snapshot(None, true));
        drop(state);
        shared.store.handle_rest(entry);
        entry.changed();
        begun
    }

    /// Returns a task whose first run is in the log and has not been read.
    pub(super) fn entry(&self, owner: &str, first: &LoggedRun) -> TaskEntry {
        // A run that a framework started was never submitted.
        let state = if first.record.is_some() { TaskState::Submitted } else { TaskState::Working };
        let task = Task {
            id: Text::from(first.id.as_str().to_owned()),
            context_id: Text::from(first.context_id.clone()),
            status: status(state, first.opened_at),
            history: first.message().into_iter().collect(),
            ..Task::default()
        };
        let converter = Items::new(&self.shared.config, &task.id, &task.context_id);
        let entry = TaskEntry::new(owner.to_owned(), task, first.id.clone(), converter, first.opened_at);
        let mut state = entry.lock();
        // A client that requests it by its id has received a task before.
        state.close_window();
        state.reading = Reading::UnderWay;
        drop(state);
        entry
    }
}

/// Returns a status without a message.
pub(super) fn status(state: TaskState<'static>, at: Timestamp) -> TaskStatus<'static> {
    TaskStatus { state, timestamp: Text::from(format(at)), ..TaskStatus::default() }
}

/// Folds the runs of a task from the log.
struct Reader {
    server: AgentServer,
    log: Arc<dyn TaskLog>,
    caller: Caller,
    entry: Arc<TaskEntry>,
}

impl Reader {
    /// Reads from that turn on.
    async fn read(self, mut turn: usize, mut run: LoggedRun) {
        loop {
            let shared = &self.server.shared;
            let is_open = run.closed_at.is_none();
            let events = match shared.service.watch(&self.caller, &run.id, 0).await {
                Ok(events) => events,
                Err(error) => return self.finish(Err(error.into())),
            };
            // No event has to be read before callers can be answered.
            if is_open && run.head == 0 {
                self.finish(Ok(()));
            }
            let recorder = Recorder {
                server: self.server.clone(),
                entry: Arc::clone(&self.entry),
                caller: self.caller.clone(),
                turn,
                run: run.id.clone(),
                past: Past { head: run.head, opened_at: run.opened_at, is_last: is_open },
            };
            recorder.record(events).await;
            if is_open {
                return self.finish(Ok(()));
            }
            let next = turn_id(&self.entry.id, turn + 1);
            match self.log.run(&self.entry.owner, &shared.agent, &next).await {
                Ok(Some(next)) if next.task() == Some(self.entry.id.as_str()) => {
                    self.server.begin_turn(&self.entry, &next.id, next.message(), next.opened_at);
                    turn += 1;
                    run = next;
                }
                Ok(_) => return self.finish(Ok(())),
                Err(error) => return self.finish(Err(error.into())),
            }
        }
    }

    /// Ends the reading. A task that cannot be read is not held.
    fn finish(&self, outcome: Result<(), ServerError>) {
        let is_failed = outcome.is_err();
        self.entry.lock().reading = match outcome {
            Ok(()) => Reading::Done,
            Err(error) => Reading::Failed(error),
        };
        if is_failed {
            self.server.shared.store.remove(&self.entry.id);
        }
        self.entry.changed();
    }
}
