//! The number of runs and bytes that each owner holds of the engine in memory, and the choice of
//! the run that is deleted to make room.
//!
//! A run is deleted only for its own owner, or for an owner that holds less: an owner that floods
//! the log loses its own runs, never those of an owner that holds little.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_core::RunId;

/// Bytes that the runs of one owner, and all runs, hold. Beside the lock of the log: they change with every append.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    owner: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Account {
    /// Returns the bytes of all runs of the owner.
    pub(super) fn owner_bytes(&self) -> u64 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Counts bytes that were appended.
    pub(super) fn add(&self, bytes: u64) {
        self.owner.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that were trimmed, or those of a deleted run.
    pub(super) fn sub(&self, bytes: u64) {
        for counted in [&self.owner, &self.all] {
            // A run may be deleted while it is trimmed, and both subtract: the count must not wrap.
            let less = |held: u64| Some(held.saturating_sub(bytes));
            counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
        }
    }
}

/// One owner with at least one run.
#[derive(Debug, Default)]
struct Owner {
    bytes: Arc<AtomicU64>,
    runs: usize,
    /// Runs that ended, in that order. Some may have been removed, or opened again since.
    ended: VecDeque<RunId>,
}

/// All owners with runs.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: HashMap<String, Owner>,
    bytes: Arc<AtomicU64>,
}

/// The resource by which owners are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scarce {
    /// The number of runs.
    Runs,
    /// The bytes that they hold.
    Bytes,
}

impl Owners {
    /// Returns the bytes of all runs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts a run that is opened, and returns where its bytes are counted.
    pub(super) fn open(&mut self, owner: &str) -> Account {
        let entry = self.all.entry(owner.to_owned()).or_default();
        entry.runs += 1;
        Account { owner: Arc::clone(&entry.bytes), all: Arc::clone(&self.bytes) }
    }

    /// Records that a run has ended, so that it can be deleted to make room.
    pub(super) fn end(&mut self, owner: &str, run: RunId) {
        if let Some(entry) = self.all.get_mut(owner) {
            entry.ended.push_back(run);
        }
    }

    /// Counts a deleted run. An owner without runs is removed.
    pub(super) fn forget(&mut self, owner: &str) {
        if let Some(entry) = self.all.get_mut(owner) {
            entry.runs -= 1;
            if entry.runs == 0 {
                self.all.remove(owner);
            }
        }
    }

    /// Takes the run of this owner that ended first. The caller checks that it still exists.
    pub(super) fn take_ended(&mut self, owner: &str) -> Option<RunId> {
        self.all.get_mut(owner)?.ended.pop_front()
    }

    /// Takes the run that is deleted to make room for `owner`: of the owners with an ended run that are
    /// `owner` itself or hold more, the one that holds most; of its runs, the one that ended first.
    /// Returns `None` if there is no such owner. Linear in the number of owners.
    pub(super) fn take_for(&mut self, owner: &str, scarce: Scarce) -> Option<RunId> {
        let held = |entry: &Owner| match scarce {
            Scarce::Runs => u64::try_from(entry.runs).unwrap_or(u64::MAX),
            Scarce::Bytes => entry.bytes.load(Ordering::Relaxed),
        };
        let own = self.all.get(owner).map_or(0, held);
        let may_lose = |(name, entry): &(&String, &mut Owner)| {
            !entry.ended.is_empty() && (name.as_str() == owner || held(entry) > own)
        };
        let (_, entry) = self.all.iter_mut().filter(may_lose).max_by_key(|(_, entry)| held(entry))?;
        entry.ended.pop_front()
    }

    /// Drops entries of runs that were deleted by expiry, so that the queues do not grow with them.
    pub(super) fn retain_ended(&mut self, mut is_there: impl FnMut(&RunId) -> bool) {
        for entry in self.all.values_mut() {
            entry.ended.retain(&mut is_there);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_runs_no_longer_count_against_their_owner() {
        let mut owners = Owners::default();
        for owner in ["many", "many", "many", "few", "few"] {
            owners.open(owner);
        }
        owners.end("many", "ended".into());
        owners.forget("many");
        owners.forget("many");
        assert_eq!(
            owners.take_for("few", Scarce::Runs),
            None,
            "it holds one run now, and the other owner two"
        );
        owners.open("many");
        owners.open("many");
        assert_eq!(owners.take_for("few", Scarce::Runs), Some("ended".into()));
    }

    #[test]
    fn an_owner_that_holds_as_much_loses_nothing() {
        let mut owners = Owners::default();
        for owner in ["a", "b"] {
            owners.open(owner);
            owners.end(owner, owner.into());
        }
        assert_eq!(owners.take_for("a", Scarce::Runs), Some("a".into()));
        assert_eq!(owners.take_for("a", Scarce::Runs), None);
    }

    #[test]
    fn owners_without_an_ended_run_are_passed_over() {
        let mut owners = Owners::default();
        for owner in ["most", "most", "most", "more", "more", "few"] {
            owners.open(owner);
        }
        owners.end("more", "ended".into());
        assert_eq!(owners.take_for("few", Scarce::Runs), Some("ended".into()));
    }

    #[test]
    fn runs_that_are_gone_are_not_proposed() {
        let mut owners = Owners::default();
        owners.open("a");
        owners.end("a", "gone".into());
        owners.end("a", "there".into());
        owners.retain_ended(|run| run.as_str() == "there");
        assert_eq!(owners.take_ended("a"), Some("there".into()));
    }

    #[test]
    fn an_owner_without_runs_is_removed() {
        let mut owners = Owners::default();
        owners.open("a");
        owners.forget("a");
        assert!(owners.all.is_empty());
    }
}
