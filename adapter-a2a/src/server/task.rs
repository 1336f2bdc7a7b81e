//! [`TaskEntry`]: one task that the server holds.
//!
//! ```text
//!             first content, or the window is over            run ends: terminal
//! undecided ──────────────────────────────────────► a task ─────────────────────► ended
//!     │                                             │    ▲
//!     │ the run declares a message         run ends:│    │ follow-up: another run
//!     └──────────────► a message            waiting ▼    │
//!                                             waiting ───┘
//! ```
//!
//! Invariants: a task is a list of runs of which only the last can be open; all mutable state is behind one lock, held
//! for the folding of one event and never over an await; `changes` is notified whenever a change happened that a task
//! may wait for (the form of the response is known, a run started or ended, the task was dropped), never per event.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_core::{Interrupt, RunId, Timestamp};
use event_listener::Event;

use super::ServerError;
use super::fold::Folded;
use super::items::Items;
use super::push::PushEntry;
use crate::wire::{Message, StateClass, StatusUpdate, Task};

/// The form of the response to a message.
#[derive(Debug)]
pub(super) enum Reply {
    /// Not known yet.
    Undecided,
    /// A task.
    Task,
    /// A message that is being received, with its end.
    Message(Box<MessageDraft>),
}

/// A message that is being received.
#[derive(Debug, Default)]
pub(super) struct MessageDraft {
    pub(super) message: Message<'static>,
    pub(super) outcome: Option<Result<(), ServerError>>,
}

/// The progress of reading a task from the log.
#[derive(Debug)]
pub(super) enum Reading {
    /// Up to the state of the log when the task was last requested; later events are folded as they arrive.
    Done,
    /// A reader folds what is in the log; callers wait.
    UnderWay,
    /// The log could not be read; the task is not held any more.
    Failed(ServerError),
}

impl Reading {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Returns the result of reading, once it has ended.
    pub(super) fn outcome(&self) -> Option<Result<(), ServerError>> {
        match self {
            Self::Done => Some(Ok(())),
            Self::UnderWay => None,
            Self::Failed(error) => Some(Err(error.clone())),
        }
    }
}

/// One turn of a task.
#[derive(Debug)]
pub(super) struct Turn {
    /// The run; `None` for a turn that only ends the task.
    pub(super) run: Option<RunId>,
    /// The number of the last event that is folded.
    pub(super) folded: u64,
    /// The number of the last event that a client was sent.
    pub(super) sent: u64,
    /// The last status of the turn; `None` while the turn is open.
    pub(super) end: Option<Box<StatusUpdate<'static>>>,
}

impl Turn {
    pub(super) fn new(run: Option<RunId>, end: Option<Box<StatusUpdate<'static>>>) -> Self {
        Self { run, folded: 0, sent: 0, end }
    }
}

/// The mutable part of a task, behind its lock.
#[derive(Debug)]
pub(super) struct TaskState {
    pub(super) folded: Folded,
    /// Converts the events of the open turn; its position is `folded`.
    pub(super) converter: Items,
    pub(super) reply: Reply,
    pub(super) turns: Vec<Turn>,
    /// The interrupts of the last turn.
    pub(super) interrupts: Vec<Interrupt>,
    /// Set while a follow-up is being sent to the service.
    pub(super) is_claimed: bool,
    pub(super) reading: Reading,
    /// Set if the events of the run were cut, and are read again.
    pub(super) is_cut: bool,
    /// A call waits until the event of this number is folded.
    pub(super) wanted: Option<u64>,
    /// Set if the store dropped the task: watchers and waiting calls end with "not found".
    pub(super) is_removed: bool,
    /// The push configurations of the task.
    pub(super) pushes: Vec<PushEntry>,
    /// The time of the last status.
    pub(super) updated_at: Timestamp,
}

impl TaskState {
    pub(super) fn class(&self) -> StateClass {
        self.folded.task.status.state.class()
    }

    /// Returns the index of the open turn, or of the last.
    pub(super) fn last_turn(&self) -> usize {
        self.turns.len().saturating_sub(1)
    }

    /// Decides for a task, unless the run has declared a message by now.
    pub(super) fn close_window(&mut self) {
        if matches!(self.reply, Reply::Undecided) {
            self.reply = Reply::Task;
        }
    }

