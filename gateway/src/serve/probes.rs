//! Probes and metrics: `/healthz`, `/readyz` and `/metrics`, on the main port or on a port of their own
//! (`server.admin`).
//!
//! | route | `Host` | with `server.admin` |
//! |---|---|---|
//! | `/healthz`, `/readyz` | any: a kubelet uses the address of the pod | on both ports |
//! | `/metrics` | a name of the server, or an IP address | on the port of `server.admin` alone, any `Host` |
//! | `/readyz?verbose` | any; `verbose` is ignored | on the port of `server.admin`, with every agent |
//!
//! A host name that is not configured may be the name of a foreign page that resolves to this address (DNS rebinding),
//! and metrics contain names of agents. An IP address cannot be rebound. These routes neither start nor show runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct::remote::AgentHealth;
use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Quotas, Refusal};
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::TransportCounters;
use super::routes::json;
use crate::service::Gateway;
use crate::telemetry::{LiveSources, MetricsExport, render};

/// The response time of the log above which the gateway reports itself as unready.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// The timeout of the last export of metrics when the gateway stops.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The state that the probes read. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Probes {
    pub(super) gateway: Arc<Gateway>,
    /// Counters of all servers, read when metrics are rendered.
    pub(super) counters: Arc<TransportCounters>,
    pub(super) quotas: Quotas,
}

impl Probes {
    /// Returns the routes that accept any host: all of them on a port of their own.
    pub(super) fn open_routes(&self, is_admin: bool) -> Router {
        let router = Router::new().route("/healthz", get(healthy));
        if is_admin {
            let router = router.route("/readyz", get(readiness)).route("/metrics", get(metrics));
            router.fallback(elsewhere).with_state(self.clone())
        } else {
            router.route("/readyz", get(plain_readiness)).with_state(self.clone())
        }
    }

    /// Returns the routes behind the admission of the main port; none if there is a port of their own.
    pub(super) fn walled_routes(&self) -> Router {
        let has_admin = !self.gateway.config().server.admin.is_empty();
        let router = if has_admin { Router::new() } else { Router::new().route("/metrics", get(metrics)) };
        router.with_state(self.clone())
    }

    /// Returns all metrics as `OpenMetrics` text, with the response time of the log measured now. If the log does not
    /// respond within [`READY_WITHIN`], that one value is missing.
    async fn render(&self) -> String {
        let log_latency = self.check_log().await.ok();
        let (gateway, transports) = (&self.gateway, &self.counters);
        let (runs, agents) = (gateway.runs(), gateway.remote_agents());
        let live = LiveSources { runs, transports, quotas: &self.quotas, agents, log_latency };
        render(gateway.metrics(), &live)
    }

    /// Exports metrics at the configured interval until `stop`, and their last values then. A slow collector delays the
    /// next export instead of queueing exports.
    pub(super) async fn export_metrics(self, export: MetricsExport, stop: CancelToken) {
        let mut ticks = tokio::time::interval(export.every());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                _ = ticks.tick() => false,
            };
            let sent = async { export.send(&self.render().await).await };
            if is_last {
                // A collector that does not respond does not delay the stop.
                tokio::time::timeout(LAST_EXPORT, sent).await.ok();
                return;
            }
            sent.await;
        }
    }

    /// Reads from the log. Returns the response time, or the reason why the log cannot be used now.
    async fn check_log(&self) -> Result<Duration, String> {
        let begun_at = Instant::now();
        match tokio::time::timeout(READY_WITHIN, self.gateway.log().check()).await {
            Ok(Ok(())) => Ok(begun_at.elapsed()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the run log does not answer within {READY_WITHIN:?}")),
        }
    }
}

/// `/healthz`: the process handles requests. It does not check the log, because a restart would not repair the log.
async fn healthy() -> Response {
    json(&json!({ "status": "ok" }))
}

/// `/readyz` without details: 200, or 503 with the reason.
async fn plain_readiness(State(probes): State<Probes>) -> Response {
    match is_ready(&probes).await {
        Ok(()) => json(&json!({ "status": "ready" })),
        Err(trouble) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", trouble).into_response(),
    }
}

/// Returns the reason if no new runs should be sent to this gateway: it is stopping, or its log does not respond.
async fn is_ready(probes: &Probes) -> Result<(), String> {
    if probes.gateway.runs().is_draining() {
        return Err("the gateway is stopping".to_owned());
    }
    probes.check_log().await.map(drop)
}

/// The query of `/readyz` on the port of `server.admin`.
#[derive(Debug, Deserialize)]
struct ReadinessQuery {
    /// Set to include the agents.
    verbose: Option<String>,
}

/// `/readyz` on the port of `server.admin`. With `verbose`:
///
/// ```text
/// {"status":"ready","version":"…","draining":false,"runs":2,"agents":{"team":{"status":"ok","inFlight":1,…}}}
/// ```
async fn readiness(State(probes): State<Probes>, Query(query): Query<ReadinessQuery>) -> Response {
    if query.verbose.is_none() {
        return plain_readiness(State(probes)).await;
    }
    let ready = is_ready(&probes).await;
    let mut report = json!({
        "status": if ready.is_ok() { "ready" } else { "unavailable" },
        "version": env!("CARGO_PKG_VERSION"),
        "draining": probes.gateway.runs().is_draining(),
        "runs": probes.gateway.runs().active_runs(),
        "agents": agents(&probes.gateway),
    });
    if let (Err(trouble), Some(report)) = (&ready, report.as_object_mut()) {
        report.insert("reason".to_owned(), trouble.clone().into());
    }
    let mut response = json(&report);
    if ready.is_err() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Returns the agents with the results of their last calls. An agent that is down does not make the gateway unready: a
/// restart of the gateway would not help the agent, and other agents would lose their runs.
fn agents(gateway: &Gateway) -> Value {
    let mut names = gateway.agent_names();
    names.sort_unstable();
    let agents = names.into_iter().map(|name| {
        let health = health_of(gateway, &name);
        (name, health)
    });
    Value::Object(agents.collect())
}

/// Returns the result of the last calls to an agent. `local` for an agent that is not remote, and for an unknown name.
pub(super) fn health_of(gateway: &Gateway, agent: &str) -> Value {
    let health = gateway.agent(agent).and_then(|agent| agent.health());
    health.map_or_else(|| json!({ "status": "local" }), |health| shown(&health))
}

/// Returns the health as JSON. `unavailable`: the circuit is open, and calls are refused without being sent; `failing`:
/// the last calls failed; `unknown`: there was no call yet.
fn shown(health: &AgentHealth) -> Value {
    let status = match (health.is_available, health.failures, health.answered_ago) {
        (false, ..) => "unavailable",
        (true, 0, None) => "unknown",
        (true, 0, Some(_)) => "ok",
        (true, ..) => "failing",
    };
    json!({
        "status": status,
        "inFlight": health.in_flight,
        "failures": health.failures,
        "lastFailure": health.last_failure,
        "answeredSecondsAgo": health.answered_ago.map(|ago| ago.as_secs()),
        "calls": health.calls,
        "connects": health.connects,
    })
}

/// `/metrics`, for Prometheus.
async fn metrics(State(probes): State<Probes>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], probes.render().await).into_response()
}

/// Any other path on the port of `server.admin`: a request for an agent was sent to the wrong port.
async fn elsewhere() -> Response {
    let message = "this port answers GET /healthz, /readyz and /metrics alone: agents are at `server.listen`";
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message).into_response()
}
