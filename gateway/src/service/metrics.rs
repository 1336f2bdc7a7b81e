//! Counts of the gateway, written as Prometheus text. No label holds an id of a run, a thread or a caller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aqueduct_transport_http::Counters;

/// Outcomes that are told apart; codes of agents are foreign text, so any other counts as one.
const OUTCOMES: usize = 64;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    active: AtomicI64,
    events: AtomicU64,
    resumes: AtomicU64,
    denied: AtomicU64,
    seconds: Mutex<f64>,
    ended: Mutex<BTreeMap<String, u64>>,
}

/// A run that counts as active until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'m>(&'m Metrics);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn run_begins(&self) -> Counted<'_> {
        self.active.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    pub(crate) fn run_ended(&self, outcome: &str, took: Duration) {
        *self.seconds.lock().unwrap_or_else(PoisonError::into_inner) += took.as_secs_f64();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let is_word =
            outcome.len() <= 64 && outcome.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let known = ended.contains_key(outcome) || ended.len() < OUTCOMES;
        let outcome = if is_word && known { outcome } else { "other" };
        *ended.entry(outcome.to_owned()).or_default() += 1;
    }

    pub(crate) fn events(&self, count: usize) {
        self.events.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn resumed(&self) {
        self.resumes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything as Prometheus text.
    pub(crate) fn render(&self, servers: &[Counters]) -> String {
        let mut text = String::new();
        let sum = |count: fn(&Counters) -> u64| servers.iter().map(count).sum::<u64>();
        let mut line = |name: &str, kind: &str, help: &str, value: String| {
            // Writing to a `String` cannot fail.
            write!(
                text,
                "# HELP aqueduct_{name} {help}\n# TYPE aqueduct_{name} {kind}\naqueduct_{name} {value}\n"
            )
            .ok();
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        line("runs_active", "gauge", "Runs under way.", self.active.load(Ordering::Relaxed).to_string());
        line("events_total", "counter", "Canonical events logged.", count(&self.events));
        line("resumes_total", "counter", "Watchers that came to a run that had begun.", count(&self.resumes));
        line("auth_denied_total", "counter", "Requests without a good token.", count(&self.denied));
        line("http_connections_open", "gauge", "Open sockets.", sum(Counters::connections_open).to_string());
        line("http_requests_open", "gauge", "Requests under way.", sum(Counters::requests_open).to_string());
        line("http_requests_total", "counter", "Requests.", sum(Counters::requests_total).to_string());
        line(
            "slow_reader_disconnects_total",
            "counter",
            "Readers that took nothing for too long.",
            sum(Counters::write_stalls).to_string(),
        );
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let total: u64 = ended.values().sum();
        let seconds = *self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(
            "# HELP aqueduct_runs_ended_total Runs that ended, by outcome or by the code of their failure.\n",
        );
        text.push_str("# TYPE aqueduct_runs_ended_total counter\n");
        for (outcome, count) in &*ended {
            writeln!(text, "aqueduct_runs_ended_total{{outcome=\"{outcome}\"}} {count}").ok();
        }
        text.push_str("# HELP aqueduct_run_duration_seconds How long runs took.\n");
        text.push_str("# TYPE aqueduct_run_duration_seconds summary\n");
        write!(
            text,
            "aqueduct_run_duration_seconds_sum {seconds}\naqueduct_run_duration_seconds_count {total}\n"
        )
        .ok();
        text
    }
}
