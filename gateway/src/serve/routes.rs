//! The routes: one table, from which the router is built and over which the tests of access run.
//!
//! ```text
//! router ──┬ /agents, /runs, /threads      AG-UI      (`aqueduct::agui`)   body ≤ server.body
//!          ├ /a2a/{name}/…  ── proxied ──► A2A        (`aqueduct::a2a`)    body ≤ server.body
//!          ├ /inspector/…                  inspector                       body ≤ inspector.trace
//!          ├ /ws, /agents/{name}/ws        WebSocket  (`aqueduct::ws`)
//!          ├ /{service}/{method}           gRPC       (`aqueduct::grpc`)
//!          └ everything else               `elsewhere`: the A2A agent at `/`, the inspector, or 404
//! ```
//!
//! The surfaces build their own routes; the table describes them. A test compares both, so that no path exists whose
//! access is not tested.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use aqueduct::a2a::{Servers, WELL_KNOWN, look_up_uri, several_agents};
use aqueduct::grpc::unimplemented;
use aqueduct::ws;
use aqueduct_transport_http::{Refusal, StreamOptions};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{Next, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};
use axum::{RequestExt as _, Router};
use http::{StatusCode, header};

use super::{agui, inspector, proxy};
use crate::config::Config;
use crate::service::Gateway;

/// Access control of a route, beside admission by host and origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None, not even admission: the route only reports whether the gateway works.
    Probe,
    /// None: the route contains no data about runs.
    Public,
    /// A token, if the agent requires one.
    Agent,
    /// The proof of the principal that started the run.
    Run,
    /// As [`Access::Run`], for the runs of a thread.
    Thread,
    /// A token, if every agent requires one; the response depends on it.
    List,
    /// As [`Access::Agent`], refused with a gRPC status.
    Grpc,
    /// Any client may connect; every request on the connection is authenticated.
    Socket,
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The path, with `{name}` for an agent, `{run}` for a run, `{thread}` for a thread and `{*call}` for the paths of
    /// an agent protocol below its mount.
    pub path: &'static str,
    /// The access control of the route.
    pub access: Access,
    kind: Kind,
}

/// The part of the gateway that serves a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A route of the probes.
    Probe,
    Inspector(inspector::Part),
    /// A route of [`aqueduct::agui`], [`aqueduct::a2a`], [`aqueduct::ws`] or [`aqueduct::grpc`].
    Surface,
}

/// Returns one line of the table.
const fn route(method: &'static str, path: &'static str, access: Access, kind: Kind) -> Route {
    Route { method, path, access, kind }
}

/// All routes. Those of the inspector respond only if `inspector.enabled` is set.
pub const ROUTES: &[Route] = &[
    route("GET", "/healthz", Access::Probe, Kind::Probe),
    route("GET", "/readyz", Access::Probe, Kind::Probe),
    route("GET", "/metrics", Access::Public, Kind::Probe),
    route("GET", "/agents", Access::List, Kind::Surface),
    route("POST", "/agents/{name}", Access::Agent, Kind::Surface),
    route("GET", "/ws", Access::Socket, Kind::Surface),
    route("GET", "/agents/{name}/ws", Access::Socket, Kind::Surface),
    route("GET", "/runs/{run}/events", Access::Run, Kind::Surface),
    route("POST", "/runs/{run}/cancel", Access::Run, Kind::Surface),
    route("POST", "/a2a/{name}", Access::Agent, Kind::Surface),
    route("POST", "/a2a/{name}/", Access::Agent, Kind::Surface),
    route("GET", "/a2a/{name}/.well-known/agent-card.json", Access::Agent, Kind::Surface),
    route("GET", "/a2a/{name}/.well-known/agent.json", Access::Agent, Kind::Surface),
    route("GET", "/a2a/{name}/{*call}", Access::Agent, Kind::Surface),
    route("POST", "/a2a/{name}/{*call}", Access::Agent, Kind::Surface),
    route("DELETE", "/a2a/{name}/{*call}", Access::Agent, Kind::Surface),
    route("GET", "/threads/{thread}", Access::Thread, Kind::Surface),
    route("POST", "/aqueduct.v1.AgentStream/{method}", Access::Grpc, Kind::Surface),
    route("POST", "/lf.a2a.v1.A2AService/{method}", Access::Grpc, Kind::Surface),
    route("POST", "/a2a.v1.A2AService/{method}", Access::Grpc, Kind::Surface),
    route("GET", "/inspector", Access::Public, Kind::Inspector(inspector::Part::Page)),
    route("GET", "/inspector/{file}", Access::Public, Kind::Inspector(inspector::Part::File)),
    route("GET", "/inspector/agents", Access::List, Kind::Inspector(inspector::Part::Agents)),
    route("GET", "/inspector/runs", Access::List, Kind::Inspector(inspector::Part::Runs)),
    route("GET", "/inspector/runs/{run}/forms", Access::Run, Kind::Inspector(inspector::Part::Forms)),
    route("POST", "/inspector/convert", Access::List, Kind::Inspector(inspector::Part::Convert)),
    route("POST", "/inspector/verify", Access::List, Kind::Inspector(inspector::Part::Verify)),
];

