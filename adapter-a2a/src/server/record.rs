//! The recorder: folds the events of one run into its task as they arrive, with or without watchers.
//!
//! ```text
//! events of the run ──► fold: Items ──► Folded (the task), queues of push notifications
//!         │ cut                │ first content: the response is a task, or a message
//!         ▼                    └ terminal event: the turn has ended, waiting calls are woken
//!  ask_again ── the log has more? yes: read on; no: the run was lost, the task fails
//! ```
//!
//! There is one recorder per run, from its start to its end; it holds the run's events, so a run is never
//! unwatched and a client that disconnects stops nothing. Its cost per event does not depend on the length of the
//! task. If the events are cut while the log has more of them, they are read again: the run may continue at
//! another replica.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{Caller, EventStream, NumberedEvent};
use aqueduct_core::{BlockEvent, RunId, Timestamp};

use super::agent::AgentServer;
use super::fold::stamped;
use super::reply::{Hint, hint};
use super::task::{MessageDraft, Reading, Reply, TaskEntry, TaskState};
use crate::wire::time::format;
use crate::wire::{Message, Role, StreamItem, Text};

/// The pause before events that were cut are read again.
const CUT_PAUSE: Duration = Duration::from_millis(500);

/// The events of a run before its recorder started: those that were in the log when the task was read from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    /// The number of the last such event.
    pub(super) head: u64,
    /// The time at which the run was opened: the time of its earlier statuses.
    pub(super) opened_at: Timestamp,
    /// Set if the log contains no later turn of the task.
    pub(super) is_last: bool,
}

impl Past {
    /// Returns the past of a run that starts now.
    pub(super) fn none() -> Self {
        Self { head: 0, opened_at: Timestamp(0), is_last: false }
    }
}

/// Folds one run into one turn of a task.
pub(super) struct Recorder {
    pub(super) server: AgentServer,
    pub(super) entry: Arc<TaskEntry>,
    pub(super) caller: Caller,
    /// The index of the turn in the task.
    pub(super) turn: usize,
    pub(super) run: RunId,
    pub(super) past: Past,
}

