//! Values that are sampled when `/metrics` is read: the run engine, the transports, the log, the process. This
//! module counts nothing, so it costs nothing between two reads.
//!
//! ```text
//! Metrics (registry, prefix aqueduct_) ───────┐
//! LiveSources ──► own_samples (aqueduct_) ────┼──► OpenMetrics text, ended by # EOF
//! /proc ──► process::samples (no prefix) ─────┘
//! ```
//!
//! Owners of the values (engine, transports, quotas) keep their own counters, because they are libraries
//! without a metrics registry. A value must never decrease if it is sampled as a counter.

use std::collections::BTreeMap;
use std::time::Duration;

use aqueduct::remote::AgentHealth;
use aqueduct_runs::Runs;
use aqueduct_transport_http::{Counters, Quotas, Total};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::metrics::{Metrics, PREFIX};
use super::process;
use crate::quota::LIMITS;

/// The objects that are sampled.
#[derive(Debug)]
pub(crate) struct LiveSources<'a> {
    /// The run engine of this replica.
    pub(crate) runs: &'a Runs,
    /// The counters of each transport, by name. Counters with the same name are added.
    pub(crate) transports: &'a [(&'static str, Counters)],
    /// The current use of the servers by callers.
    pub(crate) quotas: &'a Quotas,
    /// The health of remote agents, by agent.
    pub(crate) agents: Vec<(String, AgentHealth)>,
    /// The response time of the log in the latest check, or `None` if it did not respond.
    pub(crate) log_latency: Option<Duration>,
}

/// Labels of one value. The rules for labels are those of [`telemetry`](super).
type Labels = Vec<(&'static str, String)>;

/// The value of a counter or a gauge. Integers are written without a decimal point.
#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Whole(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Whole(u64::from(flag))
    }
}

impl From<f64> for Value {
    fn from(measure: f64) -> Self {
        Self::Real(measure)
    }
}

impl Value {
    /// Writes the value. The encoder appends `_total` to the name of a counter.
    fn encode(self, to: &mut MetricEncoder<'_>, is_counter: bool) -> Result<(), std::fmt::Error> {
        match (self, is_counter) {
            (Self::Whole(count), true) => to.encode_counter::<Labels, _, u64>(&count, None),
            (Self::Real(measure), true) => to.encode_counter::<Labels, _, u64>(&measure, None),
            (Self::Whole(count), false) => to.encode_gauge(&count),
            (Self::Real(measure), false) => to.encode_gauge(&measure),
        }
    }
}

/// One metric and its values, one per label set. `values` is never empty for metrics without labels.
#[derive(Debug)]
struct Sample {
    name: String,
    help: String,
    is_counter: bool,
    values: Vec<(Labels, Value)>,
}

impl Sample {
    /// Returns a gauge without labels. Callers with labels replace `values`.
    fn gauge(name: &str, help: &str, value: impl Into<Value>) -> Self {
        let values = vec![(Vec::new(), value.into())];
        Self { name: name.to_owned(), help: help.to_owned(), is_counter: false, values }
    }

    /// Returns a counter. The name has no `_total`, which the format adds.
    fn counter(name: &str, help: &str, value: impl Into<Value>) -> Self {
        Self { is_counter: true, ..Self::gauge(name, help, value) }
    }
}

