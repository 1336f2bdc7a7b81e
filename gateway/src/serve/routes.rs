//! The routes: one table, from which the router is built and over which the tests of the walls run.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::RunId;
use aqueduct_core::service::RunService as _;
use aqueduct_transport_grpc::unimplemented;
use aqueduct_transport_http::{EventPosition, Refusal, StreamOptions, caller, stream_response, watch_run};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{RequestExt as _, Router};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::a2a::A2aServers;
use super::{TransportCounters, agui, inspector, proxy, threads};
use crate::config::Config;
use crate::service::{Gateway, GatewayService};

/// What stands before a route, beside the walls that stand before all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it tells nothing about agents or runs.
    Public,
    /// A token, if the agent wants one.
    Agent,
    /// The token of whoever started the run.
    Run,
    /// The same for a thread, which is its runs.
    Thread,
    /// A token, if every agent wants one; what it shows depends on it.
    List,
    /// As [`Access::Agent`], said as a status of gRPC.
    Grpc,
    /// Anybody may connect; every request on the connection is asked for its token.
    Socket,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// With `{name}` for an agent, `{run}` for a run, `{thread}` for a thread and `{*call}` for what an agent protocol
    /// has below its mount.
    pub path: &'static str,
    /// Who gets in.
    pub access: Access,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Healthy,
    Ready,
    Metrics,
    Agents,
    Start,
    /// Of the WebSocket endpoint.
    Socket,
    Watch,
    Cancel,
    Thread,
    /// Of the gRPC services.
    Grpc,
    A2a,
    Inspector(inspector::Part),
}

const fn route(method: &'static str, path: &'static str, access: Access, kind: Kind) -> Route {
    Route { method, path, access, kind }
}

/// Every route there is. Those of the inspector answer only where the configuration wants it.
pub const ROUTES: &[Route] = &[
    route("GET", "/healthz", Access::Public, Kind::Healthy),
    route("GET", "/readyz", Access::Public, Kind::Ready),
    route("GET", "/metrics", Access::Public, Kind::Metrics),
    route("GET", "/agents", Access::List, Kind::Agents),
    route("POST", "/agents/{name}", Access::Agent, Kind::Start),
    route("GET", "/ws", Access::Socket, Kind::Socket),
    route("GET", "/agents/{name}/ws", Access::Socket, Kind::Socket),
    route("GET", "/runs/{run}/events", Access::Run, Kind::Watch),
    route("POST", "/runs/{run}/cancel", Access::Run, Kind::Cancel),
    route("POST", "/a2a/{name}", Access::Agent, Kind::A2a),
    route("POST", "/a2a/{name}/", Access::Agent, Kind::A2a),
    route("GET", "/a2a/{name}/.well-known/agent-card.json", Access::Agent, Kind::A2a),
    route("GET", "/a2a/{name}/.well-known/agent.json", Access::Agent, Kind::A2a),
    route("GET", "/a2a/{name}/{*call}", Access::Agent, Kind::A2a),
    route("POST", "/a2a/{name}/{*call}", Access::Agent, Kind::A2a),
    route("DELETE", "/a2a/{name}/{*call}", Access::Agent, Kind::A2a),
    route("GET", "/threads/{thread}", Access::Thread, Kind::Thread),
    route("POST", "/aqueduct.v1.AgentStream/{method}", Access::Grpc, Kind::Grpc),
    route("POST", "/lf.a2a.v1.A2AService/{method}", Access::Grpc, Kind::Grpc),
    route("POST", "/a2a.v1.A2AService/{method}", Access::Grpc, Kind::Grpc),
    route("GET", "/inspector", Access::Public, Kind::Inspector(inspector::Part::Page)),
    route("GET", "/inspector/{file}", Access::Public, Kind::Inspector(inspector::Part::File)),
    route("GET", "/inspector/runs", Access::List, Kind::Inspector(inspector::Part::Runs)),
    route("POST", "/inspector/convert", Access::List, Kind::Inspector(inspector::Part::Convert)),
    route("POST", "/inspector/verify", Access::List, Kind::Inspector(inspector::Part::Verify)),
];

#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) gateway: Arc<Gateway>,
    pub(super) service: Arc<GatewayService>,
    counters: Arc<TransportCounters>,
    a2a: A2aServers,
    pub(super) inspector: inspector::Work,
}

/// The router of all routes but those of WebSocket and gRPC, which their transports bring, without admission.
pub(crate) fn router(
    gateway: &Arc<Gateway>,
    service: &Arc<GatewayService>,
    counters: TransportCounters,
    a2a: &A2aServers,
) -> Router {
    let shared = Shared {
        gateway: Arc::clone(gateway),
        service: Arc::clone(service),
        counters: Arc::new(counters),
        a2a: a2a.clone(),
        inspector: inspector::Work::default(),
    };
    let config = &*gateway.config();
    let mut router = Router::new();
    for route in ROUTES {
        let is_inspector = matches!(route.kind, Kind::Inspector(_));
        if is_inspector && !config.inspector.enabled {
            continue;
        }
        let handler = match route.kind {
            Kind::Healthy => get(healthy),
            Kind::Ready => get(readiness),
            Kind::Metrics => get(metrics),
            Kind::Agents => get(agents),
            Kind::Start => post(start),
            Kind::Socket | Kind::Grpc => continue,
            Kind::Watch => get(watch),
            Kind::Cancel => post(cancel),
            Kind::Thread => get(thread),
            Kind::A2a => match route.method {
                "GET" => get(a2a_call),
                "DELETE" => delete(a2a_call),
                _ => post(a2a_call),
            },
            Kind::Inspector(part) => inspector::handler(part),
        };
        let longest = if is_inspector { config.inspector.trace } else { config.server.body };
        let handler = if longest < longest_body(config) {
            handler.layer(map_request(move |request| ready(limit_body(request, longest))))
        } else {
            handler
        };
        router = router.route(route.path, handler);
    }
    router.fallback(elsewhere).with_state(shared)
}

