//! What machines ask a gateway: `/healthz`, `/readyz` and `/metrics`, on the port of everything else or on one of its own
//! (`server.admin`).
//!
//! | route | `Host` | with `server.admin` |
//! |---|---|---|
//! | `/healthz`, `/readyz` | any: a kubelet asks by the pod's address | on both ports |
//! | `/metrics`, `/readyz?verbose` | a name of the server, or an IP address | on the port of `server.admin` alone, any `Host` |
//!
//! A name that is none of the server's may be a page's own name pointed here (DNS rebinding), and metrics name the agents.
//! An IP address cannot be rebound. Nothing here starts or shows a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct::remote::AgentHealth;
use aqueduct_transport_http::{Quotas, Refusal};
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::TransportCounters;
use super::routes::json;
use crate::service::Gateway;
use crate::telemetry::{LiveSources, render};

/// How long the log may take to answer before the gateway calls itself unready.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// What the probes look at.
#[derive(Debug, Clone)]
pub(super) struct Probes {
    pub(super) gateway: Arc<Gateway>,
    pub(super) counters: Arc<TransportCounters>,
    pub(super) quotas: Quotas,
}

impl Probes {
    /// The routes that answer under any host: of a port of their own, all of them.
    pub(super) fn open_routes(&self, is_admin: bool) -> Router {
        let router = Router::new().route("/healthz", get(healthy));
        if is_admin {
            let router = router.route("/readyz", get(readiness)).route("/metrics", get(metrics));
            router.fallback(elsewhere).with_state(self.clone())
        } else {
            router.route("/readyz", get(plain_readiness)).with_state(self.clone())
        }
    }

    /// The routes that stand behind the walls of the main port, unless there is a port for them.
    pub(super) fn walled_routes(&self) -> Router {
        let has_admin = !self.gateway.config().server.admin.is_empty();
        let router = if has_admin { Router::new() } else { Router::new().route("/metrics", get(metrics)) };
        router.with_state(self.clone())
    }

    /// Asks the log; returns how long it took.
    async fn check_log(&self) -> Result<Duration, String> {
        let begun_at = Instant::now();
        match tokio::time::timeout(READY_WITHIN, self.gateway.log().check()).await {
            Ok(Ok(())) => Ok(begun_at.elapsed()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the run log does not answer within {READY_WITHIN:?}")),
        }
    }
}

async fn healthy() -> Response {
    json(&json!({ "status": "ok" }))
}

async fn plain_readiness(State(probes): State<Probes>) -> Response {
    match is_ready(&probes).await {
        Ok(()) => json(&json!({ "status": "ready" })),
        Err(trouble) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", trouble).into_response(),
    }
}

async fn is_ready(probes: &Probes) -> Result<(), String> {
    if probes.gateway.is_draining() {
        return Err("the gateway is stopping".to_owned());
    }
    probes.check_log().await.map(drop)
}

#[derive(Debug, Deserialize)]
struct ReadinessQuery {
    /// Shows the agents too.
    verbose: Option<String>,
}

async fn readiness(State(probes): State<Probes>, Query(query): Query<ReadinessQuery>) -> Response {
    if query.verbose.is_none() {
        return plain_readiness(State(probes)).await;
    }
    let ready = is_ready(&probes).await;
    let mut report = json!({
        "status": if ready.is_ok() { "ready" } else { "unavailable" },
        "version": env!("CARGO_PKG_VERSION"),
        "draining": probes.gateway.is_draining(),
        "runs": probes.gateway.active_runs(),
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

/// The agents with what their last calls came to. An agent that is down does not make the gateway unready: restarting the
/// gateway would not help it, and the others would lose their runs.
fn agents(gateway: &Gateway) -> Value {
    let mut names = gateway.agent_names();
    names.sort_unstable();
    let agents = names.into_iter().map(|name| {
        let health = gateway.agent(&name).and_then(|agent| agent.health());
        (name, health.map_or_else(|| json!({ "status": "local" }), |health| shown(&health)))
    });
    Value::Object(agents.collect())
}

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

async fn metrics(State(probes): State<Probes>) -> Response {
    let log_latency = probes.check_log().await.ok();
    let (gateway, transports) = (&probes.gateway, &probes.counters);
    let (runs, agents) = (gateway.runs(), gateway.remote_agents());
    let live = LiveSources { runs, transports, quotas: &probes.quotas, agents, log_latency };
    let mut response = Response::new(Body::from(render(gateway.metrics(), &live)));
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn elsewhere() -> Response {
    let message = "this port answers GET /healthz, /readyz and /metrics alone: agents are at `server.listen`";
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message).into_response()
}
