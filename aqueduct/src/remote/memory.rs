//! [`ThreadMemory`]: a bounded cache of the state of threads between their runs.
//!
//! ```text
//! insert ──► recent ── full ──► older (the former `older` is dropped)
//! change ◄── recent, else older
//! ```
//!
//! Two generations without an order inside: the most recent half of the threads is always found. An exact order would
//! cost a list beside the table. The key includes the principal: the same id of another principal is another thread.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// A map that drops its oldest entries.
#[derive(Debug)]
pub struct ThreadMemory<K, V> {
    /// The size of one generation.
    limit: usize,
    generations: Mutex<Generations<K, V>>,
}

/// The two generations of a memory.
#[derive(Debug)]
struct Generations<K, V> {
    recent: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Hash + Eq, V> ThreadMemory<K, V> {
    /// Returns a memory that keeps at least `most / 2` and at most `most` entries.
    pub fn new(most: usize) -> Self {
        let generations = Generations { recent: HashMap::new(), older: HashMap::new() };
        Self { limit: most.div_ceil(2), generations: Mutex::new(generations) }
    }

    /// Sets the entry of `key`.
    pub fn insert(&self, key: K, value: V) {
        let mut both = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        both.older.remove(&key);
        if both.recent.len() >= self.limit && !both.recent.contains_key(&key) {
            both.older = std::mem::take(&mut both.recent);
        }
        both.recent.insert(key, value);
    }

    /// Applies `change` to the entry of `key`. Returns `None` if there is no entry.
    pub fn change<R>(&self, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let mut both = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { recent, older } = &mut *both;
        recent.get_mut(key).or_else(|| older.get_mut(key)).map(change)
    }

    /// Removes the entry of `key`. Returns `None` if there is no entry.
    pub fn remove(&self, key: &K) -> Option<V> {
        let mut both = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        both.recent.remove(key).or_else(|| both.older.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_half_is_known_and_no_more_than_the_limit() {
        let remembered = ThreadMemory::new(10);
        for thread in 0..1_000 {
            remembered.insert(thread, thread);
        }
        assert!((995..1_000).all(|thread| remembered.remove(&thread) == Some(thread)));
        let older = (0..995).filter(|thread| remembered.remove(thread).is_some()).count();
        assert!(older <= 5, "{older} more");
        assert_eq!(remembered.remove(&999), None, "taken once");
    }

    #[test]
    fn a_second_insert_replaces_the_first() {
        let remembered = ThreadMemory::new(4);
        for (key, value) in [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("c", 2)] {
            remembered.insert(key, value);
        }
        assert_eq!([remembered.remove(&"a"), remembered.remove(&"a")], [Some(2), None]);
        assert_eq!(remembered.remove(&"c"), Some(2));
    }
}