/// A collector of samples that were taken before. Encoding must not wait, so nothing is sampled while it runs.
#[derive(Debug)]
struct Samples(Vec<Sample>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for Sample { name, help, is_counter, values } in &self.0 {
            let kind = if *is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in values {
                if labels.is_empty() {
                    value.encode(&mut metric, *is_counter)?;
                } else {
                    value.encode(&mut metric.encode_family(labels)?, *is_counter)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns all metrics as `OpenMetrics` text.
///
/// The text is the response of `/metrics`, and the input of the OTLP export, so both have the same values. Must
/// be called inside a runtime, whose tasks are counted.
pub(crate) fn render(metrics: &Metrics, live: &LiveSources<'_>) -> String {
    let mut own = Registry::with_prefix(PREFIX);
    own.register_collector(Box::new(Samples(own_samples(live))));
    let mut process = Registry::default();
    // Metrics of the process have no prefix: dashboards expect `process_resident_memory_bytes` of any program.
    let of_process = process::samples()
        .into_iter()
        .map(|(name, help, is_counter, value)| Sample { is_counter, ..Sample::gauge(name, help, value) });
    process.register_collector(Box::new(Samples(of_process.collect())));
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for registry in [metrics.registry(), &own, &process] {
        encode_registry(&mut text, registry).ok();
    }
    encode_eof(&mut text).ok();
    text
}

/// Returns the samples with the prefix of the gateway.
fn own_samples(live: &LiveSources<'_>) -> Vec<Sample> {
    let runs = live.runs.metrics();
    // A gauge of all tasks of the process: a leak of tasks shows here first.
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let mut samples = vec![
        Sample { values: vec![(version, true.into())], ..Sample::gauge("build_info", "The program.", true) },
        Sample::gauge("runs_active", "Runs under way.", runs.active()),
        Sample::gauge("watchers", "Watchers of runs that this replica drives.", live.runs.watchers()),
        Sample::gauge("leases_held", "Leases that this replica holds.", live.runs.leases()),
        Sample::gauge("draining", "1 while the replica takes no new runs.", live.runs.is_draining()),
        Sample::counter("events", "Canonical events logged.", runs.events()),
        Sample::counter("resumes", "Watchers that came to a run that had begun.", runs.resumes()),
        Sample::counter("runs_taken_over", "Runs of lost replicas that went on here.", runs.taken_over()),
        Sample::counter("auth_denied", "Requests without a good token.", runs.denied()),
        Sample::gauge("tasks", "Tasks of the runtime that are alive.", tasks),
        Sample::gauge(
            "bodies_in_flight_bytes",
            "Bytes of request bodies that were received and not yet answered.",
            live.quotas.bodies(),
        ),
        quota_refusals(live),
        ended(live),
    ];
    samples.extend(of_transports(live.transports));
    samples.extend(of_log(live));
    samples.extend(of_agents(&live.agents));
    samples
}

/// Samples the circuits and connections of remote agents. Returns nothing without remote agents, so that no
/// metric without values is written.
fn of_agents(agents: &[(String, AgentHealth)]) -> Vec<Sample> {
    type Read = fn(&AgentHealth) -> Value;
    let sample = |name: &str, help: &str, is_counter: bool, value: Read| {
        // One value per agent. All metrics of agents have the same label, so that they can be joined.
        let values = agents.iter().map(|(agent, health)| (vec![("agent", agent.clone())], value(health)));
        Sample { name: name.to_owned(), help: help.to_owned(), is_counter, values: values.collect() }
    };
    if agents.is_empty() {
        return Vec::new();
    }
    vec![
        sample(
            "upstream_up",
            "0 while an agent is not called because its last calls failed.",
            false,
            |health| health.is_available.into(),
        ),
        sample("upstream_in_flight", "Calls and streams of an agent that are open.", false, |health| {
            health.in_flight.into()
        }),
        sample(
            "upstream_connects",
            "Connections made to an agent; its other calls used one again.",
            true,
            |health| health.connects.into(),
        ),
        sample("upstream_connect_retries", "Connects to an agent that were tried again.", true, |health| {
            health.retries.into()
        }),
        sample("upstream_circuit_opened", "Times that an agent was given up for a while.", true, |health| {
            health.circuit_opened.into()
        }),
    ]
}

/// Samples the log: availability, latency, reconnects.
///
/// The latency is absent while the log does not respond: a zero would look like a fast log. Engines without a
/// server (memory, disk) report no reconnects.
fn of_log(live: &LiveSources<'_>) -> Vec<Sample> {
    let mut samples = vec![Sample::gauge("log_up", "1 if the run log answers.", live.log_latency.is_some())];
    if let Some(latency) = live.log_latency {
        let help = "How long the run log took to answer a check, made for this scrape.";
        samples.push(Sample::gauge("log_latency_seconds", help, latency.as_secs_f64()));
    }
    let help = "Connections to the server of the run log that broke and were made again.";
    samples.push(Sample::counter("log_reconnects", help, live.runs.run_log().reconnects().unwrap_or(0)));
    samples
}

/// Samples requests, runs and connections that a limit refused, on every surface; each limit counts its own.
///
/// Every limit has a value from the start, so that alerts on a rate work before the first refusal.
fn quota_refusals(live: &LiveSources<'_>) -> Sample {
    let help = "Requests, runs and connections refused with 429 or its like, by the name of the limit.";
    let (of_servers, of_runs) = (live.quotas.refusals(), live.runs.refusals());
    let count =
        |limit: &str| of_servers.get(limit).copied().unwrap_or(0) + of_runs.get(limit).copied().unwrap_or(0);
    let values = LIMITS.iter().map(|limit| (vec![("limit", (*limit).to_owned())], count(limit).into()));
    Sample { values: values.collect(), ..Sample::counter("quota_refusals", help, false) }
}

/// Samples the runs that ended, by agent and outcome. The engine bounds the number of outcomes per agent.
fn ended(live: &LiveSources<'_>) -> Sample {
    let help = "Runs that ended, by agent, and by outcome or the code of their failure.";
    let by_agent = live.runs.metrics().ended().by_agent;
    let values = by_agent.iter().flat_map(|(agent, outcomes)| {
        outcomes.iter().map(|(outcome, ended)| {
            (vec![("agent", agent.clone()), ("outcome", outcome.clone())], (*ended).into())
        })
    });
    Sample { values: values.collect(), ..Sample::counter("runs_ended", help, false) }
}

/// Samples the counters of all transports as `<transport>_<count>`; those of several servers of one transport are
/// added.
fn of_transports(transports: &[(&'static str, Counters)]) -> Vec<Sample> {
    let mut sums: BTreeMap<String, (&'static str, bool, u64)> = BTreeMap::new();
    for (transport, counters) in transports {
        for sample in counters.samples() {
            // Transports name counters with `_total`; the encoder would append it a second time.
            let name = format!("{transport}_{}", sample.name.trim_end_matches("_total"));
            let sum = sums.entry(name).or_insert((sample.help, !sample.is_gauge, 0));
            sum.2 += sample.value;
        }
    }
    let stalls = transports.iter().map(|(_, counters)| counters.total(Total::WriteStalls)).sum::<u64>();
    let slow = "Readers that took nothing for too long.";
    let sums = sums
        .into_iter()
        .map(|(name, (help, is_counter, value))| Sample { is_counter, ..Sample::gauge(&name, help, value) });
    sums.chain([Sample::counter("slow_reader_disconnects", slow, stalls)]).collect()
}
