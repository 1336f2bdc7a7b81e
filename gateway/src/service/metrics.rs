//! Counts of the gateway, written as Prometheus text. No label holds an id of a run, a thread or a caller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aqueduct_transport_http::{Counters, Sample, Total};

use crate::config::RelateBy;

/// The ways of [`RelateBy`] in their order, and none of them.
const RELATIONS: [&str; 4] = ["token", "trace", "context", "none"];

/// Outcomes that are told apart; codes of agents are foreign text, so any other counts as one.
const OUTCOMES: usize = 64;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    active: AtomicI64,
    events: AtomicU64,
    resumes: AtomicU64,
    taken_over: AtomicU64,
    denied: AtomicU64,
    /// Calls of A2A agents through the gateway: by token, by trace, by context, unrelated.
    passed: [AtomicU64; 4],
    lane_events_dropped: AtomicU64,
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

    /// A run of a gateway that is gone goes on here.
    pub(crate) fn taken_over(&self) {
        self.taken_over.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// A call passed through to an agent, and how it was related to a run.
    pub(crate) fn passed(&self, relation: Option<RelateBy>) {
        let place = relation.map_or(RELATIONS.len() - 1, |way| way as usize);
        if let Some(count) = self.passed.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A sub-agent said something that its run did not take.
    pub(crate) fn lane_event_dropped(&self) {
        self.lane_events_dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns everything as Prometheus text. `transports` are counters by the name of their transport, `tasks` is the
    /// number of tasks of the runtime that are alive.
    pub(crate) fn render(&self, transports: &[(&'static str, Counters)], tasks: usize) -> String {
        let mut text = String::new();
        let stalls = transports.iter().map(|(_, counters)| counters.total(Total::WriteStalls)).sum::<u64>();
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
        let taken_over = count(&self.taken_over);
        line("runs_taken_over_total", "counter", "Runs of other gateways that went on here.", taken_over);
        line("auth_denied_total", "counter", "Requests without a good token.", count(&self.denied));
        line("tasks", "gauge", "Tasks of the runtime that are alive.", tasks.to_string());
        for (name, sample) in of_transports(transports) {
            let kind = if sample.is_gauge { "gauge" } else { "counter" };
            line(&name, kind, sample.help, sample.value.to_string());
        }
        line(
            "tee_events_dropped_total",
            "counter",
            "Events of sub-agents that their run did not take: it had ended, or its log was too slow.",
            count(&self.lane_events_dropped),
        );
        line(
            "slow_reader_disconnects_total",
            "counter",
            "Readers that took nothing for too long.",
            stalls.to_string(),
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
        text.push_str(
            "# HELP aqueduct_tee_calls_total Calls passed through to A2A agents, by what related them to a run.\n",
        );
        text.push_str("# TYPE aqueduct_tee_calls_total counter\n");
        for (relation, count) in RELATIONS.iter().zip(&self.passed) {
            let count = count.load(Ordering::Relaxed);
            writeln!(text, "aqueduct_tee_calls_total{{relation=\"{relation}\"}} {count}").ok();
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

/// The counts of all transports as `<transport>_<count>`, those of several servers of one transport added up.
fn of_transports(transports: &[(&'static str, Counters)]) -> BTreeMap<String, Sample> {
    let mut samples: BTreeMap<String, Sample> = BTreeMap::new();
    for (transport, counters) in transports {
        for sample in counters.samples() {
            let name = format!("{transport}_{}", sample.name);
            samples.entry(name).and_modify(|sum| sum.value += sample.value).or_insert(sample);
        }
    }
    samples
}
