//! Push notifications: clients register an address, and the server sends every event there.
//!
//! ```text
//! recorder ── item ──► queue of the configuration ──► deliverer: resolve, check, send ── not accepted? pause, retry
//!                        │ full: emptied, and the complete task is sent instead            └ `attempts` used up: dropped
//! ```
//!
//! The chart is for a server without a log. If tasks are in a log ([`TaskLog`](super::TaskLog)), push configurations
//! are too, and a [`courier`] reads the notifications from the log; there is no queue, and another replica continues
//! after the last saved position.
//!
//! Invariants: a delivery never delays or fails its task; one request per configuration is open, so events arrive in
//! order; the checked address is the one that is connected to; dropped events are replaced by the complete task.

mod courier;
mod deliver;
mod request;
mod screen;
mod wish;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{BoxFuture, Caller};

pub use screen::is_public;

use super::agent::AgentServer;
use super::log::TaskLog;
use super::plain::PlainView;
use super::task::{TaskEntry, TaskState};
use super::{Answer, CallContext, ServerError};
use crate::call::{Call, PushConfig};
use crate::version::Version;
use crate::wire::{ErrorKind, StreamItem};
use deliver::{Deliverer, screened};
use screen::target;
use wish::{Wish, standing, taken_back};

/// Sends requests to receivers: resolves names and opens sockets.
pub trait PushSender: Send + Sync + 'static {
    /// Returns the addresses of a host. The error is for logs: callers do not receive it.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>>;

    /// Sends a request to exactly that address, follows no redirect, and returns the status. The server name of
    /// TLS is that of the URL. The implementation bounds the time of a request; an error counts as "no response".
    fn deliver(&self, request: PushRequest) -> BoxFuture<'static, Result<u16, String>>;
}

/// A request to a receiver, by `POST`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushRequest {
    /// The URL that the client registered.
    pub url: String,
    /// The address to connect to, whatever the name resolves to by now.
    pub address: SocketAddr,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

aqueduct_core::with_defaults! {
    /// Which receivers are allowed, and retries.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PushPolicy {
        /// Set to allow addresses that are not public: of this machine, of private networks. For tests, and for networks
        /// where every client is trusted.
        pub any_address: bool = false,
        /// Addresses of a name that are tried per attempt, until one responds. Names of one machine have two, those of
        /// large services more, all alike.
        pub addresses: usize = 4,
        /// Attempts per event. Eight with the pauses below take a minute and a half, which outlasts a restart of the
        /// receiver.
        pub attempts: u32 = 8,
        /// The pause before the second attempt; it doubles each time.
        pub base: Duration = Duration::from_secs(1),
        /// The longest pause.
        pub cap: Duration = Duration::from_secs(30),
        /// Events that wait for a receiver. Beyond it they are dropped, and the complete task is sent instead.
        pub queue: usize = 256,
    }
}

impl PushPolicy {
    /// Returns the pause before an attempt; the first is number 0.
    pub fn pause(&self, attempt: u32) -> Duration {
        let Some(doublings) = attempt.checked_sub(1) else { return Duration::ZERO };
        self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.cap)
    }
}

/// A push configuration, and its queue.
#[derive(Debug)]
pub(super) struct PushEntry {
    /// Shared with the deliverer, which finds its entry by the pointer: an equal configuration that is registered
    /// later is another one.
    config: Arc<PushConfig>,
    /// The version of the client, which determines the form of notifications.
    version: Version,
    queue: VecDeque<StreamItem<'static>>,
    /// The view of the client that registered it; `None` if it activated the extension.
    view: Option<PlainView>,
    /// Set if the complete task is to be sent, before what is in the queue.
    needs_task: bool,
    /// Set if events were dropped after all attempts failed. The next event is replaced by the complete task.
    missed: bool,
    /// Set while a deliverer works on the queue.
    is_busy: bool,
}

/// A configuration that was added, and the one of the same id that it replaced.
pub(super) struct Replaced {
    added: PushConfig,
    previous: Option<PushConfig>,
}

impl TaskState {
    /// Queues an item for receivers. Receivers of 0.3 get the complete task when its status changes.
    pub(super) fn enqueue(&mut self, item: &StreamItem<'static>, limit: usize) {
        for push in &mut self.pushes {
            let is_behind = std::mem::take(&mut push.missed) || push.queue.len() >= limit;
            // A task contains all events before it, so nothing is queued for 0.3.
            if push.version == Version::V03 {
                push.needs_task |= matches!(item, StreamItem::Status(_));
            } else if is_behind {
                push.queue.clear();
                push.needs_task = true;
            } else {
                match &mut push.view {
                    Some(view) => view.handle_item(item.clone(), &mut push.queue),
                    None => push.queue.push_back(item.clone()),
                }
            }
        }
    }
}

