//! Counts of the gateway, written as Prometheus text. No label holds an id of a run, a thread or a caller.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_runs::RunMetrics;
use aqueduct_transport_http::Counters;

use crate::config::RelateBy;

/// The ways of [`RelateBy`] in their order, and none of them.
const RELATIONS: [&str; 4] = ["token", "trace", "context", "none"];

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Calls of A2A agents through the gateway: by token, by trace, by context, unrelated.
    passed: [AtomicU64; 4],
    lane_events_dropped: AtomicU64,
}

impl Metrics {
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

    /// Everything as Prometheus text. `tasks` is how many tasks of the runtime are alive.
    pub(crate) fn render(&self, runs: &RunMetrics, servers: &[Counters], tasks: usize) -> String {
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
        line("runs_active", "gauge", "Runs under way.", runs.active().to_string());
        line("events_total", "counter", "Canonical events logged.", runs.events().to_string());
        line(
            "resumes_total",
            "counter",
            "Watchers that came to a run that had begun.",
            runs.resumes().to_string(),
        );
        let taken_over = runs.taken_over().to_string();
        line("runs_taken_over_total", "counter", "Runs of other gateways that went on here.", taken_over);
        line("auth_denied_total", "counter", "Requests without a good token.", runs.denied().to_string());
        line("tasks", "gauge", "Tasks of the runtime that are alive.", tasks.to_string());
        line("http_connections_open", "gauge", "Open sockets.", sum(Counters::connections_open).to_string());
        line("http_requests_open", "gauge", "Requests under way.", sum(Counters::requests_open).to_string());
        line("http_requests_total", "counter", "Requests.", sum(Counters::requests_total).to_string());
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
            sum(Counters::write_stalls).to_string(),
        );
        let ended = runs.ended();
        let total: u64 = ended.by_outcome.values().sum();
        let seconds = ended.seconds;
        text.push_str(
            "# HELP aqueduct_runs_ended_total Runs that ended, by outcome or by the code of their failure.\n",
        );
        text.push_str("# TYPE aqueduct_runs_ended_total counter\n");
        for (outcome, count) in &ended.by_outcome {
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
