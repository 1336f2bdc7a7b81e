//! AG-UI over HTTP.
//!
//! | route | what |
//! |---|---|
//! | `GET /agents` | the agents that the caller may run |
//! | `POST /agents/{name}` | starts a run; events as SSE or protobuf, or with `Accept: application/json` the ended run as one value |
//! | `GET /runs/{run}/events` | the events of a run, after `Last-Event-ID` or `?after=` |
//! | `POST /runs/{run}/cancel` | cancels a run |
//! | `GET /threads/{thread}` | the messages and the state of a thread ([`threads`](super::threads)) |
//!
//! The run continues when its reader disconnects; the agent's `OnDisconnect` decides for how long.

use aqueduct_adapter_agui::protocol::AguiProtocol;
use aqueduct_adapter_agui::version::negotiate;
use aqueduct_core::RunId;
use aqueduct_core::service::RunService as _;
use aqueduct_runs::Runs;
use aqueduct_transport_http::{
    EventPosition, Refusal, StreamOptions, caller, read_json, stream_response, watch_run,
};
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::threads;

/// Returns the routes for the agents of `runs`, with the default settings of the client's dialect.
///
/// # Examples
///
/// ```
/// use aqueduct::prelude::*;
///
/// fn echo(input: RunInput) -> impl Stream<Item = Update> {
///     stream! { yield Update::text(input.text()) }
/// }
///
/// let router: Router = agui::router(&Runs::new().agent("echo", echo));
/// # drop(router);
/// ```
pub fn router(runs: &Runs) -> Router {
    router_with(runs, AguiProtocol::default(), StreamOptions { ids: true, ..StreamOptions::default() })
}

/// Returns the routes for the agents of `runs`, encoded by `protocol` and streamed with `options`.
pub fn router_with(runs: &Runs, protocol: AguiProtocol, options: StreamOptions) -> Router {
    Router::new()
        .route("/agents", get(agents))
        .route("/agents/{name}", post(start))
        .route("/runs/{run}/events", get(watch))
        .route("/runs/{run}/cancel", post(cancel))
        .route("/threads/{thread}", get(thread))
        .with_state(Shared { runs: runs.clone(), protocol, options })
}

/// The state of the routes.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) runs: Runs,
    pub(super) protocol: AguiProtocol,
    pub(super) options: StreamOptions,
}

/// Returns the `Accept` header.
pub(super) fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok())
}

