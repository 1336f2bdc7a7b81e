//! Relations of keys to runs, in memory. The owner of a run removes its keys; if the process ends before, the memory is gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_core::RunId;

/// The runs of each key.
#[derive(Debug, Default)]
pub(super) struct Relations(Mutex<HashMap<String, Vec<RunId>>>);

impl Relations {
    fn keys(&self) -> MutexGuard<'_, HashMap<String, Vec<RunId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Relates `keys` to a run. A key may lead to several runs.
    pub(super) fn add(&self, run: &RunId, keys: Vec<String>) {
        let mut known = self.keys();
        for key in keys {
            // Mostly one: a list that grows from nothing has room for four.
            let runs = known.entry(key).or_insert_with(|| Vec::with_capacity(1));
            if !runs.contains(run) {
                runs.push(run.clone());
            }
        }
    }

    /// Removes the relations of a run. A key without runs is dropped.
    pub(super) fn remove(&self, run: &RunId, keys: &[String]) {
        let mut known = self.keys();
        for key in keys {
            if let Some(runs) = known.get_mut(key) {
                runs.retain(|other| other != run);
                if runs.is_empty() {
                    known.remove(key);
                }
            }
        }
    }

    /// Returns the runs of each key, in the order of `keys`; an empty list for an unknown key.
    pub(super) fn find(&self, keys: &[String]) -> Vec<Vec<RunId>> {
        let known = self.keys();
        keys.iter().map(|key| known.get(key).cloned().unwrap_or_default()).collect()
    }
}
