//! A bounded map: inserting more than the maximum removes the entries that were inserted longest ago.
//!
//! Invariant: the queue holds at most about twice as many places as the map has entries, so removing and inserting the
//! same key repeatedly needs constant memory.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map with a maximum number of entries.
#[derive(Debug)]
pub(super) struct Memory<K, V> {
    entries: HashMap<K, (u64, V), foldhash::fast::RandomState>,
    /// Keys in the order of insertion. A place is stale if its stamp differs from that of the entry.
    order: VecDeque<(u64, K)>,
    stamp: u64,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: VecDeque::new(), stamp: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> Memory<K, V> {
    /// Inserts `value` as the newest entry, and removes the oldest if there are more than `max`.
    pub(super) fn insert(&mut self, key: K, value: V, max: usize) {
        self.stamp += 1;
        self.entries.insert(key.clone(), (self.stamp, value));
        self.order.push_back((self.stamp, key));
        while self.entries.len() > max
            && let Some((stamp, oldest)) = self.order.pop_front()
        {
            if self.is_current(stamp, &oldest) {
                self.entries.remove(&oldest);
            }
        }
        if self.order.len() > 16 + 2 * self.entries.len() {
            let entries = &self.entries;
            self.order.retain(|(stamp, key)| entries.get(key).is_some_and(|(current, _)| current == stamp));
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, (_, value))| (key, value))
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|(_, value)| value)
    }

    fn is_current(&self, stamp: u64, key: &K) -> bool {
        self.entries.get(key).is_some_and(|(current, _)| *current == stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_goes_first() {
        let mut memory = Memory::default();
        for n in 0..5 {
            memory.insert(n, (), 3);
        }
        assert!(!memory.contains(&1));
        assert!(memory.contains(&2));
    }

    #[test]
    fn remembering_again_makes_an_entry_young() {
        let mut memory = Memory::default();
        memory.insert("a", 1, 2);
        memory.insert("b", 2, 2);
        memory.remove(&"a");
        memory.insert("a", 3, 2);
        memory.insert("c", 4, 2);
        assert_eq!(memory.get(&"a"), Some(&3));
        assert!(!memory.contains(&"b"));
    }

    #[test]
    fn a_key_remembered_for_ever_takes_one_place() {
        let mut memory = Memory::default();
        for n in 0..10_000 {
            memory.remove(&"a");
            memory.insert("a", n, 1000);
        }
        assert!(memory.order.len() < 32);
    }
}
