//! [`RecentMap`]: the bounded memory behind every dedup index.
//!
//! The stream machine, the decoders of the adapters and their task memory all ask "was this key seen, and with what?", and
//! must not grow with a run. Each keeps its own keys and values; the bound and the order of removal are here.
//!
//! Invariant: the queue holds at most about twice as many places as the map has entries, so removing and inserting the
//! same key repeatedly needs constant memory.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map with a maximum number of entries: inserting one more removes the entry that was inserted longest ago.
///
/// The maximum is an argument of each insertion, so that limits stay in the configuration of the owner. A maximum of 0
/// counts as 1: the newest entry always stays.
///
/// # Examples
///
/// ```
/// use aqueduct_core::recent::RecentMap;
///
/// let mut seen = RecentMap::default();
/// assert!(seen.insert_new("a", (), 2) && !seen.insert_new("a", (), 2));
/// assert!(seen.insert_new("b", (), 2) && seen.insert_new("c", (), 2));
/// assert!(!seen.contains(&"a") && seen.contains(&"c"));
/// ```
#[derive(Debug, Clone)]
pub struct RecentMap<K, V> {
    /// `None` until the first insertion: a run has about ten of these maps, and most of them stay empty.
    filled: Option<Box<Filled<K, V>>>,
}

#[derive(Debug, Clone)]
struct Filled<K, V> {
    entries: HashMap<K, (u64, V), foldhash::fast::RandomState>,
    /// Keys in the order of insertion. A place is stale if its stamp differs from that of the entry.
    order: VecDeque<(u64, K)>,
    stamp: u64,
}

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> Self {
        Self { filled: None }
    }
}

impl<K, V> Default for Filled<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: VecDeque::new(), stamp: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> RecentMap<K, V> {
    /// Inserts `value` as the newest entry, and removes the oldest if there are more than `max`.
    pub fn insert(&mut self, key: K, value: V, max: usize) {
        self.filled.get_or_insert_default().insert(key, value, max);
    }

    /// Inserts `value` if `key` is absent. Returns `false` if it is present; its value and age stay as they are.
    pub fn insert_new(&mut self, key: K, value: V, max: usize) -> bool {
        let is_new = !self.contains(&key);
        if is_new {
            self.insert(key, value, max);
        }
        is_new
    }

    /// Returns the value of `key`. An absent key gets the value of `make`, as the newest entry.
    pub fn get_or_insert_with(&mut self, key: K, max: usize, make: impl Fn() -> V) -> &mut V {
        let filled = self.filled.get_or_insert_default();
        if !filled.entries.contains_key(&key) {
            filled.insert(key.clone(), make(), max);
        }
        let stamp = filled.stamp;
        &mut filled.entries.entry(key).or_insert_with(|| (stamp, make())).1
    }

    /// Returns the value of `key`, or `None` if it was never inserted or has been removed.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.filled.as_ref()?.entries.get(key).map(|(_, value)| value)
    }

    /// Returns the value of `key` for changes. The age of the entry stays.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.filled.as_mut()?.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Returns `true` if `key` has an entry.
    pub fn contains(&self, key: &K) -> bool {
        self.filled.as_ref().is_some_and(|filled| filled.entries.contains_key(key))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.filled.as_ref().map_or(0, |filled| filled.entries.len())
    }

    /// Returns `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.filled.iter().flat_map(|filled| &filled.entries);
        entries.map(|(key, (_, value))| (key, value))
    }

    /// Iterates over all values for changes, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let values = self.filled.iter_mut().flat_map(|filled| filled.entries.values_mut());
        values.map(|(_, value)| value)
    }

    /// Removes an entry and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.filled.as_mut()?.entries.remove(key).map(|(_, value)| value)
    }
}

impl<K: Hash + Eq + Clone, V> Filled<K, V> {
    fn insert(&mut self, key: K, value: V, max: usize) {
        self.stamp += 1;
        self.entries.insert(key.clone(), (self.stamp, value));
        self.order.push_back((self.stamp, key));
        while self.entries.len() > max.max(1)
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

    fn is_current(&self, stamp: u64, key: &K) -> bool {
        self.entries.get(key).is_some_and(|(current, _)| *current == stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued<K, V>(memory: &RecentMap<K, V>) -> usize {
        memory.filled.as_ref().map_or(0, |filled| filled.order.len())
    }

    #[test]
    fn the_oldest_entry_goes_first() {
        let mut memory = RecentMap::default();
        for n in 0..5 {
            memory.insert(n, (), 3);
        }
        assert!(!memory.contains(&1));
        assert!(memory.contains(&2));
    }

    #[test]
    fn an_entry_that_is_inserted_again_is_the_newest() {
        let mut memory = RecentMap::default();
        memory.insert("a", 1, 2);
        memory.insert("b", 2, 2);
        memory.remove(&"a");
        memory.insert("a", 3, 2);
        memory.insert("c", 4, 2);
        assert_eq!(memory.get(&"a"), Some(&3));
        assert!(!memory.contains(&"b"));
    }

    #[test]
    fn a_key_that_is_present_keeps_its_value_and_its_age() {
        let mut memory = RecentMap::default();
        assert!(memory.insert_new("a", 1, 2));
        assert!(memory.insert_new("b", 2, 2));
        assert!(!memory.insert_new("a", 3, 2));
        assert_eq!(*memory.get_or_insert_with("a", 2, || 4), 1);
        memory.insert("c", 5, 2);
        assert!(!memory.contains(&"a"), "it is still the oldest");
        assert_eq!((memory.get(&"b"), memory.get(&"c")), (Some(&2), Some(&5)));
    }

    #[test]
    fn an_absent_key_is_made_the_newest_entry() {
        let mut memory = RecentMap::default();
        memory.insert("a", 1, 2);
        *memory.get_or_insert_with("b", 2, || 2) += 10;
        *memory.get_or_insert_with("c", 2, || 3) += 10;
        assert!(!memory.contains(&"a"));
        assert_eq!((memory.get(&"b"), memory.get(&"c")), (Some(&12), Some(&13)));
    }

    #[test]
    fn entries_are_counted_as_they_come_and_go() {
        let mut memory = RecentMap::default();
        assert_eq!((memory.len(), memory.is_empty()), (0, true));
        for (key, count) in [("a", 1), ("b", 2), ("c", 2)] {
            memory.insert(key, (), 2);
            assert_eq!((memory.len(), memory.is_empty()), (count, false));
        }
        memory.remove(&"b");
        memory.remove(&"c");
        assert_eq!((memory.len(), memory.is_empty()), (0, true));
    }

    #[test]
    fn a_key_inserted_again_and_again_takes_one_place() {
        let mut memory = RecentMap::default();
        for n in 0..10_000 {
            memory.remove(&"a");
            memory.insert("a", n, 1000);
        }
        assert!(queued(&memory) < 32);
    }

    #[test]
    fn the_queue_grows_to_twice_the_entries_before_it_is_shortened() {
        let (mut memory, mut longest) = (RecentMap::default(), 0);
        for n in 0..10_000 {
            memory.remove(&(n % 100));
            memory.insert(n % 100, n, 1000);
            longest = longest.max(queued(&memory));
        }
        assert_eq!(longest, 16 + 2 * 100);
        assert_eq!(memory.iter().count(), 100);
        memory.insert(1000, 0, 100);
        assert!(!memory.contains(&0) && memory.contains(&1), "what is left of the queue is in order");
    }
}
