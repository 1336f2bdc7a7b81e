//! Telemetry: logs, metrics and traces.
//!
//! ```text
//! requests ──► RequestMeter ──┐
//! runs ──► RunMeter ──────────┼──► Metrics (registry) ──┐
//! transports, engine, process ┴──► live samples ────────┴──► GET /metrics, MetricsExport ──┐
//! runs ──► RunTrace, calls ──► CallTrace ──► Tracing ───────────────────────────────────────┴──► OTLP collector
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`logs`] | lines on standard error |
//! | [`metrics`] | the registry: histograms and counters by agent, surface, dialect, outcome and refusal code |
//! | [`live`] | values that are sampled when `/metrics` is read: engine, transports, process |
//! | [`meter`] | adds one run to the registry |
//! | [`trace`] | spans of runs |
//! | [`otlp`] | the export of spans and metrics to a collector |
//! | [`upstream`] | the calls to one remote agent, measured and traced |
//!
//! Invariants: no label contains an id of a run, a thread or a caller, nor a text that a caller chose: labels are
//! agents of the configuration and constants of this program. Secrets and payloads are in no log line and no label.

mod live;
mod logs;
mod meter;
pub(crate) mod metrics;
#[cfg(feature = "otel")]
mod otlp;
mod process;
#[cfg(feature = "otel")]
mod trace;
#[cfg(not(feature = "otel"))]
#[path = "no_trace.rs"]
mod trace;
mod upstream;

pub(crate) use live::{LiveSources, render};
pub(crate) use logs::start;
pub(crate) use meter::RunMeter;
pub(crate) use metrics::Metrics;
#[cfg(feature = "otel")]
pub(crate) use otlp::MetricsExport;
#[cfg(not(feature = "otel"))]
pub(crate) use trace::MetricsExport;
pub(crate) use trace::{RunTrace, TracedContext, Tracing};
pub(crate) use upstream::UpstreamWatch;

/// The instrumentation scope of spans and metrics.
#[cfg(feature = "otel")]
const SCOPE: &str = "aqueduct";
