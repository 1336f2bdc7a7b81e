//! The state of a run besides its events: [`RunMeta`], [`RunState`], and [`RunQuery`] for lists of
//! runs.

use std::sync::Arc;

use aqueduct_core::{RunId, ThreadId, Timestamp};
use serde_json::Value;

use crate::log::RELEASED;

/// The properties of a run that do not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMeta {
    /// The key of the run in the log ([`key`](Self::key)). Clients use its [`public_id`](Self::public_id).
    pub run_id: RunId,
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The name of the agent.
    pub agent: String,
    /// The stored form of the principal that the run belongs to; empty for the anonymous one.
    pub owner: String,
    /// The time of its opening.
    pub opened_at: Timestamp,
}

/// Separates owner and id in the key of a run. Stored forms of principals do not contain it.
const KEY: char = '~';

impl RunMeta {
    /// Returns the key of the run that `owner` addresses as `run`. Clients choose run ids: two owners may choose the same
    /// one without noticing each other.
    pub fn key(owner: &str, run: &RunId) -> RunId {
        if owner.is_empty() && !run.as_str().contains(KEY) {
            return run.detached();
        }
        RunId::new(format!("{owner}{KEY}{run}"))
    }

    /// Returns the id by which the owner addresses the run. For runs of version 0.1 it equals the key.
    pub fn public_id(&self) -> RunId {
        Self::id_of(&self.owner, &self.run_id)
    }

    /// Returns the id by which the owner of the run with this key addresses it, where the owner is unknown.
    pub fn id_in(key: &RunId) -> RunId {
        key.as_str().split_once(KEY).map_or_else(|| key.clone(), |(_, id)| RunId::from(id))
    }

    /// Returns the id of the run that has this key and belongs to `owner`.
    pub fn id_of(owner: &str, key: &RunId) -> RunId {
        let own = key.as_str().strip_prefix(owner).and_then(|rest| rest.strip_prefix(KEY));
        own.map_or_else(|| key.clone(), RunId::from)
    }
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    /// The fixed properties.
    pub meta: RunMeta,
    /// The epoch of the last lease.
    pub epoch: u64,
    /// The time at which that lease lapses. Without meaning for a run that has ended.
    pub lease_until: Timestamp,
    /// The time until which a replica has reported a watcher; in the distant past if none has.
    pub watched_until: Timestamp,
    /// The lowest stored number; 1 unless the run was trimmed.
    pub earliest: u64,
    /// The highest number appended.
    pub head: u64,
    /// The time of its end, if it has ended.
    pub closed_at: Option<Timestamp>,
    /// The position of the agent's work on the run, as the lease holder annotated it last.
    pub checkpoint: Option<Arc<Value>>,
}

impl RunState {
    /// Returns `true` if the run is open and its lease has lapsed at `now`.
    pub fn is_lapsed(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && self.lease_until < now
    }

    /// Returns `true` if the run is open and its last holder has released it, or was found silent.
    pub fn is_released(&self) -> bool {
        self.closed_at.is_none() && self.lease_until <= RELEASED
    }

    /// Returns the position of the run in lists.
    pub fn place(&self) -> RunPlace {
        RunPlace { opened_at: self.meta.opened_at, run_id: self.meta.run_id.clone() }
    }
}

/// The position of a run in lists: by the time of its opening, then by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPlace {
    /// The time of its opening.
    pub opened_at: Timestamp,
    /// The id of the run.
    pub run_id: RunId,
}

/// Selects runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunQuery {
    /// Only runs of this thread.
    pub thread_id: Option<ThreadId>,
    /// Only runs of this owner.
    pub owner: Option<String>,
    /// Only runs after this position: the last one of the previous page.
    pub after: Option<RunPlace>,
    /// Lists from the newest to the oldest.
    pub newest_first: bool,
}

impl RunQuery {
    /// Returns `true` if the query selects the run.
    pub fn wants(&self, run: &RunState) -> bool {
        self.thread_id.as_ref().is_none_or(|thread| *thread == run.meta.thread_id)
            && self.owner.as_ref().is_none_or(|owner| *owner == run.meta.owner)
            && self.after.as_ref().is_none_or(|after| {
                let place = run.place();
                if self.newest_first { *after > place } else { *after < place }
            })
    }

    /// Sorts the selected runs, and truncates them to the first `max`.
    #[cfg(feature = "disk")]
    pub(crate) fn sort(&self, runs: &mut Vec<RunState>, max: usize) {
        runs.sort_by_cached_key(RunState::place);
        if self.newest_first {
            runs.reverse();
        }
        runs.truncate(max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_that_choose_one_id_have_different_keys() {
        let ids = ["r", "alice~r", "~r", "~", "bob~alice~r"];
        let owners = ["", "alice", "bob", "acme:alice"];
        let mut keys = std::collections::HashSet::new();
        for owner in owners {
            for id in ids {
                let run_id = RunMeta::key(owner, &RunId::from(id));
                assert!(keys.insert(run_id.clone()), "{owner} {id}");
                let (thread_id, agent, owner) = ("t".into(), String::new(), owner.to_owned());
                let meta = RunMeta { run_id, thread_id, agent, owner, opened_at: Timestamp(0) };
                assert_eq!(meta.public_id().as_str(), id);
            }
        }
        let (thread_id, agent, owner) = ("t".into(), String::new(), "gateway/0".to_owned());
        let old = RunMeta { run_id: "r".into(), thread_id, agent, owner, opened_at: Timestamp(0) };
        assert_eq!(old.public_id().as_str(), "r", "a run of version 0.1");
    }
}
