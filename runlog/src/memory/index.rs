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
    /// Ordered lists: most threads have few runs, and the node of a tree for one run has half a kilobyte.
    threads: HashMap<ThreadId, Vec<Arc<Run>>>,
    owners: HashMap<String, Ordered>,
}

impl Index {
    /// Adds a run to its three lists. The caller has checked that the id is new.
    pub(super) fn insert(&mut self, run: &Arc<Run>) {
        self.all.insert(run.place(), Arc::clone(run));
        let place = run.place();
        let thread = self.threads.entry(run.thread.clone()).or_default();
        thread.insert(thread.partition_point(|other| other.place() < place), Arc::clone(run));
        self.owners.entry(run.owner.clone()).or_default().insert(run.place(), Arc::clone(run));
    }

    /// Removes a run from its three lists.
    pub(super) fn remove(&mut self, run: &Run) {
        let place = run.place();
        self.all.remove(&place);
        if let Some(thread) = self.threads.get_mut(&run.thread) {
            thread.retain(|other| other.id != run.id);
            if thread.is_empty() {
                self.threads.remove(&run.thread);
            }
        }
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
        let edge = query.after.as_ref();
        let is_wanted = |run: &&Arc<Run>| query.owner.as_ref().is_none_or(|owner| *owner == run.owner);
        let found = match (&query.thread_id, &query.owner) {
            (Some(thread), _) => {
                let runs = self.threads.get(thread).map_or(&[][..], Vec::as_slice);
                let runs = after(runs, edge, query.newest_first);
                return ordered(runs.iter(), query.newest_first)
                    .filter(is_wanted)
                    .take(max)
                    .cloned()
                    .collect();
            }
            (None, Some(owner)) => self.owners.get(owner),
            (None, None) => Some(&self.all),
        };
        let Some(found) = found else { return Vec::new() };
        let edge = edge.map_or(Bound::Unbounded, Bound::Excluded);
        let range = if query.newest_first {
            found.range::<RunPlace, _>((Bound::Unbounded, edge))
        } else {
            found.range::<RunPlace, _>((edge, Bound::Unbounded))
        };
        let runs = range.map(|(_, run)| run);
        ordered(runs, query.newest_first).filter(is_wanted).take(max).cloned().collect()
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

/// Returns the part of an ordered list on the far side of `edge`: before it if the newest come first, otherwise after it.
fn after<'r>(runs: &'r [Arc<Run>], edge: Option<&RunPlace>, newest_first: bool) -> &'r [Arc<Run>] {
    let Some(edge) = edge else { return runs };
    let part = if newest_first {
        runs.get(..runs.partition_point(|run| run.place() < *edge))
    } else {
        runs.get(runs.partition_point(|run| run.place() <= *edge)..)
    };
    part.unwrap_or_default()
}

/// Returns the runs in the order of a query.
fn ordered<'r>(
    runs: impl DoubleEndedIterator<Item = &'r Arc<Run>>,
    newest_first: bool,
) -> impl Iterator<Item = &'r Arc<Run>> {
    let (newest, oldest) = if newest_first { (Some(runs.rev()), None) } else { (None, Some(runs)) };
    newest.into_iter().flatten().chain(oldest.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Timestamp;

    use super::*;
    use crate::log::{RunLog as _, RunMeta, RunState};
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
    async fn a_page_continues_after_the_last_run_of_the_page_before_in_either_order() {
        let log = MemoryLog::default();
        // The second and the third run were opened in the same millisecond.
        for (id, opened_at) in [("b", 1), ("d", 2), ("c", 2), ("a", 3)] {
            log.open(RunMeta { opened_at: Timestamp(opened_at), ..meta(id) }, Timestamp(9)).await.unwrap();
        }
        let RunMeta { thread_id, owner, .. } = meta("a");
        let of_thread = RunQuery { thread_id: Some(thread_id), ..RunQuery::default() };
        let of_owner = RunQuery { owner: Some(owner), ..RunQuery::default() };
        for query in [RunQuery::default(), of_thread, of_owner] {
            for (newest_first, expected) in [(false, "bcda"), (true, "adcb")] {
                let mut query = RunQuery { newest_first, ..query.clone() };
                let mut ids = String::new();
                for _ in 0..expected.len() {
                    let page = log.list(query.clone(), 1).await.unwrap();
                    query.after = page.first().map(RunState::place);
                    ids.extend(page.iter().map(|run| run.meta.run_id.as_str()));
                }
                assert_eq!(ids, expected, "{query:?}");
                assert_eq!(log.list(query, 1).await, Ok(Vec::new()));
            }
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