    /// Returns the index of the turn that can start now, or `None` if the task is not interrupted, or a turn is about
    /// to start.
    pub(super) fn next_turn(&self) -> Option<usize> {
        let is_waiting = self.class() == StateClass::Interrupted && !self.is_claimed;
        (is_waiting && self.reading.is_done()).then_some(self.turns.len())
    }

    /// Returns `true` once the end of a turn is known, or cannot arrive at this replica any more.
    pub(super) fn is_over(&self, turn: usize) -> bool {
        let has_ended = self.turns.get(turn).is_none_or(|turn| turn.end.is_some());
        has_ended || self.is_removed || self.is_cut
    }

    /// Returns `true` if chunks can be folded without items: the response is a task, and no receiver waits for items.
    pub(super) fn takes_chunks(&self) -> bool {
        matches!(self.reply, Reply::Task) && self.pushes.is_empty()
    }

    /// Returns `true` if clients can request the task.
    pub(super) fn is_visible(&self) -> bool {
        matches!(self.reply, Reply::Task) && !self.is_removed
    }
}

/// One task: its identity, and its state behind a lock. Shared by the store, the recorder of its run, watchers
/// and calls.
#[derive(Debug)]
pub(super) struct TaskEntry {
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) owner: String,
    state: Mutex<TaskState>,
    changes: Event,
}

impl TaskEntry {
    /// Returns a task whose first run has just started.
    pub(super) fn new(
        owner: String,
        task: Task<'static>,
        run: RunId,
        converter: Items,
        at: Timestamp,
    ) -> Self {
        let (id, context_id) = (task.id.to_string(), task.context_id.to_string());
        let state = TaskState {
            folded: Folded::new(task),
            converter,
            reply: Reply::Undecided,
            turns: vec![Turn::new(Some(run), None)],
            interrupts: Vec::new(),
            is_claimed: false,
            reading: Reading::Done,
            is_cut: false,
            wanted: None,
            is_removed: false,
            pushes: Vec::new(),
            updated_at: at,
        };
        Self { id, context_id, owner, state: Mutex::new(state), changes: Event::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TaskState> {
        // A panic of another thread while it held the lock leaves a task that is behind, not one that is inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client is sent the event of that number. Snapshots for other clients wait for it
    /// ([`Self::caught_up`]).
    pub(super) fn note_sent(&self, turn: usize, number: u64) {
        if let Some(turn) = self.lock().turns.get_mut(turn) {
            turn.sent = turn.sent.max(number);
        }
    }

    /// Waits until the last turn is folded up to `head` and to what clients were sent of it, or has ended. A run
    /// whose events broke off is read again, and is waited for.
    pub(super) async fn caught_up(&self, head: u64) {
        self.wait(|state| {
            let turn = state.turns.last()?;
            let wanted = turn.sent.max(head);
            let is_done = turn.folded >= wanted || turn.end.is_some() || state.is_removed;
            if !is_done {
                state.wanted = Some(state.wanted.map_or(wanted, |other| other.min(wanted)));
            }
            is_done.then_some(())
        })
        .await;
    }

    /// Records that the events of the run broke off. Returns `true` if the task was dropped, so that no call can
    /// need the events.
    pub(super) fn handle_cut(&self) -> bool {
        let mut state = self.lock();
        state.is_cut = true;
        let is_removed = state.is_removed;
        drop(state);
        self.changed();
        is_removed
    }

    /// Wakes all tasks that wait for a change.
    pub(super) fn changed(&self) {
        self.changes.notify(usize::MAX);
    }

    /// Waits until `look` returns a value.
    pub(super) async fn wait<T>(&self, mut look: impl FnMut(&mut TaskState) -> Option<T>) -> T {
        loop {
            // Registered before the check: a change in between wakes the listener.
            let changed = self.changes.listen();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::server::ServerConfig;

    /// A client was sent five events, and the log cannot be read: an answer now would show less than the client has.
    #[test]
    fn a_task_whose_events_broke_off_is_not_behind_what_clients_were_sent() {
        let converter = Items::new(&ServerConfig::default(), "t", "c");
        let entry = TaskEntry::new(String::new(), Task::default(), RunId::from("t"), converter, Timestamp(0));
        entry.note_sent(0, 5);
        entry.handle_cut();
        let mut caught_up = pin!(entry.caught_up(0));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(caught_up.as_mut().poll(&mut cx).is_pending());
        entry.lock().turns[0].folded = 5;
        entry.changed();
        assert!(caught_up.as_mut().poll(&mut cx).is_ready());
    }
}
