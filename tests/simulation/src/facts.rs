//! [`LogFacts`]: what a simulated log notes about its runs, for the checker.

use std::collections::{BTreeMap, BTreeSet};

use aqueduct_core::RunId;

/// A batch that was stored: who wrote it, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The run.
    pub run: RunId,
    /// The epoch of the writer.
    pub epoch: u64,
    /// The highest epoch that had been granted by then.
    pub granted: u64,
    /// The number of its last event.
    pub last: u64,
}

/// What happened to the runs of a log.
#[derive(Debug, Clone, Default)]
pub struct LogFacts {
    /// All batches that were stored.
    pub writes: Vec<Write>,
    /// Runs that lost events in a failover, and the number of the last event before it. Their owners append them again.
    pub losses: BTreeMap<RunId, u64>,
    /// Runs that lost events for good: the log has forgotten their owner, or another replica took them over before the owner
    /// appended the events again.
    pub unrestored: BTreeSet<RunId>,
    /// Runs that a replica took over without knowing: all acknowledgements were lost.
    pub unknown_takeovers: BTreeSet<RunId>,
    /// Runs that were lost as a whole.
    pub vanished: BTreeSet<RunId>,
    /// The number of takeovers.
    pub takeovers: usize,
}

impl LogFacts {
    /// Notes a run that lost events up to `head` in a failover, and its owner, if the log has forgotten the lease.
    pub fn lose(&mut self, run: &RunId, head: u64, is_owner_lost: bool) {
        let lost = self.losses.entry(run.clone()).or_default();
        *lost = head.max(*lost);
        if is_owner_lost {
            self.unrestored.insert(run.clone());
        }
    }

    /// Notes a takeover of a run at `head`.
    pub fn take_over(&mut self, run: &RunId, head: u64) {
        self.takeovers += 1;
        if self.losses.get(run).is_some_and(|lost| head < *lost) {
            self.unrestored.insert(run.clone());
        }
    }
}
