//! The extensions that the gateway attaches to each run: the tee, and the meter of the run.
//!
//! ```text
//! run engine ──► GatewayRun ──┬► TeeRun     relates calls of sub-agents, shows them as lanes
//!                             ├► RunMeter   metrics
//!                             └► RunTrace   spans, if `telemetry.otlp` is set
//! ```
//!
//! The engine has one extension per run; this module forwards each call of it to the three parts. Observers see an
//! event before it is logged; only the tee changes events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, InterruptReply, SourceEvent};
use aqueduct_runs::{RunExtension, RunExtensions, RunHandle, RunOrigin, RunStart};
use serde_json::Value;

use crate::tee::{Tee, TeeRun};
use crate::telemetry::{Metrics, RunMeter, RunTrace, TracedContext, Tracing};

/// The surface label of a run that was taken over: the request that started it reached another replica.
const TAKEOVER: &str = "takeover";
/// The surface label of a run that no request started.
const INTERNAL: &str = "internal";

/// Attaches the tee and a meter to each run.
#[derive(Debug)]
pub(super) struct GatewayExtensions {
    pub(super) tee: Arc<Tee>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracing: Option<Arc<Tracing>>,
}

impl RunExtensions for GatewayExtensions {
    /// Starts to measure the run. Called for every run that this replica drives, before its first event.
    fn attach(&self, run: &Arc<RunHandle>, origin: &RunOrigin<'_>) -> Option<Arc<dyn RunExtension>> {
        let surface = match (origin.takeover.is_some(), origin.surface) {
            (true, _) => TAKEOVER,
            (false, "") => INTERNAL,
            (false, surface) => surface,
        };
        let meter = RunMeter::begin(&self.metrics, origin.agent, surface);
        let trace = |tracing| Arc::new(RunTrace::new(tracing, run.id().as_str(), origin, surface));
        let trace = self.tracing.as_ref().map(trace);
        Some(Arc::new(GatewayRun {
            tee: Arc::new(TeeRun::new(&self.tee, run)),
            meter,
            trace,
            is_measured: AtomicBool::new(false),
        }))
    }
}

/// The extensions of one run.
#[derive(Debug)]
struct GatewayRun {
    tee: Arc<TeeRun>,
    meter: RunMeter,
    trace: Option<Arc<RunTrace>>,
    /// Set once the end of the run is measured.
    is_measured: AtomicBool,
}

impl GatewayRun {
    /// Ends meter and trace, once: a suspended run is measured when it waits for a reply, and not again when it has
    /// ended.
    fn measure_end(&self) {
        if self.is_measured.swap(true, Ordering::SeqCst) {
            return;
        }
        self.meter.handle_end();
        if let Some(trace) = &self.trace {
            trace.handle_end();
        }
    }
}

impl RunExtension for GatewayRun {
    /// Returns the context of the agent's calls: the tee's relation keys, and with tracing the span of the run as
    /// parent of the agent's spans.
    fn begin(self: Arc<Self>, start: RunStart<'_>) -> BoxFuture<'_, Arc<dyn CallContext>> {
        Box::pin(async move {
            let Some(trace) = &self.trace else { return Arc::clone(&self.tee).begin(start).await };
            // The tee sees the caller with the trace context of the run's own span, which the agent will forward.
            let caller = trace.begin(start.caller, start.input);
            let mut start = start;
            start.caller = &caller;
            TracedContext::of_run(Arc::clone(&self.tee).begin(start).await, trace)
        })
    }

    /// Counts the arrival, and lets the tee find tool calls that a later call of a sub-agent may belong to.
    fn observe(&self, event: &SourceEvent) {
        self.meter.handle_arrival();
        self.tee.observe(event);
        if let Some(trace) = &self.trace {
            trace.handle_source(event);
        }
    }

    fn observe_events(&self, events: &[BlockEvent]) {
        self.meter.handle_events(events);
        if let Some(trace) = &self.trace {
            trace.handle_events(events);
        }
    }

    /// The trace context of the run, so that the replica that takes it over continues its trace.
    fn checkpoint(&self) -> Option<Value> {
        self.trace.as_ref().and_then(|trace| trace.checkpoint())
    }

    fn handle_appended(&self, took: Duration) {
        self.meter.handle_appended(took);
    }

    fn place_lane(&self, event: SourceEvent) -> SourceEvent {
        self.tee.place_lane(event)
    }

    fn catch_up(&self) -> Option<BoxFuture<'_, ()>> {
        self.tee.catch_up()
    }

    /// Messages of other replicas are lanes of calls that those replicas forward.
    fn handle_message(self: Arc<Self>, message: Value) {
        Arc::clone(&self.tee).handle_message(message);
    }

    fn handle_lane_dropped(&self) {
        self.tee.handle_lane_dropped();
    }

    /// The run waits for a reply to a raised interrupt: measured as ended, while the tee keeps its lanes.
    fn handle_suspended(&self) {
        self.measure_end();
    }

    fn handle_replies(&self, replies: &[InterruptReply]) {
        self.tee.handle_replies(replies);
    }

    /// Ends the measurement, and lets the tee release held calls and the state of its tasks.
    fn handle_end(&self) {
        self.measure_end();
        self.tee.handle_end();
    }
}