impl AgentServer {
    /// Spawns deliverers for non-empty queues without one.
    pub(super) fn deliver(&self, entry: &Arc<TaskEntry>) {
        let Some(sender) = self.shared.host.push_sender() else { return };
        let mut state = entry.lock();
        for push in &mut state.pushes {
            if push.is_busy || (push.queue.is_empty() && !push.needs_task) {
                continue;
            }
            push.is_busy = true;
            let deliverer = Deliverer {
                shared: Arc::clone(&self.shared),
                entry: Arc::clone(entry),
                sender: Arc::clone(&sender),
                config: Arc::clone(&push.config),
                version: push.version,
            };
            self.shared.host.spawn(Box::pin(deliverer.run()));
        }
    }

    /// Checks whether a push configuration can be accepted: before the message that contains it starts a task.
    ///
    /// # Errors
    ///
    /// Returns `PushNotificationNotSupported` without a sender, and `InvalidParams` for secrets or an address
    /// that may not be used.
    pub(super) async fn check_push(&self, config: &PushConfig) -> Result<(), ServerError> {
        let Some(sender) = self.shared.host.push_sender() else { return Err(not_supported()) };
        request::check_secrets(config)?;
        let policy = &self.shared.config.push;
        // If every address may be called, a name need not be resolved before it is called.
        let checked = if policy.any_address {
            target(&config.url).map(|_| ()).map_err(str::to_owned)
        } else {
            screened(&*sender, &config.url, policy).await.map(|_| ())
        };
        checked.map_err(|words| ServerError::invalid_field("url", words))
    }

    /// Stores a push configuration, in the log if there is one. Its id is that of the task, unless the client
    /// chose one. A configuration with the same id is replaced.
    ///
    /// # Errors
    ///
    /// Returns `UnsupportedOperation` at the limit of configurations per task.
    pub(super) async fn add_push(
        &self,
        entry: &TaskEntry,
        mut config: PushConfig,
        context: &CallContext,
    ) -> Result<PushConfig, ServerError> {
        config.task_id.clone_from(&entry.id);
        if config.id.is_empty() {
            config.id.clone_from(&entry.id);
        }
        match self.shared.host.task_log() {
            Some(log) => self.log_push(&*log, entry, config, context).await,
            None => self.hold_push(entry, config, context),
        }
    }

    /// Stores the push configuration of a message whose run may still be refused. Returns what
    /// [`Self::restore_push`] needs then.
    ///
    /// # Errors
    ///
    /// As [`Self::add_push`].
    pub(super) async fn replace_push(
        &self,
        entry: &TaskEntry,
        config: PushConfig,
        context: &CallContext,
    ) -> Result<Replaced, ServerError> {
        let before = self.configs(entry).await?;
        let added = self.add_push(entry, config, context).await?;
        let previous = before.into_iter().find(|config| config.id == added.id);
        Ok(Replaced { added, previous })
    }

    /// Restores the configurations from before [`Self::replace_push`]. If the log refuses it, the client that sent the
    /// message gets notifications that it did not ask for, until it deletes the configuration.
    pub(super) async fn restore_push(&self, entry: &TaskEntry, replaced: Replaced, context: &CallContext) {
        let Replaced { added, previous } = replaced;
        let restored = match previous {
            Some(previous) if previous == added => Ok(()),
            Some(previous) => self.add_push(entry, previous, context).await.map(drop),
            None => self.remove_push(entry, &added.id).await,
        };
        restored.unwrap_or_default();
    }

    /// Stores a configuration in the log. Its position is where the task stands now: events before it are not
    /// delivered.
    async fn log_push(
        &self,
        log: &dyn TaskLog,
        entry: &TaskEntry,
        config: PushConfig,
        context: &CallContext,
    ) -> Result<PushConfig, ServerError> {
        let agent = &self.shared.agent;
        let standing = standing(&log.wishes(&entry.owner, agent, &entry.id).await?);
        let (same, others): (Vec<_>, Vec<_>) =
            standing.into_iter().partition(|(_, wish)| wish.config.id == config.id);
        if others.len() >= self.shared.config.limits.push_configs {
            return Err(too_many());
        }
        let told = {
            let state = entry.lock();
            let turn = state.last_turn();
            (turn, state.turns.get(turn).map_or(0, |turn| turn.folded))
        };
        let is_plain = self.plain_view(context).is_some();
        let wish = Wish { config, version: context.version, is_plain, told };
        // The couriers of configurations with the same id are ended before the new one starts.
        for (key, _) in same {
            log.end_wish(&key).await?;
        }
        log.add_wish(&entry.owner, agent, &entry.id, wish.to_value(), true).await?;
        Ok(wish.config)
    }