/// The state of the gateway's own handlers. Cheap to clone: axum clones it for every request.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) gateway: Arc<Gateway>,
    a2a: Servers,
    pub(super) inspector: inspector::Work,
}

/// Returns the router of all routes, without admission: the surfaces of `aqueduct` with the settings of the
/// configuration, and the gateway's additions. `sockets` is the WebSocket endpoint, `grpc` are the routes of the gRPC
/// services. The probes have a router of their own.
pub(crate) fn router(gateway: &Arc<Gateway>, a2a: &Servers, sockets: &ws::Endpoint, grpc: Router) -> Router {
    let config = &*gateway.config();
    let shared =
        Shared { gateway: Arc::clone(gateway), a2a: a2a.clone(), inspector: inspector::Work::default() };
    let agui = aqueduct::agui::router_with(gateway.runs(), agui::protocol(gateway), stream_options(config));
    let a2a = a2a.router_of_all().layer(from_fn_with_state(shared.clone(), proxied));
    // The server enforces the largest limit of all routes; routes with a smaller one are limited here.
    let within = |router: Router, longest: usize| {
        if longest >= longest_body(config) {
            return router;
        }
        router.layer(map_request(move |request| ready(limit_body(request, longest))))
    };
    // Without `inspector.enabled` these paths do not exist: they lead to `elsewhere`.
    let mut inspector = Router::new();
    for route in ROUTES {
        match route.kind {
            Kind::Inspector(part) if config.inspector.enabled => {
                inspector = inspector.route(route.path, inspector::handler(part));
            }
            Kind::Inspector(_) | Kind::Surface | Kind::Probe => {}
        }
    }
    let own = Router::new().fallback(elsewhere).with_state(shared.clone()).merge(agui).merge(a2a);
    within(own, config.server.body)
        .merge(within(inspector.with_state(shared), config.inspector.trace))
        .merge(sockets.router())
        .merge(grpc)
}

/// Returns the WebSocket endpoint, with AG-UI as the protocol of its connections.
pub(super) fn sockets(gateway: &Arc<Gateway>) -> ws::Endpoint {
    let config = gateway.config();
    let (merge_bytes, frames) = (config.server.merge, config.quotas.frames);
    let limits = ws::Limits { merge_bytes, frames, ..ws::Limits::default() };
    let config = ws::Config { limits, ..ws::Config::default() };
    ws::endpoint(gateway.runs(), Arc::new(agui::protocol(gateway)), config)
}

/// Returns the largest body limit of all routes, which the server enforces.
pub(super) fn longest_body(config: &Config) -> usize {
    let of_inspector = if config.inspector.enabled { config.inspector.trace } else { 0 };
    config.server.body.max(of_inspector)
}

/// Lowers the body limit of a request. A longer body fails while it is read, with 413.
fn limit_body(mut request: Request, longest: usize) -> Request {
    DefaultBodyLimit::max(longest).apply(&mut request);
    request.with_limited_body()
}

