//! Which A2A conversation belongs to which AG-UI thread.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_adapter_a2a::input::Recipient;
use aqueduct_core::ThreadId;

/// Threads remembered. Past it the oldest is forgotten, and continues as a new conversation.
const LIMIT: usize = 1000;

/// The last task of each thread, oldest thread first.
#[derive(Debug, Default)]
pub(crate) struct Threads(Mutex<VecDeque<(ThreadId, Recipient)>>);

impl Threads {
    /// To whom the next message of a thread goes.
    pub(crate) fn recipient(&self, thread: &ThreadId) -> Recipient {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(id, _)| id == thread);
        found.map_or(Recipient::New, |(_, recipient)| recipient.clone())
    }

    /// A task of the thread came to rest: either it waits for an answer, or the next message starts another one.
    pub(crate) fn remember(&self, thread: &ThreadId, task: TaskRef, waits: bool) {
        let recipient = if waits { Recipient::Task(task) } else { Recipient::Context(task.context_id) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(id, _)| id != thread);
        known.push_back((thread.clone(), recipient));
        if known.len() > LIMIT {
            known.pop_front();
        }
    }
}