impl Recorder {
    /// Records until the run ends. A run that was lost ends as a failure, so that no task works without end.
    pub(super) async fn record(self, mut events: EventStream) {
        let mut items = Vec::new();
        let mut last = 0;
        loop {
            while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
                last = event.number;
                let at = self.time_of(&event).await;
                self.fold(&event, at, &mut items);
                if event.event.is_terminal() {
                    return;
                }
            }
            // The events ended without a terminal event.
            match self.ask_again(last).await {
                Some(more) => events = more,
                None => break,
            }
        }
        let event = self.entry.lock().converter.lost(&self.run);
        self.fold(&NumberedEvent { number: last, event }, self.server.shared.host.now(), &mut items);
    }

    /// Returns the time of an event: that of the log if it has one, so that it is the same wherever the task is read.
    async fn time_of(&self, event: &NumberedEvent) -> Timestamp {
        let shared = &self.server.shared;
        if event.event.is_terminal()
            && let Some(log) = shared.host.task_log()
            && let Ok(Some(run)) = log.run(&self.entry.owner, &shared.agent, &self.run).await
            && let Some(at) = run.closed_at
        {
            return at;
        }
        if event.number <= self.past.head { self.past.opened_at } else { shared.host.now() }
    }

    /// Returns the events after `last`, as soon as the log can be read, or `None` if it has no more, if there is
    /// no log, or if the task was dropped. Waits as long as the log cannot be read: an error is no evidence that
    /// the run has ended.
    async fn ask_again(&self, last: u64) -> Option<EventStream> {
        let shared = &self.server.shared;
        let log = shared.host.task_log()?;
        loop {
            if self.entry.handle_cut() {
                return None;
            }
            shared.host.sleep(CUT_PAUSE).await;
            match log.run(&self.entry.owner, &shared.agent, &self.run).await {
                // Still open, or closed with events that were not read yet.
                Ok(Some(run)) if run.closed_at.is_none() || run.head > last => {}
                Ok(_) => return None,
                Err(_) => continue,
            }
            if let Ok(events) = shared.service.watch(&self.caller, &self.run, last).await {
                return Some(events);
            }
        }
    }

    /// Folds one event under the lock of the task. Deliverers and waiting calls are woken after the lock is
    /// released.
    ///
    /// `items` is a buffer that is reused from event to event.
    fn fold(&self, event: &NumberedEvent, at: Timestamp, items: &mut Vec<StreamItem<'static>>) {
        items.clear();
        let is_end = event.event.is_terminal();
        let mut state = self.entry.lock();
        state.is_cut = false;
        // A chunk of the answer is appended in place, without an item, if no receiver needs the item.
        let chunk = state.takes_chunks().then(|| state.converter.chunk(&event.event)).flatten();
        match chunk {
            Some(chunk) => state.folded.add_chunk(chunk, &self.server.shared.config.limits),
            None => state.converter.convert(&event.event, items),
        }
        // The last event that was in the log when the task was requested: callers can be answered now.
        let has_caught_up = self.past.is_last && event.number >= self.past.head && !state.reading.is_done();
        if has_caught_up {
            state.reading = Reading::Done;
        }
        let mut changed = is_end || has_caught_up;
        // The first content decides whether the response is a task or a message.
        if matches!(state.reply, Reply::Undecided) {
            match hint(&event.event) {
                Hint::None => {}
                Hint::Task => {
                    state.reply = Reply::Task;
                    changed = true;
                }
                Hint::Message => state.reply = Reply::Message(Box::new(self.draft())),
            }
        }
        // A message has no task: nothing is folded, and no push notification is sent.
        if let Reply::Message(draft) = &mut state.reply {
            draft.handle(&event.event);
        } else {
            self.apply(&mut state, at, items);
            if is_end {
                state.interrupts = interrupts(&event.event);
            }
        }
        if let Some(turn) = state.turns.get_mut(self.turn) {
            turn.folded = event.number;
        }
        // A call waits until this event is folded ([`TaskEntry::caught_up`]).
        changed |= state.wanted.take_if(|wanted| event.number >= *wanted).is_some();
        let calls_back = !state.pushes.is_empty();
        drop(state);
        if calls_back {
            self.server.deliver(&self.entry);
        }
        if is_end {
            self.server.shared.store.handle_rest(&self.entry);
        }
        if changed {
            self.entry.changed();
        }
    }

    /// Folds items into the task and queues them for receivers of push notifications. Statuses get the time `at`;
    /// the last status of a run is the end of its turn.
    fn apply(&self, state: &mut TaskState, at: Timestamp, items: &mut Vec<StreamItem<'static>>) {
        let limits = &self.server.shared.config.limits;
        let queue = self.server.shared.config.push.queue;
        for item in items.drain(..) {
            let StreamItem::Status(update) = item else {
                state.enqueue(&item, queue);
                state.folded.apply(item, "", limits);
                continue;
            };
            let update = stamped(update, &format(at));
            state.updated_at = at;
            state.enqueue(&StreamItem::Status(update.clone()), queue);
            if update.is_final
                && let Some(turn) = state.turns.get_mut(self.turn)
            {
                turn.end = Some(Box::new(update.clone()));
            }
            state.folded.set_status(update.status, limits);
        }
    }

    /// Returns an empty message of the agent, with a new id.
    fn draft(&self) -> MessageDraft {
        let message = Message {
            message_id: Text::from(self.server.shared.host.new_id()),
            context_id: Text::from(self.entry.context_id.clone()),
            role: Role::Agent,
            ..Message::default()
        };
        MessageDraft { message, outcome: None }
    }
}

/// Returns the interrupts with which a run ended.
fn interrupts(event: &BlockEvent) -> Vec<aqueduct_core::Interrupt> {
    match event {
        BlockEvent::RunFinished(finished) => {
            finished.interrupts.iter().map(|pending| pending.interrupt.clone()).collect()
        }
        _ => Vec::new(),
    }
}
