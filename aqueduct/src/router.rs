//! Routes for a custom protocol: `POST /agents/{name}` starts a run, `GET /runs/{run}/events` watches it.
//!
//! The protocol decides what a body means and what payloads look like; runs, resumption by `Last-Event-ID`, refusals and limits are those of
//! the other surfaces.

use std::sync::Arc;

use aqueduct_core::RunId;
use aqueduct_core::protocol::{Encoding, Protocol};
use aqueduct_core::service::RunService as _;
use aqueduct_runs::Runs;
use aqueduct_transport_http::{Refusal, RunRequest, StreamOptions, caller, start_run, watch_run};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

/// The state of the routes.
#[derive(Clone)]
struct Shared {
    runs: Runs,
    protocol: Arc<dyn Protocol>,
    options: StreamOptions,
}

/// Returns the routes for the agents of `runs` in `protocol`, whose payloads are sent as server-sent events.
pub fn router(runs: &Runs, protocol: Arc<dyn Protocol>) -> Router {
    let options = StreamOptions { ids: true, ..StreamOptions::default() };
    Router::new()
        .route("/agents/{name}", post(start))
        .route("/runs/{run}/events", get(watch))
        .with_state(Shared { runs: runs.clone(), protocol, options })
}

/// Starts the run that the body describes, and streams its events.
async fn start(State(shared): State<Shared>, Path(name): Path<String>, request: Request) -> Response {
    let read = |_: &http::request::Parts, body: &bytes::Bytes| {
        let read = shared.protocol.read_input(&name, body, Encoding::Json)?;
        Ok(RunRequest { input: read.input, encoder: read.encoder })
    };
    start_run(&shared.runs, &name, request, read, &shared.options).await
}

/// Streams the events of a run after `Last-Event-ID`.
async fn watch(State(shared): State<Shared>, Path(run): Path<String>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let run = RunId::from(run);
    let agent = match shared.runs.agent_of(&caller(&parts), &run).await {
        Ok(agent) => agent.unwrap_or_default(),
        Err(error) => return Refusal::from(error).into_response(),
    };
    let encoder = shared.protocol.encoder(&agent, None, Encoding::Json);
    watch_run(&shared.runs, &run, &parts, encoder, &shared.options).await
}
