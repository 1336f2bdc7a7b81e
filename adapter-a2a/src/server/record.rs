//! The recorder: folds the events of one run into its task as they come, whether or not anybody watches.
//!
//! There is one recorder per run, from its start to its end; it holds the run's events, so a run is never unwatched and
//! clients that leave stop nothing. Its cost per event does not depend on the length of the task.

use std::future::poll_fn;
use std::sync::Arc;

use aqueduct_core::service::{EventStream, NumberedEvent};
use aqueduct_core::{BlockEvent, RunId};

use super::agent::AgentServer;
use super::fold::stamped;
use super::reply::{Hint, hint};
use super::task::{MessageDraft, Reply, TaskEntry, TaskState};
use crate::wire::time::format;
use crate::wire::{Message, Role, StreamItem, Text};

/// Folds one run.
pub(super) struct Recorder {
    pub(super) server: AgentServer,
    pub(super) entry: Arc<TaskEntry>,
    pub(super) turn: usize,
    pub(super) run: RunId,
}

impl Recorder {
    /// Records until the run ends.
    pub(super) async fn record(self, mut events: EventStream) {
        let mut items = Vec::new();
        let mut last = 0;
        while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
            last = event.number;
            self.fold(&event, &mut items);
            if event.event.is_terminal() {
                return;
            }
        }
        let event = self.entry.lock().maker.lost(&self.run);
        self.fold(&NumberedEvent { number: last, event }, &mut items);
    }

    fn fold(&self, event: &NumberedEvent, items: &mut Vec<StreamItem<'static>>) {
        items.clear();
        let is_end = event.event.is_terminal();
        let mut state = self.entry.lock();
        state.maker.convert(&event.event, items);
        let mut changed = is_end;
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
        if let Reply::Message(draft) = &mut state.reply {
            draft.handle(&event.event);
        } else {
            self.apply(&mut state, items);
            if is_end {
                state.questions = questions(&event.event);
            }
        }
        if let Some(turn) = state.turns.get_mut(self.turn) {
            turn.folded = event.number;
        }
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

    /// Folds items; the last status of a run is its end.
    fn apply(&self, state: &mut TaskState, items: &mut Vec<StreamItem<'static>>) {
        let limits = &self.server.shared.config.limits;
        let queue = self.server.shared.config.push.queue;
        for item in items.drain(..) {
            let StreamItem::Status(update) = item else {
                state.enqueue(&item, queue);
                state.folded.apply(item, "", limits);
                continue;
            };
            let now = self.server.shared.host.now();
            let update = stamped(update, &format(now));
            state.updated_at = now;
            state.enqueue(&StreamItem::Status(update.clone()), queue);
            if update.is_final
                && let Some(turn) = state.turns.get_mut(self.turn)
            {
                turn.end = Some(Box::new(update.clone()));
            }
            state.folded.set_status(update.status, limits);
        }
    }

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

fn questions(event: &BlockEvent) -> Vec<aqueduct_core::Interrupt> {
    match event {
        BlockEvent::RunFinished(finished) => {
            finished.interrupts.iter().map(|pending| pending.interrupt.clone()).collect()
        }
        _ => Vec::new(),
    }
}
