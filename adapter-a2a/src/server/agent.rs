//! [`AgentServer`]: one agent's tasks, over any [`RunService`], for every binding.
//!
//! ```text
//! call ─► identify the caller ─► drop expired tasks ─► required extensions? ─► by method:
//!         send ─► send.rs      get, subscribe ─► find, catch_up      list ─► list.rs      cancel ─► here      push ─► push/
//!      ◄─ PlainView, if the client did not activate the extension ◄─ Answer
//! ```
//!
//! Here: the dispatch, `GetTask`, `CancelTask` and the extended card. The methods of the server are spread over
//! the modules of their subjects.

use std::sync::Arc;

use aqueduct_core::service::{BoxFuture, Caller, RunService};

use super::card::CardConfig;
use super::config::ServerConfig;
use super::host::Host;
use super::plain::PlainView;
use super::store::TaskStore;
use super::task::{TaskEntry, TaskState, Turn};
use super::watch::{Watcher, within};
use super::{Answer, CallContext, CallHandler, ServerError};
use crate::call::Call;
use crate::mark::EXTENSION;
use crate::version::Version;
use crate::wire::time::format;
use crate::wire::{ErrorKind, StateClass, StreamItem, TaskState as State};

/// The state that all calls of one agent share.
pub(super) struct Shared {
    /// The name of the agent, as the service and the log know it.
    pub(super) agent: String,
    /// Starts, watches and cancels runs.
    pub(super) service: Arc<dyn RunService>,
    pub(super) host: Arc<dyn Host>,
    pub(super) config: ServerConfig,
    /// The tasks that are held in memory.
    pub(super) store: TaskStore,
}

/// Serves one agent. Cheap to clone; clones share their tasks.
#[derive(Clone)]
pub struct AgentServer {
    pub(super) shared: Arc<Shared>,
}

aqueduct_core::debug_fields!(AgentServer { agent: shared.agent });

impl AgentServer {
    /// Returns a server for the agent of that name.
    pub fn new(
        agent: impl Into<String>,
        service: Arc<dyn RunService>,
        host: Arc<dyn Host>,
        config: ServerConfig,
    ) -> Self {
        let store = TaskStore::new(config.limits.clone());
        Self { shared: Arc::new(Shared { agent: agent.into(), service, host, config, store }) }
    }

    /// Returns the settings of the server.
    pub fn config(&self) -> &ServerConfig {
        &self.shared.config
    }

    /// Returns the owner of the caller's tasks, or a refusal for unauthenticated callers.
    pub(crate) fn identify(&self, caller: &Caller) -> Result<String, ServerError> {
        Ok(self.shared.host.identify(caller)?)
    }

    /// Handles a call of a client that may read `card`, which is the response to `GetExtendedAgentCard` if it is
    /// an extended one.
    ///
    /// # Errors
    ///
    /// As [`CallHandler::handle_call`].
    pub(crate) async fn handle_with_card(
        &self,
        caller: Caller,
        context: CallContext,
        call: Call,
        card: &CardConfig,
    ) -> Result<Answer, ServerError> {
        if matches!(call, Call::GetExtendedCard) && card.extended {
            self.identify(&caller)?;
            return Ok(Answer::Card(Box::new(card.to_json())));
        }
        self.answer(caller, context, call).await
    }

    /// Handles a call, in the view that the client has activated.
    async fn answer(&self, caller: Caller, context: CallContext, call: Call) -> Result<Answer, ServerError> {
        let mut view = self.plain_view(&context);
        if matches!(call, Call::SendStreamingMessage(_)) {
            view = view.map(PlainView::beginning_turn);
        }
        let answer = self.answer_whole(caller, context, call).await?;
        Ok(match view {
            Some(view) => view.show(answer),
            None => answer,
        })
    }

    /// Returns the view of a client that did not activate the extension, or `None` for a client that reads the
    /// marks.
    pub(super) fn plain_view(&self, context: &CallContext) -> Option<PlainView> {
        let is_plain = !context.extensions.iter().any(|uri| uri == EXTENSION);
        is_plain.then(|| PlainView::new(self.shared.config.limits.artifact_bytes))
    }

