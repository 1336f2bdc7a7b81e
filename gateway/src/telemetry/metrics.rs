//! [`Metrics`]: the counters and histograms of the gateway.
//!
//! Every name is defined once, here or in [`live`](super::live); the dashboard and the alert rules of `deploy/` use the
//! same names, which a test compares.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::config::RelateBy;

/// The prefix of all names.
pub(super) const PREFIX: &str = "aqueduct";

/// Buckets for durations of microseconds to seconds: appends, connects, the delay in the gateway.
const SHORT: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Buckets for durations of agents: from the first event after some milliseconds to a run of an hour.
const LONG: [f64; 15] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

fn short() -> Histogram {
    Histogram::new(SHORT)
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

/// Histograms by labels.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The agent, which is one of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AgentLabels {
    pub(crate) agent: String,
}

/// The agent, and an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub(crate) agent: String,
    pub(crate) outcome: &'static str,
}

/// The agent, and the surface by which it was called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StartLabels {
    pub(crate) agent: String,
    pub(crate) surface: &'static str,
}

/// Surface, agent and status of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) surface: &'static str,
    pub(crate) agent: String,
    pub(crate) status: u16,
}

/// Surface and code of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RefusalLabels {
    pub(crate) surface: &'static str,
    pub(crate) code: String,
}

/// The protocol dialect that a client requested.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DialectLabels {
    pub(crate) protocol: &'static str,
    pub(crate) dialect: &'static str,
}

/// The agent, and whether model tokens were input or output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TokenLabels {
    pub(crate) agent: String,
    pub(crate) direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RelationLabels {
    relation: &'static str,
}

/// All counters and histograms. Fields are cheap to clone and share their values with the registry.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) runs_started: Family<StartLabels, Counter>,
    pub(crate) run_duration: Histograms<AgentLabels>,
    pub(crate) first_event: Histograms<AgentLabels>,
    pub(crate) event_delay: Histogram,
    pub(crate) log_append: Histogram,
    pub(crate) lanes_open: Gauge,
    pub(crate) lanes: Family<OutcomeLabels, Counter>,
    pub(crate) tool_calls: Family<OutcomeLabels, Counter>,
    pub(crate) interrupts: Family<AgentLabels, Counter>,
    pub(crate) tokens: Family<TokenLabels, Counter>,
    pub(crate) upstream_lookup: Histograms<AgentLabels>,
    pub(crate) upstream_lookups: Family<OutcomeLabels, Counter>,
    pub(crate) upstream_connect: Histograms<AgentLabels>,
    pub(crate) upstream_answer: Histograms<AgentLabels>,
    pub(crate) upstream_calls: Family<OutcomeLabels, Counter>,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) refusals: Family<RefusalLabels, Counter>,
    pub(crate) dialects: Family<DialectLabels, Counter>,
    tee_calls: Family<RelationLabels, Counter>,
    lane_events_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            runs_started: Family::default(),
            run_duration: Family::new_with_constructor(long),
            first_event: Family::new_with_constructor(long),
            event_delay: short(),
            log_append: short(),
            lanes_open: Gauge::default(),
            lanes: Family::default(),
            tool_calls: Family::default(),
            interrupts: Family::default(),
            tokens: Family::default(),
            upstream_lookup: Family::new_with_constructor(short),
            upstream_lookups: Family::default(),
            upstream_connect: Family::new_with_constructor(short),
            upstream_answer: Family::new_with_constructor(long),
            upstream_calls: Family::default(),
            requests: Family::default(),
            refusals: Family::default(),
            dialects: Family::default(),
            tee_calls: Family::default(),
            lane_events_dropped: Counter::default(),
        };
        for relation in RELATIONS {
            drop(metrics.tee_calls.get_or_create(&RelationLabels { relation }));
        }
        metrics.register_runs();
        metrics.register_upstream();
        metrics.register_requests();
        metrics
    }
}

/// The kinds of [`RelateBy`] in their order, and `none` for unrelated calls.
const RELATIONS: [&str; 4] = ["token", "trace", "context", "none"];

impl Metrics {
    fn register_runs(&mut self) {
        let registry = &mut self.registry;
        registry.register("runs_started", "Runs started, by agent and surface", self.runs_started.clone());
        registry.register("run_duration_seconds", "How long runs took, by agent", self.run_duration.clone());
        registry.register(
            "time_to_first_event_seconds",
            "From the start of a run to the first event of its agent",
            self.first_event.clone(),
        );
        registry.register(
            "event_delay_seconds",
            "From the arrival of an event in the gateway to its place in the log, where watchers read it",
            self.event_delay.clone(),
        );
        registry.register(
            "log_append_seconds",
            "How long the run log took to append events",
            self.log_append.clone(),
        );
        registry.register(
            "lanes_open",
            "Sub-agents at work in runs of this replica",
            self.lanes_open.clone(),
        );
        registry.register("lanes", "Sub-agents that ended, by agent of the run", self.lanes.clone());
        registry.register(
            "tool_calls",
            "Tool calls that were answered, by agent of the run",
            self.tool_calls.clone(),
        );
        registry.register("interrupts", "Questions to humans, by agent", self.interrupts.clone());
        registry.register("tokens", "Tokens of models, as agents reported them", self.tokens.clone());
    }

    fn register_upstream(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "upstream_lookup_seconds",
            "How long the addresses of agents' names took to be found",
            self.upstream_lookup.clone(),
        );
        registry.register(
            "upstream_lookups",
            "Look-ups of agents' names, by what they came to; connections that are used again need none",
            self.upstream_lookups.clone(),
        );
        registry.register(
            "upstream_connect_seconds",
            "How long connections to agents took: name, connection and TLS",
            self.upstream_connect.clone(),
        );
        registry.register(
            "upstream_answer_seconds",
            "From a call to an agent to the head of its answer",
            self.upstream_answer.clone(),
        );
        registry.register(
            "upstream_calls",
            "Calls to agents that are over, by what they came to",
            self.upstream_calls.clone(),
        );
    }

    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "requests",
            "Requests answered, by surface, agent and status of HTTP",
            self.requests.clone(),
        );
        registry.register(
            "refusals",
            "Requests refused, by surface and code of the refusal",
            self.refusals.clone(),
        );
        registry.register(
            "dialects",
            "Streams and calls, by the version of the protocol that the client reads",
            self.dialects.clone(),
        );
        registry.register(
            "tee_calls",
            "Calls passed through to A2A agents, by what related them to a run",
            self.tee_calls.clone(),
        );
        registry.register(
            "tee_events_dropped",
            "Events of sub-agents that their run did not take: it had ended, or its log was too slow",
            self.lane_events_dropped.clone(),
        );
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts a forwarded call, and how it was related to a run.
    pub(crate) fn passed(&self, relation: Option<RelateBy>) {
        let place = relation.map_or(RELATIONS.len() - 1, |way| way as usize);
        if let Some(relation) = RELATIONS.get(place) {
            self.tee_calls.get_or_create(&RelationLabels { relation }).inc();
        }
    }

    /// Counts an event of a sub-agent that its run did not accept.
    pub(crate) fn lane_event_dropped(&self) {
        self.lane_events_dropped.inc();
    }

    /// Counts a stream or a call by the protocol version that its client requested.
    pub(crate) fn count_dialect(&self, protocol: &'static str, dialect: &'static str) {
        self.dialects.get_or_create(&DialectLabels { protocol, dialect }).inc();
    }
}