/// The longest body of any route: what the server takes at all.
pub(super) fn longest_body(config: &Config) -> usize {
    let of_inspector = if config.inspector.enabled { config.inspector.trace } else { 0 };
    config.server.body.max(of_inspector)
}

/// A route whose bodies may be shorter than those of another.
fn limit_body(mut request: Request, longest: usize) -> Request {
    DefaultBodyLimit::max(longest).apply(&mut request);
    request.with_limited_body()
}

pub(super) fn stream_options(gateway: &Gateway) -> StreamOptions {
    StreamOptions { ids: true, merge_bytes: gateway.config().server.merge, ..StreamOptions::default() }
}

pub(super) fn json(value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn healthy() -> Response {
    json(&json!({ "status": "ok" }))
}

/// How long the log may take to answer before the gateway calls itself unready.
const READY_WITHIN: Duration = Duration::from_secs(1);

async fn readiness(State(shared): State<Shared>) -> Response {
    if shared.gateway.is_draining() {
        let message = "the gateway is stopping";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).into_response();
    }
    // Who asks waits a second or two; a log that takes longer is no use either.
    let checked = tokio::time::timeout(READY_WITHIN, shared.gateway.log().check()).await;
    let trouble = match checked {
        Ok(Ok(())) => return json(&json!({ "status": "ready" })),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the run log does not answer within {READY_WITHIN:?}"),
    };
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", trouble).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let text = shared.gateway.metrics().render(shared.gateway.runs().metrics(), &shared.counters, tasks);
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn agents(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match shared.service.list_agents(&caller(&parts)).await {
        Ok(agents) => {
            let list: Vec<_> = agents
                .iter()
                .map(|agent| {
                    let url = format!("/agents/{}", agent.name);
                    json!({ "name": agent.name, "description": agent.description, "url": url })
                })
                .collect();
            json(&json!({ "agents": list }))
        }
        Err(error) => Refusal::from(error).into_response(),
    }
}

async fn start(State(shared): State<Shared>, Path(name): Path<String>, request: Request) -> Response {
    let (runs, protocol) = (shared.gateway.runs(), agui::protocol(&shared.gateway));
    aqueduct::agui::start(runs, &protocol, &name, request, &stream_options(&shared.gateway)).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchQuery {
    /// Only events with higher numbers.
    after: Option<u64>,
    /// The AG-UI version that the watcher reads.
    protocol_version: Option<String>,
}

async fn watch(
    State(shared): State<Shared>,
    Path(run): Path<String>,
    query: Result<Query<WatchQuery>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(query)) = query else {
        return Refusal::invalid("`after` is the number of an event").into_response();
    };
    let run = RunId::from(run);
    let (parts, _) = request.into_parts();
    let agent = shared.gateway.agent_of(&run).await.unwrap_or_default();
    let encoder = Box::new(agui::encoder(&agent, query.protocol_version.as_deref(), &parts.headers));
    let Some(after) = query.after.filter(|_| !parts.headers.contains_key("last-event-id")) else {
        return watch_run(&*shared.service, &run, &parts, encoder, &stream_options(&shared.gateway)).await;
    };
    match shared.service.watch(&caller(&parts), &run, after).await {
        Ok(events) => {
            let position = EventPosition { run, number: after, payloads: 0 };
            stream_response(&position, events, encoder, &stream_options(&shared.gateway))
        }
        Err(error) => Refusal::from(error).into_response(),
    }
}

async fn cancel(State(shared): State<Shared>, Path(run): Path<String>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match shared.service.cancel(&caller(&parts), &RunId::from(run)).await {
        Ok(cancelled) => json(&json!({ "cancelled": cancelled })),
        Err(error) => Refusal::from(error).into_response(),
    }
}

async fn a2a_call(
    State(shared): State<Shared>,
    Path(path): Path<HashMap<String, String>>,
    request: Request,
) -> Response {
    let name = path.get("name").map(String::as_str).unwrap_or_default();
    match shared.gateway.agent(name).and_then(proxy::Passable::of) {
        Some(agent) => proxy::pass(&shared.gateway, &shared.a2a, &agent, request).await,
        None => proxy::serve(&shared.gateway, &shared.a2a, name, request).await,
    }
}

async fn thread(
    State(shared): State<Shared>,
    Path(thread): Path<String>,
    Query(query): Query<ThreadQuery>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let (declared, thread) = (query.protocol_version.as_deref(), thread.into());
    let restated = threads::restate(&shared.gateway, &shared.service, &thread, declared, &parts);
    restated.await.unwrap_or_else(IntoResponse::into_response)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThreadQuery {
    /// The AG-UI version that the watcher reads.
    protocol_version: Option<String>,
}

/// What is on no route: an A2A agent at `/`, if there is one.
async fn elsewhere(State(shared): State<Shared>, request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return unimplemented().await;
    }
    if let Some(name) = shared.a2a.root() {
        return shared.a2a.answer(name, request).await;
    }
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here: see GET /agents").into_response()
}