    /// Handles a call. The response contains the marks of the extension.
    ///
    /// # Errors
    ///
    /// Returns `Unauthorized` for unauthenticated callers before anything else, `ExtensionSupportRequired` if the
    /// client lacks an extension, and what each method refuses.
    async fn answer_whole(
        &self,
        caller: Caller,
        context: CallContext,
        call: Call,
    ) -> Result<Answer, ServerError> {
        let shared = &self.shared;
        // Identity is checked before the call: unauthenticated callers learn nothing.
        let owner = shared.host.identify(&caller)?;
        shared.store.expire(shared.host.now());
        self.check_extensions(&context)?;
        match call {
            Call::SendMessage(send) => self.send(caller, owner, &context, *send).await,
            Call::SendStreamingMessage(send) => self.send_streaming(caller, owner, &context, *send).await,
            Call::GetTask { id, history_length } => {
                let entry = self.find(&caller, &owner, &id).await?;
                self.catch_up(&entry).await?;
                let task = entry.lock().folded.snapshot(history_length, true);
                Ok(Answer::Task(Box::new(task)))
            }
            Call::ListTasks(list) => self.list(&caller, &owner, &list).await,
            Call::CancelTask { id, .. } => self.cancel(caller, &owner, &id).await,
            Call::SubscribeToTask { id } => {
                let entry = self.find(&caller, &owner, &id).await?;
                self.catch_up(&entry).await?;
                Watcher::of_task(shared, &entry, caller).map(Answer::Stream)
            }
            call @ (Call::CreatePushConfig(_)
            | Call::GetPushConfig { .. }
            | Call::ListPushConfigs { .. }
            | Call::DeletePushConfig { .. }) => self.answer_push(&caller, &owner, &context, call).await,
            Call::GetExtendedCard => {
                let words = "this agent has no other card than the one that everybody sees";
                // 1.0 reserves the name of this error for agents that declare an extended card (spec 3.3.4).
                let kind = match context.version {
                    Version::V1 => ErrorKind::UnsupportedOperation,
                    Version::V03 => ErrorKind::ExtendedCardNotConfigured,
                };
                Err(ServerError::new(kind, words))
            }
        }
    }

    /// Waits until the task holds what any client was sent of it, at this replica or another one. A client that was
    /// cut and found less than it saw would take for new what follows.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unavailable`] if the log cannot be read, or not in time: the answer would be an earlier
    /// state.
    async fn catch_up(&self, entry: &TaskEntry) -> Result<(), ServerError> {
        let log = self.shared.host.task_log().filter(|log| log.is_shared());
        let run = entry.lock().turns.last().and_then(|turn| turn.run.clone());
        let head = match (log, run) {
            // Another replica may have sent what this one cannot read now.
            (Some(log), Some(run)) => log.run(&entry.owner, &self.shared.agent, &run).await?,
            _ => None,
        };
        let caught_up = entry.caught_up(head.map_or(0, |run| run.head));
        let window = self.shared.host.sleep(self.shared.config.cancel_wait);
        within(caught_up, window).await.ok_or_else(|| {
            let words = "the run log cannot be read as far as the task has come: try again";
            ServerError::new(ErrorKind::Unavailable, words)
        })
    }

    /// Checks that the client activated all extensions that the agent requires.
    fn check_extensions(&self, context: &CallContext) -> Result<(), ServerError> {
        let required = &self.shared.config.required_extensions;
        let missing: Vec<&str> =
            required.iter().filter(|uri| !context.extensions.contains(uri)).map(String::as_str).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let words =
            format!("ask for the extensions this agent needs (`A2A-Extensions`): {}", missing.join(", "));
        Err(ServerError::new(ErrorKind::ExtensionSupportRequired, words))
    }