/// Returns the options of AG-UI streams: with event ids, by which a client resumes, and with merged deltas for slow
/// readers.
fn stream_options(config: &Config) -> StreamOptions {
    StreamOptions { ids: true, merge_bytes: config.server.merge, ..StreamOptions::default() }
}

/// Returns a JSON response with the status 200.
pub(super) fn json(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// Forwards a call to an A2A agent, or passes it to the gateway's own server (`next`).
///
/// A layer around the A2A routes, so it sees every path below `/a2a/`, also those of agents that a reload adds later.
async fn proxied(
    State(shared): State<Shared>,
    Path(path): Path<HashMap<String, String>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let name = path.get("name").map(String::as_str).unwrap_or_default();
    if name == WELL_KNOWN {
        return look_up(&shared, request, next).await;
    }
    match shared.gateway.agent(name).and_then(proxy::Passable::of) {
        Some(agent) => proxy::pass(&shared.gateway, &shared.a2a, &agent, request, next).await,
        None => proxy::serve(&shared.gateway, &shared.a2a, name, request, next).await,
    }
}

/// Looks up a card without the name of an agent: that of a proxied agent, or one of the gateway's own.
///
/// Clients that resolve the well-known path relative to `/a2a/{name}` request `/a2a/.well-known/agent-card.json`. With
/// several candidates the request is refused, and the message names the path of a card.
async fn look_up(shared: &Shared, request: Request, next: Next) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let name = shared.a2a.looked_up(&parts).ok_or_else(several_agents)?;
    let Some(agent) = shared.gateway.agent(&name).and_then(proxy::Passable::of) else {
        return Ok(next.run(Request::from_parts(parts, body)).await);
    };
    if let Some(uri) = look_up_uri(&parts.uri, &name) {
        parts.uri = uri;
    }
    proxy::pass(&shared.gateway, &shared.a2a, &agent, Request::from_parts(parts, body), next).await
}

/// Handles requests that match no route: serves an A2A agent at `/`, if there is one.
///
/// A gRPC client receives `UNIMPLEMENTED` as gRPC status, because it does not read an HTTP body; a browser at `/` is
/// redirected to the inspector; anything else receives 404.
async fn elsewhere(State(shared): State<Shared>, request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return unimplemented().await;
    }
    if let Some(name) = shared.a2a.root() {
        return shared.a2a.answer(name, request).await;
    }
    let is_home = request.uri().path() == "/" && request.method() == http::Method::GET;
    if is_home && shared.gateway.config().inspector.enabled {
        return inspector::home();
    }
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here: see GET /agents").into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use aqueduct::grpc;

    use super::*;
    use crate::config::load;

    /// Returns the paths of a router from its debug form: axum has no other way to list them.
    fn paths(router: &Router) -> BTreeSet<String> {
        let text = format!("{router:?}");
        let quoted = text.split('"').skip(1).step_by(2);
        // `/` and the paths below it are the fallback.
        let own =
            quoted.filter(|path| path.starts_with('/') && *path != "/" && !path.contains("__private__"));
        own.map(|path| path.replace("{*method}", "{method}")).collect()
    }

    /// The tests of access run over the table, so a path that is missing there would not be tested. Health and
    /// reflection of gRPC contain no data about runs.
    #[tokio::test]
    async fn every_path_of_the_router_is_in_the_table() {
        let toml = "inspector.enabled = true\n[agents.a]\nmagentic.ingest = true\n";
        let config = load(std::path::Path::new("aqueduct.toml"), toml, []).unwrap();
        let gateway = Gateway::new(config).unwrap();
        let a2a = super::super::a2a::servers(&gateway);
        let services = grpc::mount_a2a(grpc::services(gateway.runs(), grpc::Config::default()), &a2a);
        let router = router(&gateway, &a2a, &sockets(&gateway), services.router().unwrap());
        let served = paths(&router);
        assert!(served.len() > 15, "{served:?}");
        let known: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
        for path in served.iter().filter(|path| !path.starts_with("/grpc.")) {
            assert!(known.contains(path.as_str()), "{path} has no entry in ROUTES");
        }
        let added = router.route("/new/{run}", axum::routing::get(async || ()));
        assert!(paths(&added).contains("/new/{run}"), "a new route is seen");
    }
}
