//! What happened in a world, line by line, with its time: for people, and to compare two runs of one seed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// A list of lines that the parts of a world share. Clones share it. It costs nothing while it is not kept.
#[derive(Clone)]
pub struct Trace(Arc<Kept>);

struct Kept {
    begun: Instant,
    lines: Option<Mutex<Vec<String>>>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("is_kept", &self.0.lines.is_some()).finish_non_exhaustive()
    }
}

impl Trace {
    /// Returns a trace that begins now.
    pub fn new(is_kept: bool) -> Self {
        Self(Arc::new(Kept { begun: Instant::now(), lines: is_kept.then(Mutex::default) }))
    }

    /// Returns how long the world has lasted, in milliseconds.
    pub fn now(&self) -> i64 {
        i64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Adds a line: who, and what.
    pub fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if let Some(lines) = &self.0.lines {
            // Before the lock: a panic in `what` is a line, too.
            let line = format!("{:>7} {who:<10} {}", self.now(), what());
            locked(lines).push(line);
        }
    }

    /// Returns all lines.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines.as_ref().map(|lines| locked(lines).clone()).unwrap_or_default()
    }
}

/// Locks what cannot be poisoned: a world that panics is over.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
