//! [`TaskEntry`]: one task as the server keeps it.
//!
//! ```text
//!             first content, or the window is over            run ends: terminal
//! undecided ──────────────────────────────────────► a task ─────────────────────► ended
//!     │                                             │    ▲
//!     │ the run says that it is a message  run ends:│    │ follow-up: another run
//!     └──────────────► a message            waiting ▼    │
//!                                             waiting ───┘
//! ```
//!
//! Invariants: a task is a list of runs of which only the last can be going on; all that changes is behind one lock, held
//! for the folding of one event and never over an await; `changes` moves whenever a change happened that a task may
//! wait for (the reply's form is known, a run began or ended, the task was forgotten), never per event.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_core::{Interrupt, RunId, Timestamp};
use event_listener::Event;

use super::ServerError;
use super::fold::Folded;
use super::items::Items;
use super::push::PushEntry;
use crate::wire::{Message, StateClass, StatusUpdate, Task};

/// What a message is answered with.
#[derive(Debug)]
pub(super) enum Reply {
    /// Not known yet.
    Undecided,
    /// A task.
    Task,
    /// A message, as far as it is known; with its end.
    Message(Box<MessageDraft>),
}

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct MessageDraft {
    pub(super) message: Message<'static>,
    pub(super) outcome: Option<Result<(), ServerError>>,
}

/// How far the log of a task is read.
#[derive(Debug)]
pub(super) enum Reading {
    /// As far as it was when the task was last asked for; what follows is folded as it comes.
    Done,
    UnderWay,
    Failed(ServerError),
}

impl Reading {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Returns how the reading ended, once it has.
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
    /// The run; none for a turn that only ends the task.
    pub(super) run: Option<RunId>,
    /// The number of the last event that is folded.
    pub(super) folded: u64,
    /// What the turn ended with.
    pub(super) end: Option<Box<StatusUpdate<'static>>>,
}

/// What changes.
#[derive(Debug)]
pub(super) struct TaskState {
    pub(super) folded: Folded,
    /// Makes items of the events of the turn that goes on; stands where `folded` does.
    pub(super) maker: Items,
    pub(super) reply: Reply,
    pub(super) turns: Vec<Turn>,
    /// What the last turn waits for.
    pub(super) questions: Vec<Interrupt>,
    /// A follow-up is on its way to the service.
    pub(super) is_claimed: bool,
    pub(super) reading: Reading,
    /// The events of the run broke off, and are asked for again.
    pub(super) is_cut: bool,
    /// The server forgot it.
    pub(super) is_removed: bool,
    /// Who wants to be called back.
    pub(super) pushes: Vec<PushEntry>,
    /// When the status last changed.
    pub(super) updated_at: Timestamp,
}

impl TaskState {
    pub(super) fn class(&self) -> StateClass {
        self.folded.task.status.state.class()
    }

    /// The turn that goes on, or the last.
    pub(super) fn last_turn(&self) -> usize {
        self.turns.len().saturating_sub(1)
    }

    /// A turn that has not declared itself a message by now is answered with a task.
    pub(super) fn close_window(&mut self) {
        if matches!(self.reply, Reply::Undecided) {
            self.reply = Reply::Task;
        }
    }

    /// Returns the place of the turn that can begin now; `None` if the task does not wait, or one is about to begin.
    pub(super) fn next_turn(&self) -> Option<usize> {
        let is_waiting = self.class() == StateClass::Interrupted && !self.is_claimed;
        (is_waiting && self.reading.is_done()).then_some(self.turns.len())
    }

    /// Returns `true` once the end of a turn is known, or cannot arrive at this replica any more.
    pub(super) fn is_over(&self, turn: usize) -> bool {
        let has_ended = self.turns.get(turn).is_none_or(|turn| turn.end.is_some());
        has_ended || self.is_removed || self.is_cut
    }

    /// True if clients can ask for it.
    pub(super) fn is_visible(&self) -> bool {
        matches!(self.reply, Reply::Task) && !self.is_removed
    }
}

/// One task.
#[derive(Debug)]
pub(super) struct TaskEntry {
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) owner: String,
    state: Mutex<TaskState>,
    changes: Event,
}

impl TaskEntry {
    /// A task whose first run has just begun.
    pub(super) fn new(owner: String, task: Task<'static>, run: RunId, maker: Items, at: Timestamp) -> Self {
        let (id, context_id) = (task.id.to_string(), task.context_id.to_string());
        let state = TaskState {
            folded: Folded::new(task),
            maker,
            reply: Reply::Undecided,
            turns: vec![Turn { run: Some(run), folded: 0, end: None }],
            questions: Vec::new(),
            is_claimed: false,
            reading: Reading::Done,
            is_cut: false,
            is_removed: false,
            pushes: Vec::new(),
            updated_at: at,
        };
        Self { id, context_id, owner, state: Mutex::new(state), changes: Event::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TaskState> {
        // A panic of another thread while it held the lock leaves a task that is behind, not one that is broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events of the run broke off. Returns `true` if no client can ask for the task any more.
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

    /// Waits until `look` sees what it looks for.
    pub(super) async fn wait<T>(&self, mut look: impl FnMut(&mut TaskState) -> Option<T>) -> T {
        loop {
            // Registered before looking: a change in between wakes the listener.
            let changed = self.changes.listen();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }
}
