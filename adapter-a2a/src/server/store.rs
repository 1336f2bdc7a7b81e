//! [`TaskStore`]: the tasks of one agent, with limits.
//!
//! ```text
//! insert ─► working ── handle_rest: ended or interrupted ──► at rest ── expire, make_room ──► dropped (watchers: error)
//!              ▲                                                │
//!              └────────── handle_rest: another turn ───────────┘
//! ```
//!
//! A task is *at rest* when it has ended or is interrupted. At a limit, of tasks or of their bytes, the task that
//! ended first is dropped, then the one that has been interrupted longest; working tasks are never dropped. A
//! task that has been at rest longer than `keep` is dropped at the next call. A dropped task is as unknown as one
//! that never existed; with a log, it is read from there again.
//!
//! Locks: the lock of the store is never held while that of a task is taken.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::Timestamp;

use super::ServerError;
use super::config::TaskLimits;
use super::task::TaskEntry;
use crate::wire::{ErrorKind, StateClass};

/// The time at which a task came to rest. The order is that in which tasks are dropped: those that have ended
/// before interrupted ones, then by time; the id makes keys unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RestKey {
    waits: bool,
    since: i64,
    id: String,
}

/// The tasks and their indexes. `at_rest` and `rest_of` contain the same tasks.
#[derive(Debug, Default)]
struct Tasks {
    by_id: HashMap<String, Arc<TaskEntry>>,
    at_rest: BTreeSet<RestKey>,
    /// The keys by task, to find a task in `at_rest`.
    rest_of: HashMap<String, Rest>,
    /// The number of tasks per owner; an owner without tasks has no entry.
    of_owner: HashMap<String, usize>,
    /// The bytes of tasks at rest.
    bytes: usize,
}

/// A task at rest.
#[derive(Debug)]
struct Rest {
    key: RestKey,
    bytes: usize,
}

/// The tasks.
#[derive(Debug)]
pub(super) struct TaskStore {
    limits: TaskLimits,
    tasks: Mutex<Tasks>,
}

