//! [`RunMetrics`]: counters of the engine, exported by the host. No counter contains an id of a run, a thread or a caller.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Distinct outcomes per agent. Codes of agents are foreign text, so further codes share one counter.
const OUTCOMES: usize = 64;

/// The counters of an engine.
#[derive(Debug, Default)]
pub struct RunMetrics {
    active: AtomicU64,
    events: AtomicU64,
    resumes: AtomicU64,
    taken_over: AtomicU64,
    denied: AtomicU64,
    ended: Mutex<Ended>,
}

/// The runs that ended.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Ended {
    /// The number of runs, by agent, and by outcome or failure code.
    pub by_agent: BTreeMap<String, BTreeMap<String, u64>>,
    /// The sum of their durations.
    pub seconds: f64,
}

/// Counts a run as active until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'m>(&'m RunMetrics);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RunMetrics {
    /// Returns the number of runs that are driven here.
    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Returns the number of canonical events logged.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the number of watchers that connected to a run after its start.
    pub fn resumes(&self) -> u64 {
        self.resumes.load(Ordering::Relaxed)
    }

    /// Returns the number of runs that this engine took over from other replicas.
    pub fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// Returns the number of requests without a required identity.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// Returns the counters of ended runs.
    pub fn ended(&self) -> Ended {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a request without a required identity.
    pub fn count_denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run as active until the guard is dropped.
    pub(crate) fn run_begins(&self) -> Counted<'_> {
        self.active.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    /// Counts an ended run by agent and outcome. Outcomes beyond the limit share one counter.
    pub(crate) fn run_ended(&self, agent: &str, outcome: &str, took: Duration) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.seconds += took.as_secs_f64();
        let is_word =
            outcome.len() <= 64 && outcome.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let by_outcome = ended.by_agent.entry(agent.to_owned()).or_default();
        let is_counted = by_outcome.contains_key(outcome) || by_outcome.len() < OUTCOMES;
        let outcome = if is_word && is_counted { outcome } else { "other" };
        *by_outcome.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Counts events that are appended to the log.
    pub(crate) fn count_events(&self, count: usize) {
        self.events.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts a watcher that connected after the start of its run.
    pub(crate) fn count_resume(&self) {
        self.resumes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run that was taken over.
    pub(crate) fn count_takeover(&self) {
        self.taken_over.fetch_add(1, Ordering::Relaxed);
    }
}