/// Returns a JSON response.
fn json_response(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// Handles `GET /agents`.
async fn agents(State(shared): State<Shared>, parts: Parts) -> Result<Response, Refusal> {
    let agents = shared.runs.list_agents(&caller(&parts)).await?;
    let list = agents.iter().map(|agent| {
        let url = format!("/agents/{}", agent.name);
        json!({ "name": agent.name, "description": agent.description, "url": url })
    });
    Ok(json_response(&json!({ "agents": list.collect::<Vec<_>>() })))
}

/// Handles `POST /agents/{name}`: streams the events of the run, or with `Accept: application/json` returns the ended
/// run as one value.
async fn start(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    if wants_value(request.headers()) {
        complete(&shared.runs, &shared.protocol, &name, request).await
    } else {
        stream(&shared, &name, request).await
    }
}

/// Starts a run and streams its events. A repeated reply is answered with the thread after the first one.
async fn stream(shared: &Shared, name: &str, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let caller = caller(&parts);
    // Before the body is read: a caller without access costs nothing.
    shared.runs.admit(&caller, Some(name))?;
    let (parts, body) = read_json(Request::from_parts(parts, body)).await?;
    let mut version = None;
    let read = shared.protocol.read(name, &body, |declared| {
        version = declared.map(str::to_owned);
        negotiate(accept(&parts.headers), declared)
    })?;
    let thread = read.input.thread_id.clone();
    let run = shared.runs.start(&caller, name, read.input).await?;
    if run.is_repeat {
        return threads::repeat(shared, &caller, (&thread, run.run_id), version, read.encoder).await;
    }
    let options = shared.options.for_query(parts.uri.query());
    Ok(stream_response(&EventPosition::start(run.run_id), run.events, read.encoder, &options))
}

/// Returns `true` if the first media type of `Accept` is JSON: clients of streams request an event stream, and `curl`
/// sends `*/*`.
fn wants_value(headers: &HeaderMap) -> bool {
    let first = accept(headers).and_then(|accept| accept.split(',').next()).unwrap_or_default();
    first.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Runs an agent to its end and returns the run as one value.
async fn complete(
    runs: &Runs,
    protocol: &AguiProtocol,
    name: &str,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    // Before the body is read: a caller without access costs nothing.
    runs.admit(&caller(&parts), Some(name))?;
    let (parts, body) = read_json(Request::from_parts(parts, body)).await?;
    let read = protocol.read(name, &body, |_| negotiate(None, None))?;
    let completion = runs.complete(&caller(&parts), name, read.input).await?;
    Ok(json_response(&completion.to_json()))
}

/// The query of `GET /runs/{run}/events`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchQuery {
    /// Only events with higher numbers are sent.
    after: Option<u64>,
    /// The AG-UI version of the watcher; by default the one that the run was started with.
    protocol_version: Option<String>,
}

/// Handles `GET /runs/{run}/events`: `Last-Event-ID` takes precedence over `after`.
async fn watch(
    State(shared): State<Shared>,
    Path(run): Path<String>,
    query: Result<Query<WatchQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|_| Refusal::invalid("`after` is the number of an event"))?;
    let run = RunId::from(run);
    let (parts, _) = request.into_parts();
    // An encoder without the settings of the agent, or without what the watcher has seen, would send other events.
    let state = shared.runs.find_run(&caller(&parts), &run).await?;
    let declared = match query.protocol_version {
        Some(declared) => Some(declared),
        None => shared.runs.version_of(&caller(&parts), &run).await?,
    };
    let encoding = negotiate(accept(&parts.headers), declared.as_deref());
    let mut encoder = Box::new(shared.protocol.watcher(&state.meta.agent, declared.as_deref(), encoding));
    let last_id = parts.headers.get("last-event-id").and_then(|id| EventPosition::parse(id.to_str().ok()?));
    let seen = last_id.map_or_else(|| query.after.unwrap_or(0), |position| position.after());
    threads::catch_up(&shared, &state, seen, &mut encoder).await?;
    let Some(after) = query.after.filter(|_| !parts.headers.contains_key("last-event-id")) else {
        return Ok(watch_run(&shared.runs, &run, &parts, encoder, &shared.options).await);
    };
    let events = shared.runs.watch(&caller(&parts), &run, after).await?;
    let position = EventPosition { run, number: after, payloads: 0 };
    Ok(stream_response(&position, events, encoder, &shared.options.for_query(parts.uri.query())))
}

/// Handles `POST /runs/{run}/cancel`.
async fn cancel(
    State(shared): State<Shared>,
    Path(run): Path<String>,
    parts: Parts,
) -> Result<Response, Refusal> {
    let cancelled = shared.runs.cancel(&caller(&parts), &RunId::from(run)).await?;
    Ok(json_response(&json!({ "cancelled": cancelled })))
}

/// The query of `GET /threads/{thread}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThreadQuery {
    /// The AG-UI version of the reader.
    protocol_version: Option<String>,
}

/// Handles `GET /threads/{thread}`.
async fn thread(
    State(shared): State<Shared>,
    Path(thread): Path<String>,
    Query(query): Query<ThreadQuery>,
    parts: Parts,
) -> Result<Response, Refusal> {
    let (declared, thread) = (query.protocol_version.as_deref(), thread.into());
    threads::restate(&shared, &thread, declared, &parts).await
}
