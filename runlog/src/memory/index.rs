//! Runs by their place in lists: all of them, those of a thread, those of an owner. A list costs
//! what it returns, not what the log holds.
//!
//! The place of a run is its time of opening, then its id, so that runs opened in the same
//! millisecond have a fixed order. A place never changes, and a page continues after the place of
//! its last run, also if that run was deleted meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use aqueduct_core::ThreadId;

use super::run::Run;
use crate::log::{RunPlace, RunQuery};

type Ordered = BTreeMap<RunPlace, Arc<Run>>;

/// The runs of the log, in order.
#[derive(Debug, Default)]
pub(super) struct Index {
    all: Ordered,
    threads: HashMap<ThreadId, Ordered>,
    owners: HashMap<String, Ordered>,
}

impl Index {
    /// Adds a run to its three lists. The caller has checked that the id is new.
    pub(super) fn insert(&mut self, run: &Arc<Run>) {
        self.all.insert(run.place(), Arc::clone(run));
        self.threads.entry(run.thread.clone()).or_default().insert(run.place(), Arc::clone(run));
        self.owners.entry(run.owner.clone()).or_default().insert(run.place(), Arc::clone(run));
    }

    /// Removes a run from its three lists.
    pub(super) fn remove(&mut self, run: &Run) {
        let place = run.place();
        self.all.remove(&place);
        remove(&mut self.threads, &run.thread, &place);
        remove(&mut self.owners, &run.owner, &place);
    }

    /// Returns all runs, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Run>> {
        self.all.values().cloned().collect()
    }

    /// Returns the first `max` runs that a query selects, in its order.
    /// The shortest list that contains all results is searched: that of the thread, then that of the
    /// owner. The owner is checked as well, because a thread may contain runs of several owners.
    pub(super) fn select(&self, query: &RunQuery, max: usize) -> Vec<Arc<Run>> {
        let found = match (&query.thread_id, &query.owner) {
            (Some(thread), _) => self.threads.get(thread),
            (None, Some(owner)) => self.owners.get(owner),
            (None, None) => Some(&self.all),
        };
        let Some(found) = found else { return Vec::new() };
        let is_wanted = |run: &&Arc<Run>| query.owner.as_ref().is_none_or(|owner| *owner == run.owner);
        let edge = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        if query.newest_first {
            let range = found.range::<RunPlace, _>((Bound::Unbounded, edge)).rev();
            range.map(|(_, run)| run).filter(is_wanted).take(max).cloned().collect()
        } else {
            let range = found.range::<RunPlace, _>((edge, Bound::Unbounded));
            range.map(|(_, run)| run).filter(is_wanted).take(max).cloned().collect()
        }
    }
}

/// Removes a run from the list of its key, and the list with its last run.
fn remove<K: Eq + Hash>(lists: &mut HashMap<K, Ordered>, key: &K, place: &RunPlace) {
    let Some(list) = lists.get_mut(key) else { return };
    list.remove(place);
    if list.is_empty() {
        lists.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Timestamp;

    use super::*;
    use crate::log::RunLog as _;
    use crate::memory::MemoryLog;
    use crate::testing::{events, meta};

    #[tokio::test]
    async fn a_deleted_run_is_in_no_list() {
        let log = MemoryLog::default();
        let (gone, open) = (meta("gone"), meta("open"));
        let queries = [
            RunQuery::default(),
            RunQuery { thread_id: Some(gone.thread_id.clone()), ..RunQuery::default() },
            RunQuery { owner: Some(gone.owner.clone()), ..RunQuery::default() },
        ];
        assert_eq!((&gone.thread_id, &gone.owner), (&open.thread_id, &open.owner));
        let lease = log.open(gone, Timestamp(9)).await.unwrap();
        log.open(open, Timestamp(9)).await.unwrap();
        log.append(&lease, events(1), Timestamp(1)).await.unwrap();
        assert_eq!(log.expire(Timestamp(2)).await, Ok(1));
        for query in queries {
            let listed = log.list(query.clone(), 10).await.unwrap();
            let ids: Vec<&str> = listed.iter().map(|run| run.meta.run_id.as_str()).collect();
            assert_eq!(ids, ["open"], "{query:?}");
        }
    }

    #[tokio::test]
    async fn the_list_of_a_thread_ends_with_its_last_run() {
        let log = MemoryLog::default();
        let lease = log.open(meta("gone"), Timestamp(9)).await.unwrap();
        log.append(&lease, events(1), Timestamp(1)).await.unwrap();
        log.expire(Timestamp(2)).await.unwrap();
        let runs = log.runs();
        assert_eq!((runs.index.threads.len(), runs.index.owners.len()), (0, 0));
    }
}
