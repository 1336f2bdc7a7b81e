//! [`Courier`]: delivers push notifications about a task to one receiver, from the log.
//!
//! ```text
//! run T, T.1, … ── every event ──► items ── after the saved position? ──► deliver, with pauses ──► save the position
//! ```
//!
//! One courier works on a push configuration at a time. It reads the task from its first event, so that the
//! receiver gets the items of a watcher that started at the beginning, and delivers those after the position that
//! was saved last. A courier whose replica dies is replaced at another one: notifications after the last saved
//! position are delivered again, under the same id.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use serde_json::Value;

use super::PushSender;
use super::deliver::{Delivery, deliver, whole};
use super::wish::Wish;
use crate::server::agent::{AgentServer, Shared};
use crate::server::fold::{Folded, stamped};
use crate::server::items::Items;
use crate::server::log::{LoggedRun, TaskLog, WishRecord, turn_id};
use crate::server::plain::PlainView;
use crate::version::Version;
use crate::wire::time::format;
use crate::wire::{Dialect, StateClass, StreamItem};

/// The pause before the log is read again, after it could not be read or had no run.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the first run of a task is looked up: a push configuration is stored before its run is opened.
const OPENING_LOOKS: u32 = 20;

impl AgentServer {
    /// Works on a push configuration: notifies its receiver until the task has ended or is gone.
    pub fn carry(&self, record: Box<dyn WishRecord>) -> BoxFuture<'static, ()> {
        let host = &self.shared.host;
        let wish = Wish::from_value(record.value());
        let parts = wish.zip(host.task_log()).zip(host.push_sender());
        let Some(((wish, log), sender)) = parts else { return Box::pin(std::future::ready(())) };
        let courier = Courier { server: self.clone(), log, sender, record, wish, missed: false };
        Box::pin(courier.run())
    }
}

/// The work on one push configuration.
struct Courier {
    server: AgentServer,
    log: Arc<dyn TaskLog>,
    sender: Arc<dyn PushSender>,
    /// The record in the log, in which the position is saved.
    record: Box<dyn WishRecord>,
    /// The content of the record: the receiver, and the last position.
    wish: Wish,
    /// Set if notifications were dropped: the next one contains the complete task.
    missed: bool,
}

/// The task in the state that the receiver knows.
///
/// It is folded here, and not taken from the server: a courier can work at a replica that does not hold the task,
/// and is at another position than the task.
struct Told {
    folded: Folded,
    /// The view of a receiver whose client did not activate the extension.
    view: Option<PlainView>,
}

impl Courier {
    fn shared(&self) -> &Shared {
        &self.server.shared
    }

    /// Returns the run of a turn, or `None` if there is none. An error of the log is distinguished from it,
    /// because only a missing run ends the work.
    async fn find(&self, turn: usize) -> Result<Option<LoggedRun>, ()> {
        let run = turn_id(&self.wish.config.task_id, turn);
        let found = self.log.run(self.record.owner(), &self.shared().agent, &run).await;
        found.map_err(drop)
    }

    /// Notifies the receiver about all turns, in order, until the task has ended or is gone.
    async fn run(mut self) {
        let Some(mut run) = self.first_run().await else { return };
        let entry = self.server.entry(self.record.owner(), &run);
        let task = entry.lock().folded.task.clone();
        let view = self.wish.is_plain.then(|| PlainView::new(self.shared().config.limits.artifact_bytes));
        let mut told = Told { folded: Folded::new(task), view };
        let mut turn = 0;
        loop {
            if self.carry_turn(turn, &run, &mut told).await != StateClass::Interrupted {
                return;
            }
            turn += 1;
            let Some(next) = self.next_run(turn).await else { return };
            let limits = &self.shared().config.limits;
            // A turn begins as in the store: the task works, and the message of the client is in its history.
            let status = crate::server::adopt::status(crate::wire::TaskState::Working, next.opened_at);
            told.folded.set_status(status, limits);
            if let Some(message) = next.message() {
                told.folded.say(message, limits);
            }
            run = next;
        }
    }

    /// Waits for the first run. Returns `None` if it does not appear: the call that stored the configuration
    /// failed to start it.
    async fn first_run(&self) -> Option<LoggedRun> {
        let mut looks = 0;
        while looks < OPENING_LOOKS {
            match self.find(0).await {
                Ok(Some(run)) => return Some(run),
                Ok(None) => looks += 1,
                Err(()) => {}
            }
            self.shared().host.sleep(PAUSE).await;
        }
        None
    }