    /// Cancels a task: its run if it works, its interrupts if it waits. If a message is being accepted, its run is
    /// cancelled once it has started.
    ///
    /// The response waits up to `cancel_wait` for the end; a task that has not ended by then is returned as it
    /// is, and ends later. A task that ended in another way meanwhile is reported as not cancelable.
    ///
    /// # Errors
    ///
    /// Returns `TaskNotFound`, `TaskNotCancelable` for a task that has ended, `Unavailable` if a message is not accepted
    /// in time, and what the service refuses.
    async fn cancel(&self, caller: Caller, owner: &str, id: &str) -> Result<Answer, ServerError> {
        let shared = &self.shared;
        let entry = self.find(&caller, owner, id).await?;
        self.accepted(&entry).await?;
        let (is_waiting, mut turn, run) = {
            let state = entry.lock();
            let turn = state.last_turn();
            match state.class() {
                StateClass::Terminal => return Err(not_cancelable(&state)),
                // The task waits for a message: it has no run to cancel.
                StateClass::Interrupted => (true, turn, None),
                StateClass::Active => (false, turn, state.turns.get(turn).and_then(|turn| turn.run.clone())),
            }
        };
        if is_waiting {
            turn = self.dismiss(&caller, &entry).await?;
        } else if let Some(run) = run {
            shared.service.cancel(&caller, &run).await?;
        }
        let ended = entry.wait(|state| state.is_over(turn).then_some(()));
        within(ended, shared.host.sleep(shared.config.cancel_wait)).await;
        let state = entry.lock();
        match &state.folded.task.status.state {
            State::Completed | State::Failed | State::Rejected => Err(not_cancelable(&state)),
            _ => Ok(Answer::Task(Box::new(state.folded.snapshot(None, true)))),
        }
    }

    /// Waits until no message to the task is being accepted.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unavailable`] after `cancel_wait`: the run that the message starts is not known yet.
    async fn accepted(&self, entry: &TaskEntry) -> Result<(), ServerError> {
        let accepted = entry.wait(|state| (!state.is_claimed || state.is_removed).then_some(()));
        let window = self.shared.host.sleep(self.shared.config.cancel_wait);
        within(accepted, window).await.ok_or_else(|| {
            let words = format!("task {} is being answered by a message: try again", entry.id);
            ServerError::new(ErrorKind::Unavailable, words)
        })
    }

    /// Ends an interrupted task that is in no log: adds a turn without a run, whose only event is the end.
    /// Returns the index of that turn. The caller has claimed the task.
    pub(super) fn stop_waiting(&self, entry: &Arc<TaskEntry>) -> usize {
        let shared = &self.shared;
        let now = shared.host.now();
        let mut state = entry.lock();
        let end = super::fold::stamped(state.converter.status(State::Canceled), &format(now));
        state.folded.set_status(end.status.clone(), &shared.config.limits);
        state.enqueue(&StreamItem::Status(end.clone()), shared.config.push.queue);
        state.turns.push(Turn::new(None, Some(Box::new(end))));
        state.interrupts.clear();
        state.updated_at = now;
        let turn = state.last_turn();
        drop(state);
        // The task is at rest for another reason now: ended tasks are dropped before interrupted ones.
        shared.store.handle_rest(entry);
        self.deliver(entry);
        entry.changed();
        turn
    }
}

impl CallHandler for AgentServer {
    fn handle_call(
        &self,
        caller: Caller,
        context: CallContext,
        call: Call,
    ) -> BoxFuture<'_, Result<Answer, ServerError>> {
        Box::pin(self.answer(caller, context, call))
    }
}

/// Returns the refusal of a message or subscription to a task that has ended.
pub(super) fn has_ended(state: &TaskState) -> ServerError {
    let task = &state.folded.task;
    let words = format!("task {} has ended ({}): ask for it with GetTask", &*task.id, task.status.state);
    ServerError::new(ErrorKind::UnsupportedOperation, words)
}

/// Returns the refusal to cancel a task that has ended (-32002).
fn not_cancelable(state: &TaskState) -> ServerError {
    let task = &state.folded.task;
    let words = format!("task {} cannot be cancelled: it has ended ({})", &*task.id, task.status.state);
    ServerError::new(ErrorKind::TaskNotCancelable, words)
}