impl TaskStore {
    pub(super) fn new(limits: TaskLimits) -> Self {
        Self { limits, tasks: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a task, and drops others if necessary. Returns the stored one, which is another task if the id is
    /// in use: two calls can read the same task from the log at once.
    ///
    /// # Errors
    ///
    /// Returns `TaskNotFound` if the id belongs to another owner, and `Unavailable` if a limit is reached and all
    /// tasks work.
    pub(super) fn insert(&self, entry: &Arc<TaskEntry>) -> Result<Arc<TaskEntry>, ServerError> {
        let mut tasks = self.lock();
        if let Some(kept) = tasks.by_id.get(&entry.id) {
            return if kept.owner == entry.owner {
                Ok(Arc::clone(kept))
            } else {
                Err(ServerError::task_not_found(&entry.id))
            };
        }
        let mut forgotten = Vec::new();
        if tasks.of_owner.get(&entry.owner).copied().unwrap_or(0) >= self.limits.tasks_per_caller {
            forgotten.extend(tasks.make_room(Some(&entry.owner)));
        } else if tasks.by_id.len() >= self.limits.tasks {
            forgotten.extend(tasks.make_room(None));
        }
        let is_full = tasks.by_id.len() >= self.limits.tasks
            || tasks.of_owner.get(&entry.owner).copied().unwrap_or(0) >= self.limits.tasks_per_caller;
        if !is_full {
            tasks.by_id.insert(entry.id.clone(), Arc::clone(entry));
            *tasks.of_owner.entry(entry.owner.clone()).or_default() += 1;
        }
        drop(tasks);
        forget(forgotten);
        if is_full {
            let words = "there are as many tasks at work as there may be: ask again when one has ended";
            return Err(ServerError::new(ErrorKind::Unavailable, words));
        }
        Ok(Arc::clone(entry))
    }

    /// Drops a task: its run did not start, or it could not be read.
    pub(super) fn remove(&self, id: &str) {
        let removed = self.lock().remove(id);
        forget(removed);
    }

    /// Drops tasks that have been at rest too long. Called with every call, in place of a timer: its cost is that
    /// of the dropped tasks.
    pub(super) fn expire(&self, now: Timestamp) {
        let keep = i64::try_from(self.limits.keep.as_millis()).unwrap_or(i64::MAX);
        let before = now.0.saturating_sub(keep);
        let mut forgotten = Vec::new();
        let mut tasks = self.lock();
        // The two groups are sorted by time, each for itself.
        for waits in [false, true] {
            let oldest = RestKey { waits, since: i64::MIN, id: String::new() };
            while let Some(key) = tasks.at_rest.range(&oldest..).next()
                && key.waits == waits
                && key.since < before
            {
                let id = key.id.clone();
                forgotten.extend(tasks.remove(&id));
            }
        }
        drop(tasks);
        forget(forgotten);
    }

    /// Returns the task, if it belongs to this owner and is visible.
    pub(super) fn find(&self, owner: &str, id: &str) -> Result<Arc<TaskEntry>, ServerError> {
        let found = self.lock().by_id.get(id).filter(|entry| entry.owner == owner).cloned();
        found.filter(|entry| entry.lock().is_visible()).ok_or_else(|| ServerError::task_not_found(id))
    }

    /// Returns all tasks of an owner, in no particular order. Linear in the tasks of all owners.
    pub(super) fn of_owner(&self, owner: &str) -> Vec<Arc<TaskEntry>> {
        self.lock().by_id.values().filter(|entry| entry.owner == owner).cloned().collect()
    }

    /// Records that a task came to rest, or works again. Its size is measured here, once per turn, and not per
    /// event.
    pub(super) fn handle_rest(&self, entry: &TaskEntry) {
        let state = entry.lock();
        let (class, since, bytes) = (state.class(), state.updated_at.0, state.folded.size());
        drop(state);
        let mut tasks = self.lock();
        // Dropped in the meantime.
        if !tasks.by_id.contains_key(&entry.id) {
            return;
        }
        tasks.handle_work(&entry.id);
        if class == StateClass::Active {
            return;
        }
        let mut forgotten = Vec::new();
        while tasks.bytes.saturating_add(bytes) > self.limits.bytes
            && let Some(oldest) = tasks.make_room(None)
        {
            forgotten.push(oldest);
        }
        let key = RestKey { waits: class == StateClass::Interrupted, since, id: entry.id.clone() };
        tasks.at_rest.insert(key.clone());
        tasks.rest_of.insert(entry.id.clone(), Rest { key, bytes });
        tasks.bytes = tasks.bytes.saturating_add(bytes);
        drop(tasks);
        forget(forgotten);
    }
}

impl Tasks {
    /// Removes the first task at rest, of all or of one owner.
    fn make_room(&mut self, owner: Option<&str>) -> Option<Arc<TaskEntry>> {
        let is_of = |key: &&RestKey| {
            owner.is_none_or(|owner| self.by_id.get(&key.id).is_some_and(|entry| entry.owner == owner))
        };
        let id = self.at_rest.iter().find(is_of)?.id.clone();
        self.remove(&id)
    }

    /// Records that a task is no longer at rest.
    fn handle_work(&mut self, id: &str) {
        if let Some(rest) = self.rest_of.remove(id) {
            self.at_rest.remove(&rest.key);
            self.bytes = self.bytes.saturating_sub(rest.bytes);
        }
    }

    /// Removes a task from all indexes.
    fn remove(&mut self, id: &str) -> Option<Arc<TaskEntry>> {
        self.handle_work(id);
        let entry = self.by_id.remove(id)?;
        if let Some(count) = self.of_owner.get_mut(&entry.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of_owner.remove(&entry.owner);
            }
        }
        Some(entry)
    }
}

/// Reports the removal of tasks to their watchers, which receive an error.
fn forget(entries: impl IntoIterator<Item = Arc<TaskEntry>>) {
    for entry in entries {
        entry.lock().is_removed = true;
        entry.changed();
    }
}