    /// Waits for the next turn. Returns `None` once the task is gone.
    async fn next_run(&self, turn: usize) -> Option<LoggedRun> {
        loop {
            match self.find(turn).await {
                Ok(Some(run)) => return Some(run),
                Ok(None) if matches!(self.find(0).await, Ok(None)) => return None,
                _ => self.shared().host.sleep(self.shared().config.turn_poll).await,
            }
        }
    }

    /// Delivers the notifications of a turn. Returns the state in which it ended; an active one if its run is gone.
    async fn carry_turn(&mut self, turn: usize, run: &LoggedRun, told: &mut Told) -> StateClass {
        let (task, context) = (&self.wish.config.task_id, &run.context_id);
        let mut converter = Items::new(&self.shared().config, task, context);
        let (mut items, mut last) = (Vec::new(), 0);
        let mut events = self.log.events(self.record.owner(), &run.id, last);
        loop {
            // The events were cut. They are read on after the last one, unless the run is gone.
            let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await else {
                if matches!(self.find(turn).await, Ok(None)) {
                    return StateClass::Active;
                }
                self.shared().host.sleep(PAUSE).await;
                events = self.log.events(self.record.owner(), &run.id, last);
                continue;
            };
            last = event.number;
            let is_end = event.event.is_terminal();
            // Times are those of the log: a notification that is delivered again, by whatever replica, has the same
            // body. The log has no times of single events, so statuses before the end have that of the opening.
            let ended = if is_end { self.find(turn).await.ok().flatten() } else { None };
            let at = format(ended.and_then(|run| run.closed_at).unwrap_or(run.opened_at));
            converter.convert(&event.event, &mut items);
            let bodies = self.bodies(items.drain(..), &at, told);
            // Events up to the saved position are folded, and not delivered again. The position is saved after
            // the delivery: a courier that dies in between delivers the event twice, never not at all.
            if (turn, last) > self.wish.told && (is_end || !bodies.is_empty()) {
                self.tell(&format!("{}:{last}", run.id), bodies, told).await;
                self.wish.told = (turn, last);
                let saved = self.wish.to_value();
                self.record.save(saved).await;
            }
            if is_end {
                return told.folded.task.status.state.class();
            }
        }
    }

    /// Folds items, and returns the notifications for the receiver.
    fn bodies(
        &self,
        items: impl Iterator<Item = StreamItem<'static>>,
        at: &str,
        told: &mut Told,
    ) -> Vec<Value> {
        let limits = &self.shared().config.limits;
        let mut shown = VecDeque::new();
        let mut has_status = false;
        for item in items {
            let item = match item {
                StreamItem::Status(update) => {
                    has_status = true;
                    StreamItem::Status(stamped(update, at))
                }
                item => item,
            };
            match &mut told.view {
                Some(view) => view.handle_item(item.clone(), &mut shown),
                None => shown.push_back(item.clone()),
            }
            told.folded.apply(item, at, limits);
        }
        match self.wish.version {
            Version::V1 => shown.iter().map(|item| item.to_json(Dialect::V1)).collect(),
            // Receivers of 0.3 get the complete task, when its status changes.
            Version::V03 if has_status => vec![self.whole(told)],
            Version::V03 => Vec::new(),
        }
    }

    /// Returns the complete task, in the form of the receiver.
    fn whole(&self, told: &Told) -> Value {
        let limits = &self.shared().config.limits;
        whole(&told.folded, told.view.is_some(), self.wish.version, limits)
    }

    /// Delivers notifications, each under an id that is the same for every attempt: the run, the number of the
    /// event, and the index of the notification. If one was dropped, the next is replaced by the complete task.
    async fn tell(&mut self, id: &str, bodies: Vec<Value>, told: &Told) {
        for (nth, body) in bodies.into_iter().enumerate() {
            let body = if std::mem::take(&mut self.missed) { self.whole(told) } else { body };
            let delivery = Delivery {
                shared: &self.server.shared,
                sender: &*self.sender,
                config: &self.wish.config,
                version: self.wish.version,
                id: Some(format!("{id}.{nth}")),
            };
            self.missed = !deliver(&delivery, &body).await;
        }
    }
}
