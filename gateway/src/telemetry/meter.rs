//! [`RunMeter`]: adds one run to the metrics, from its canonical events.
//!
//! ```text
//! begun ── first event of the agent ──► time_to_first_event
//!   ├ source event arrives ── its batch is in the log ──► event_delay, log_append
//!   ├ lanes, tool results, interrupts, usage ──► counters
//!   └ terminal event, or the lease is lost ──► run_duration; open lanes count as closed
//! ```
//!
//! The driver of the run calls these functions. Extensions of a run are shared by reference, so the state is in
//! atomics. Counters of the run engine itself (active runs, events, outcomes) are sampled by
//! [`live`](super::live) instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_core::{BlockEvent, LaneOutcome, Usage};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::metrics::{AgentLabels, Metrics, OutcomeLabels, StartLabels, TokenLabels};

/// Measures one run. Created when the run is attached to this replica, also by a takeover.
#[derive(Debug)]
pub(crate) struct RunMeter {
    metrics: Arc<Metrics>,
    agent: String,
    begun_at: Instant,
    /// The histogram of this agent, looked up once.
    first_event: Histogram,
    /// Nanoseconds from `begun_at` to the first event; 0 until then.
    first_after: AtomicU64,
    /// Nanoseconds from `begun_at` to the arrival of the oldest event that is not in the log; 0 for none.
    arrived_after: AtomicU64,
    /// Lanes of this run that are open, to be subtracted from the gauge if the run ends without closing them.
    open_lanes: AtomicI64,
}

impl RunMeter {
    /// Counts a run as started.
    pub(crate) fn begin(metrics: &Arc<Metrics>, agent: &str, surface: &'static str) -> Self {
        let agent = agent.to_owned();
        metrics.runs_started.get_or_create(&StartLabels { agent: agent.clone(), surface }).inc();
        let first_event = metrics.first_event.get_or_create_owned(&AgentLabels { agent: agent.clone() });
        Self {
            metrics: Arc::clone(metrics),
            agent,
            begun_at: Instant::now(),
            first_event,
            first_after: AtomicU64::new(0),
            arrived_after: AtomicU64::new(0),
            open_lanes: AtomicI64::new(0),
        }
    }

    /// Returns nanoseconds since the start, at least 1, because 0 means "none" in the fields.
    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun_at.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Records the arrival of a source event. Only the oldest event of a batch is timed: it waited longest.
    pub(crate) fn handle_arrival(&self) {
        if self.arrived_after.load(Ordering::Relaxed) == 0 {
            self.arrived_after.store(self.elapsed(), Ordering::Relaxed);
        }
    }

    /// Records that all events that have arrived are in the log; appending took `took`.
    pub(crate) fn handle_appended(&self, took: Duration) {
        self.metrics.log_append.observe(took.as_secs_f64());
        let arrived = self.arrived_after.swap(0, Ordering::Relaxed);
        if arrived > 0 {
            let delay = Duration::from_nanos(self.elapsed().saturating_sub(arrived));
            self.metrics.event_delay.observe(delay.as_secs_f64());
        }
    }

    /// Counts canonical events that are about to be appended.
    pub(crate) fn handle_events(&self, events: &[BlockEvent]) {
        // `RunStarted` is emitted by the gateway, so it does not show that the agent responds.
        if self.first_after.load(Ordering::Relaxed) == 0
            && events.iter().any(|event| !matches!(event, BlockEvent::RunStarted(_)))
        {
            let after = self.elapsed();
            self.first_after.store(after, Ordering::Relaxed);
            self.first_event.observe(Duration::from_nanos(after).as_secs_f64());
        }
        for event in events {
            self.handle_event(event);
        }
    }

    /// Updates the counters that one event concerns.
    fn handle_event(&self, event: &BlockEvent) {
        match event {
            BlockEvent::LaneOpened(_) => {
                self.open_lanes.fetch_add(1, Ordering::Relaxed);
                self.metrics.lanes_open.inc();
            }
            BlockEvent::LaneClosed { outcome, .. } => {
                self.open_lanes.fetch_sub(1, Ordering::Relaxed);
                self.metrics.lanes_open.dec();
                self.metrics.lanes.get_or_create(&self.outcome(lane_outcome(outcome))).inc();
            }
            BlockEvent::ToolResult(result) => {
                let outcome = if result.is_error { "failed" } else { "success" };
                self.metrics.tool_calls.get_or_create(&self.outcome(outcome)).inc();
            }
            BlockEvent::InterruptRequested(_) => {
                self.metrics.interrupts.get_or_create(&AgentLabels { agent: self.agent.clone() }).inc();
            }
            BlockEvent::RunFinished(end) => self.count_tokens(&end.usage),
            BlockEvent::RunFailed(end) => self.count_tokens(&end.usage),
            _ => {}
        }
    }

    /// Returns labels with the agent of this run.
    fn outcome(&self, outcome: &'static str) -> OutcomeLabels {
        OutcomeLabels { agent: self.agent.clone(), outcome }
    }

    /// Adds the tokens of all models of the run. Directions that were not reported create no series.
    fn count_tokens(&self, usage: &[Usage]) {
        let sums = [
            ("input", usage.iter().filter_map(|usage| usage.input).sum::<u64>()),
            ("output", usage.iter().filter_map(|usage| usage.output).sum::<u64>()),
        ];
        for (direction, count) in sums.into_iter().filter(|(_, count)| *count > 0) {
            let labels = TokenLabels { agent: self.agent.clone(), direction };
            self.metrics.tokens.get_or_create(&labels).inc_by(count);
        }
    }

    /// Records that the run has ended or is driven elsewhere. The caller makes sure that it is called once.
    pub(crate) fn handle_end(&self) {
        let labels = AgentLabels { agent: self.agent.clone() };
        self.metrics.run_duration.get_or_create(&labels).observe(self.begun_at.elapsed().as_secs_f64());
        self.metrics.lanes_open.dec_by(self.open_lanes.swap(0, Ordering::Relaxed));
    }
}

/// Returns the outcome of a lane as a label. Spans use the same words.
pub(super) fn lane_outcome(outcome: &LaneOutcome) -> &'static str {
    match outcome {
        LaneOutcome::Success(_) => "success",
        LaneOutcome::Suspended => "suspended",
        LaneOutcome::Failed(_) => "failed",
        LaneOutcome::Cancelled => "cancelled",
        _ => "other",
    }
}
