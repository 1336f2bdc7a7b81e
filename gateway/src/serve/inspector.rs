//! The inspector: a page for developers at `/inspector`, and the routes that only the page uses.
//!
//! | path | what | access |
//! |---|---|---|
//! | `/inspector`, `/inspector/{file}` | the page, which contains no data about agents or runs | public |
//! | `/inspector/agents` | the agents of the caller with their health | as the list of agents |
//! | `/inspector/runs` | the runs of the caller that the log still holds, with filters | as the list of agents |
//! | `/inspector/runs/{run}/forms` | one event of a run in every protocol | as the run |
//! | `/inspector/convert` | a recording in any dialect, as AG-UI with a verdict | as the list of agents |
//! | `/inspector/verify` | the verifier's verdict on a stream | as the list of agents |
//!
//! For everything else the page uses the routes of any frontend: it runs agents, watches and cancels runs with the
//! token that its user entered. The files are part of the binary. The content security policy restricts scripts, styles
//! and data to this origin and never turns text into markup.

mod agents;
mod assets;
mod forms;
mod runs;
mod trace;

use std::sync::Arc;

use aqueduct_core::RunId;
use aqueduct_core::service::RunService as _;
use aqueduct_transport_http::{Refusal, caller, read_json};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use http::request::Parts;
use http::{StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::routes::{Shared, json};
use forms::FormsQuery;
use runs::{RunsQuery, Summaries};

/// Recordings that are converted or verified at the same time. Both are CPU work that must not delay runs.
const AT_ONCE: usize = 2;

/// The part of the inspector that a route serves. The table of routes names parts instead of handlers, so that it can
/// be a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Page,
    File,
    Agents,
    Runs,
    Forms,
    Convert,
    Verify,
}

/// State between requests: permits for work on recordings, and summaries of ended runs.
#[derive(Debug, Clone)]
pub(super) struct Work {
    room: Arc<Semaphore>,
    summaries: Summaries,
}

impl Default for Work {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(AT_ONCE)), summaries: Summaries::default() }
    }
}

/// Returns the handler of a part, with its method.
pub(super) fn handler(part: Part) -> MethodRouter<Shared> {
    match part {
        Part::Page => get(page),
        Part::File => get(file),
        Part::Agents => get(list_agents),
        Part::Runs => get(list_runs),
        Part::Forms => get(event_forms),
        Part::Convert => post(convert),
        Part::Verify => post(verify),
    }
}

/// The page itself. It contains no data, so it needs no token: the page asks its user for one.
async fn page() -> Response {
    assets::response("index.html")
}

/// A file of the page, by its name in the table of files.
async fn file(Path(name): Path<String>) -> Response {
    assets::response(&name)
}

/// Returns the redirect from `/` to the page. The target is relative, so that a path prefix of a proxy is kept.
pub(super) fn home() -> Response {
    Redirect::temporary("inspector").into_response()
}

/// The agents that the caller may run. The body of the request is not read.
async fn list_agents(State(shared): State<Shared>, parts: Parts) -> Result<Response, Refusal> {
    Ok(json(&agents::list(&shared.gateway, &caller(&parts)).await?))
}

/// The runs of the caller, by the filters of the query.
async fn list_runs(
    State(shared): State<Shared>,
    query: Result<Query<RunsQuery>, QueryRejection>,
    parts: Parts,
) -> Result<Response, Refusal> {
    let mistake = "`since`, `until` and `limit` must be whole numbers";
    let Query(query) = query.map_err(|_| Refusal::invalid(mistake))?;
    let listed = runs::list(&shared.gateway, &shared.inspector.summaries, &caller(&parts), &query).await?;
    Ok(json(&listed))
}

/// One event of a run in every protocol, if the caller may watch the run.
async fn event_forms(
    State(shared): State<Shared>,
    Path(run): Path<String>,
    query: Result<Query<FormsQuery>, QueryRejection>,
    parts: Parts,
) -> Result<Response, Refusal> {
    let mistake = "`number` must be the number of an event, from 1";
    let Query(query) = query.map_err(|_| Refusal::invalid(mistake))?;
    let (caller, run) = (caller(&parts), RunId::from(run));
    Ok(json(&forms::of(&shared.gateway, &caller, &run, &query).await?))
}

/// Converts a recording. The response is JSON lines, because a recording may have more events than one JSON value
/// should.
async fn convert(State(shared): State<Shared>, request: Request) -> Response {
    answer(&shared, request, |asked| {
        let lines = trace::converted(&asked).map_err(Refusal::invalid)?;
        Ok(([(header::CONTENT_TYPE, "application/jsonl")], lines).into_response())
    })
    .await
}

/// Verifies a stream. Findings are a successful response: only a body that is not JSON is refused.
async fn verify(State(shared): State<Shared>, request: Request) -> Response {
    answer(&shared, request, |asked| Ok(json(&trace::verified(&asked)))).await
}

/// Computes a response on the blocking pool, away from the threads that carry streams.
///
/// At most [`AT_ONCE`] requests are worked on; further ones wait for a permit without their body in memory. Work that
/// has begun runs to its end, and keeps its permit until then, also if the caller disconnects.
async fn answer<Q: DeserializeOwned + Send + 'static>(
    shared: &Shared,
    request: Request,
    work: impl FnOnce(Q) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    let answered = async {
        let (parts, body) = request.into_parts();
        // A caller without access to any agent is refused before the body is read.
        shared.gateway.runs().list_agents(&caller(&parts)).await?;
        // The body is read after the permit is acquired, so that the number of recordings in memory is limited.
        let place = Arc::clone(&shared.inspector.room).acquire_owned().await.map_err(|_| stopped())?;
        let (_, body) = read_json(Request::from_parts(parts, body)).await?;
        let parse_and_work = move || {
            let asked = serde_json::from_slice(&body).map_err(|error| Refusal::invalid(error.to_string()))?;
            work(asked)
        };
        run_blocking(place, parse_and_work).await?
    };
    answered.await.unwrap_or_else(Refusal::into_response)
}

/// Runs `work` on the blocking pool. The permit belongs to the work, which does not stop with this future.
async fn run_blocking<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let worked = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    worked.await.map_err(|_| stopped())
}

/// The refusal for work that panicked or was stopped with the runtime.
fn stopped() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the request was stopped before it was answered: send it again",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn work_of_a_caller_that_disconnected_keeps_its_permit() {
        let room = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&room).acquire_owned().await.unwrap();
        let (end, wait) = mpsc::channel::<()>();
        let answered = run_blocking(place, move || wait.recv());
        assert!(answered.now_or_never().is_none(), "the caller disconnects while the work runs");
        assert_eq!(room.available_permits(), 0, "the work still runs");
        end.send(()).unwrap();
        drop(room.acquire().await.unwrap());
    }
}
