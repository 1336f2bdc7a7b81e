//! [`Metrics`]: the counters and histograms of the gateway.
//!
//! Every name is defined once, here or in [`live`](super::live); the dashboard and the alert rules of `deploy/` use the
//! same names, which a test compares.
//!
//! | kind | written by | when |
//! |---|---|---|
//! | runs, lanes, tool calls, tokens | `RunMeter` | per batch of events of a run |
//! | upstream | `UpstreamWatch` | per call to a remote agent |
//! | requests, refusals, dialects | the servers of the gateway | per request |
//! | tee | the A2A proxy and the lanes of sub-agents | per forwarded call |
//!
//! The format appends `_total` to the names of counters. Cardinality is bounded by the configuration: see the
//! invariants of [`telemetry`](super).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::config::RelateBy;

/// The prefix of all names.
pub(super) const PREFIX: &str = "aqueduct";

/// Buckets for durations of microseconds to seconds: appends, look-ups, connects, the delay in the gateway.
const SHORT: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Buckets for durations of agents: from the first event after some milliseconds to a run of an hour.
const LONG: [f64; 15] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// Returns a histogram with [`SHORT`] buckets. A function, because a `Family` needs a constructor for new
/// labels.
fn short() -> Histogram {
    Histogram::new(SHORT)
}

/// Returns a histogram with [`LONG`] buckets.
fn long() -> Histogram {
    Histogram::new(LONG)
}

/// Histograms by labels, created at the first observation with these labels.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The label set of values per agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AgentLabels {
    /// The key of the agent in the configuration, never a name that a caller sent.
    pub(crate) agent: String,
}

/// The agent, and an outcome. The outcome is a constant of this program (`success`, `failed`, a failure code).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub(crate) agent: String,
    pub(crate) outcome: &'static str,
}

/// The agent, and the surface by which it was called: `agui`, `a2a`, `ws`, …; `takeover` and `internal` for
/// runs without a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StartLabels {
    pub(crate) agent: String,
    pub(crate) surface: &'static str,
}

/// Surface, agent and HTTP status of a request. The agent is empty for requests that name no configured agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) surface: &'static str,
    pub(crate) agent: String,
    pub(crate) status: u16,
}

/// Surface and code of a refusal. Codes are constants of the protocols and of this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RefusalLabels {
    pub(crate) surface: &'static str,
    pub(crate) code: String,
}

/// The protocol dialect that a client requested, so that operators see when an old dialect is no longer used.
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

/// The kind of relation key that related a forwarded call to a run: one of [`RELATIONS`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RelationLabels {
    relation: &'static str,
}

/// Declares [`Metrics`]: each field with its type, its name and help text at `/metrics`, and the constructor of types
/// that have no default.
macro_rules! metrics {
    ($( $(#[$about:meta])* $vis:vis $field:ident: $type:ty = $name:literal, $help:literal $(, $new:expr)?; )+) => {
        /// All counters and histograms. Fields are cheap to clone and share their values with the registry.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            /// Contains a clone of every field below under its name.
            registry: Registry,
            $( $(#[$about])* $vis $field: $type, )+
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix(PREFIX);
                $(
                    let $field: $type = metrics!(@new $($new)?);
                    registry.register($name, $help, $field.clone());
                )+
                let metrics = Self { registry, $( $field, )+ };
                metrics.create_relations();
                metrics
            }
        }
    };
    (@new $new:expr) => { $new };
    (@new) => { Default::default() };
}

metrics! {
    /// Counted when a run is attached, also by a takeover.
    pub(crate) runs_started: Family<StartLabels, Counter> =
        "runs_started", "Runs started, by agent and surface";
    /// Observed once per run at this replica, also if another replica takes the run over.
    pub(crate) run_duration: Histograms<AgentLabels> =
        "run_duration_seconds", "How long runs took, by agent", Family::new_with_constructor(long);
    /// From the start of a run to the first event other than `RunStarted`.
    pub(crate) first_event: Histograms<AgentLabels> =
        "time_to_first_event_seconds", "From the start of a run to the first event of its agent",
        Family::new_with_constructor(long);
    /// The gateway's own share of the latency, without agent and network.
    pub(crate) event_delay: Histogram =
        "event_delay_seconds",
        "From the arrival of an event in the gateway to its place in the log, where watchers read it", short();
    pub(crate) log_append: Histogram =
        "log_append_seconds", "How long the run log took to append events", short();
    /// Open lanes of runs that this replica drives. A run that ends subtracts the lanes it left open.
    pub(crate) lanes_open: Gauge = "lanes_open", "Sub-agents at work in runs of this replica";
    pub(crate) lanes: Family<OutcomeLabels, Counter> =
        "lanes", "Sub-agents that ended, by agent of the run";
    pub(crate) tool_calls: Family<OutcomeLabels, Counter> =
        "tool_calls", "Tool calls that were answered, by agent of the run";
    /// Counted when an interrupt is requested, whether or not a reply arrives.
    pub(crate) interrupts: Family<AgentLabels, Counter> = "interrupts", "Questions to humans, by agent";
    /// Sums of what agents reported at the end of their runs; agents that report nothing count nothing.
    pub(crate) tokens: Family<TokenLabels, Counter> = "tokens", "Tokens of models, as agents reported them";
    /// Successful look-ups only.
    pub(crate) upstream_lookup: Histograms<AgentLabels> =
        "upstream_lookup_seconds", "How long the addresses of agents' names took to be found",
        Family::new_with_constructor(short);
    pub(crate) upstream_lookups: Family<OutcomeLabels, Counter> =
        "upstream_lookups",
        "Look-ups of agents' names, by what they came to; connections that are used again need none";
    pub(crate) upstream_connect: Histograms<AgentLabels> =
        "upstream_connect_seconds", "How long connections to agents took: name, connection and TLS",
        Family::new_with_constructor(short);
    /// From the request to the response head, not to the end of the stream.
    pub(crate) upstream_answer: Histograms<AgentLabels> =
        "upstream_answer_seconds", "From a call to an agent to the head of its answer",
        Family::new_with_constructor(long);
    pub(crate) upstream_calls: Family<OutcomeLabels, Counter> =
        "upstream_calls", "Calls to agents that are over, by what they came to";
    pub(crate) requests: Family<RequestLabels, Counter> =
        "requests", "Requests answered, by surface, agent and status of HTTP";
    pub(crate) refusals: Family<RefusalLabels, Counter> =
        "refusals", "Requests refused, by surface and code of the refusal";
    pub(crate) dialects: Family<DialectLabels, Counter> =
        "dialects", "Streams and calls, by the version of the protocol that the client reads";
    tee_calls: Family<RelationLabels, Counter> =
        "tee_calls", "Calls passed through to A2A agents, by what related them to a run";
    lane_events_dropped: Counter =
        "tee_events_dropped",
        "Events of sub-agents that their run did not take: it had ended, or its log was too slow";
}

/// The kinds of [`RelateBy`] in their order, and `none` for unrelated calls. [`Metrics::passed`] uses the
/// discriminant of `RelateBy` as the index, so the order must be the same.
const RELATIONS: [&str; 4] = ["token", "trace", "context", "none"];

impl Metrics {
    /// Creates the counters of forwarded calls at zero, so that rates and alerts exist before the first call.
    fn create_relations(&self) {
        for relation in RELATIONS {
            drop(self.tee_calls.get_or_create(&RelationLabels { relation }));
        }
    }

    /// Returns the registry for `live::render`.
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