    /// Stores a configuration in memory. The view of a plain client starts with the task as it is now, without
    /// notifying about it. A configuration that is registered already stays as it is, with its queue.
    fn hold_push(
        &self,
        entry: &TaskEntry,
        config: PushConfig,
        context: &CallContext,
    ) -> Result<PushConfig, ServerError> {
        let mut state = entry.lock();
        let mut view = self.plain_view(context);
        let is_registered = |push: &PushEntry| {
            let is_same_form = push.version == context.version && push.view.is_some() == view.is_some();
            is_same_form && *push.config == config
        };
        if state.pushes.iter().any(is_registered) {
            return Ok(config);
        }
        state.pushes.retain(|push| push.config.id != config.id);
        if state.pushes.len() >= self.shared.config.limits.push_configs {
            return Err(too_many());
        }
        if let Some(view) = &mut view {
            view.task(state.folded.snapshot(Some(0), true));
        }
        state.pushes.push(PushEntry {
            config: Arc::new(config.clone()),
            version: context.version,
            queue: VecDeque::new(),
            view,
            needs_task: false,
            missed: false,
            is_busy: false,
        });
        Ok(config)
    }

    /// Returns the configurations of a task.
    async fn configs(&self, entry: &TaskEntry) -> Result<Vec<PushConfig>, ServerError> {
        let Some(log) = self.shared.host.task_log() else {
            return Ok(entry.lock().pushes.iter().map(|push| PushConfig::clone(&push.config)).collect());
        };
        let records = log.wishes(&entry.owner, &self.shared.agent, &entry.id).await?;
        Ok(standing(&records).into_iter().map(|(_, wish)| wish.config).collect())
    }

    /// Deletes a configuration, if it exists. In the log, a record of the deletion is added before the courier is
    /// ended, so that a replica which reads in between does not find it.
    async fn remove_push(&self, entry: &TaskEntry, id: &str) -> Result<(), ServerError> {
        let Some(log) = self.shared.host.task_log() else {
            entry.lock().pushes.retain(|push| push.config.id != id);
            return Ok(());
        };
        let agent = &self.shared.agent;
        let standing = standing(&log.wishes(&entry.owner, agent, &entry.id).await?);
        let Some((key, _)) = standing.into_iter().find(|(_, wish)| wish.config.id == id) else {
            return Ok(());
        };
        log.add_wish(&entry.owner, agent, &entry.id, taken_back(id), false).await?;
        Ok(log.end_wish(&key).await?)
    }

    /// Handles the calls about push configurations.
    ///
    /// # Errors
    ///
    /// Returns `PushNotificationNotSupported` without a sender, `TaskNotFound` for an unknown task or
    /// configuration, and what [`Self::check_push`] and [`Self::add_push`] refuse.
    pub(super) async fn answer_push(
        &self,
        caller: &Caller,
        owner: &str,
        context: &CallContext,
        call: Call,
    ) -> Result<Answer, ServerError> {
        if self.shared.host.push_sender().is_none() {
            return Err(not_supported());
        }
        let find = async |id: &str| self.find(caller, owner, id).await;
        match call {
            Call::CreatePushConfig(config) => {
                let entry = find(&config.task_id).await?;
                self.check_push(&config).await?;
                let kept = self.add_push(&entry, *config, context).await?;
                Ok(Answer::PushConfig(Box::new(kept)))
            }
            Call::GetPushConfig { task_id, id } => {
                let entry = find(&task_id).await?;
                let configs = self.configs(&entry).await?;
                let found = configs.into_iter().find(|config| id.is_empty() || config.id == id);
                Ok(Answer::PushConfig(Box::new(found.ok_or_else(|| no_such(&id))?)))
            }
            Call::ListPushConfigs { task_id } => {
                let entry = find(&task_id).await?;
                Ok(Answer::PushConfigs(self.configs(&entry).await?))
            }
            Call::DeletePushConfig { task_id, id } => {
                // Deleting an unknown configuration is not an error.
                let entry = find(&task_id).await?;
                self.remove_push(&entry, &id).await?;
                Ok(Answer::Nothing)
            }
            _ => Err(ServerError::new(ErrorKind::MethodNotFound, "this is no call about callbacks")),
        }
    }
}

/// Returns the refusal of one configuration too many: each causes a request per event.
fn too_many() -> ServerError {
    let words = "this task calls back to as many places as a task may: delete one first";
    ServerError::new(ErrorKind::UnsupportedOperation, words)
}

/// Returns the refusal for an unknown configuration, with the id, shortened.
fn no_such(id: &str) -> ServerError {
    let shown: String = id.chars().take(80).collect();
    ServerError::new(ErrorKind::TaskNotFound, format!("this task has no push configuration {shown:?}"))
}

fn not_supported() -> ServerError {
    let words = "this agent calls nobody back: subscribe to the task instead";
    ServerError::new(ErrorKind::PushNotificationNotSupported, words)
}
