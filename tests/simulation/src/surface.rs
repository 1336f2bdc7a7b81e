//! The surfaces of a replica: what a client of each sends, and what it reads.
//!
//! | surface | start | resume | what is compared with the log |
//! |---|---|---|---|
//! | engine | `RunService::start` | `watch` after a number | numbers and events |
//! | SSE | `POST /agents/{name}` | `GET /runs/{run}/events` with `Last-Event-ID` | ids and AG-UI payloads |
//! | WebSocket | `start` | `watch` on a new socket, by position | numbers and AG-UI payloads |
//! | gRPC | `Run` | `Watch` after a number | numbers and events |
//!
//! A2A has no numbers; its client is [`clients::task`](crate::clients).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aqueduct::core::service::{EventStream, NumberedEvent, RefusalKind, RunService as _};
use aqueduct::{agui, grpc, ws};
use aqueduct_core::testing::trace_line;
use aqueduct_core::{BlockEvent, RunId, RunInput, RunOutcome};
use aqueduct_runs::Runs;
use aqueduct_transport_grpc::Error as GrpcError;
use aqueduct_transport_http::{EventPosition, sse};
use aqueduct_transport_ws::client::{ConnectOptions, Position, RunEvents};
use axum::Router;
use axum::body::Body;
use axum::middleware::map_request;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::net;
use crate::planted::Planted;
use crate::world::{Replica, caller};

/// The way of a client to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Surface {
    /// The engine itself.
    #[default]
    Engine,
    /// AG-UI over server-sent events.
    Sse,
    /// AG-UI over WebSocket.
    WebSocket,
    /// `aqueduct.v1` over gRPC.
    Grpc,
}

/// One event or payload, as a client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The number of the event.
    pub number: u64,
    /// The event as a line of text, or the payload.
    pub line: String,
    /// Set for the last one of a run.
    pub is_end: bool,
    /// How the run ended, where the surface has the event itself.
    pub outcome: Option<RunOutcome>,
    /// Where a client resumes after this one.
    pub place: Place,
}

/// Where a client resumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    number: u64,
    id: Option<String>,
    position: Position,
}

/// What a client reads.
pub type Feed = Pin<Box<dyn Stream<Item = Shown> + Send>>;

/// Why a client reads nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The run does not exist.
    Unknown,
    /// Something else: another try may succeed.
    Other,
}

/// Returns all routes of a replica.
pub fn router(runs: &Runs, a2a: Router, planted: Option<Planted>) -> Router {
    let router = agui::router(runs).merge(ws::router(runs)).merge(grpc::router(runs)).merge(a2a);
    match planted {
        Some(Planted::ResumeLate) => router.layer(map_request(resume_late)),
        Some(Planted::PanicOnce) => {
            let panicked = Arc::new(AtomicBool::new(false));
            router.layer(map_request(move |request| panic_once(Arc::clone(&panicked), request)))
        }
        _ => router,
    }
}

/// Panics when the first watcher comes back.
async fn panic_once(panicked: Arc<AtomicBool>, request: axum::extract::Request) -> axum::extract::Request {
    let is_return = request.headers().contains_key("last-event-id");
    assert!(!is_return || panicked.swap(true, Ordering::Relaxed), "planted");
    std::future::ready(request).await
}

/// Takes a watcher that comes back for one that has seen one event more.
async fn resume_late(mut request: axum::extract::Request) -> axum::extract::Request {
    let named = request.headers().get("last-event-id").and_then(|id| EventPosition::parse(id.to_str().ok()?));
    if let Some(place) = named
        && let Ok(later) = HeaderValue::from_str(&format!("{}.{}.1", place.run, place.number + 1))
    {
        request.headers_mut().insert("last-event-id", later);
    }
    std::future::ready(request).await
}

impl Surface {
    /// Starts a run, and returns its events.
    ///
    /// # Errors
    ///
    /// Returns whether the refusal is final.
    pub async fn start(
        self,
        replica: &Replica,
        token: &str,
        agent: &str,
        input: RunInput,
    ) -> Result<Feed, Refused> {
        match self {
            Self::Engine => {
                let started = replica.runs.start(&caller(token), agent, input).await;
                started.map(|run| numbered(run.events)).map_err(|error| refused(error.kind))
            }
            Self::Sse => {
                let request =
                    Request::post(format!("/agents/{agent}")).header("content-type", "application/json");
                sse_feed(replica, request, token, agui_input(&input).to_string(), Place::default()).await
            }
            Self::WebSocket => {
                let client = socket(replica, token).await?;
                let events = client.start(Some(agent), &agui_input(&input).to_string()).await;
                events.map(|events| ws_feed(events, Position::default())).map_err(|error| ws_refused(&error))
            }
            Self::Grpc => {
                let client = channel(replica, token).await?;
                let events = client.run(agent, &input).await.map_err(|error| grpc_refused(&error))?;
                Ok(grpc_feed(events))
            }
        }
    }

    /// Watches a run from a place on.
    ///
    /// # Errors
    ///
    /// Returns whether the run is unknown.
    pub async fn watch(
        self,
        replica: &Replica,
        token: &str,
        run: &RunId,
        place: &Place,
    ) -> Result<Feed, Refused> {
        match self {
            Self::Engine => {
                let watched = replica.runs.watch(&caller(token), run, place.number).await;
                watched.map(numbered).map_err(|error| refused(error.kind))
            }
            Self::Sse => {
                let mut request = Request::get(format!("/runs/{run}/events"));
                if let Some(id) = &place.id {
                    request = request.header("last-event-id", id);
                }
                sse_feed(replica, request, token, String::new(), place.clone()).await
            }
            Self::WebSocket => {
                let client = socket(replica, token).await?;
                let events = client.watch(run.as_str(), place.position.resume_after()).await;
                events.map(|events| ws_feed(events, place.position)).map_err(|error| ws_refused(&error))
            }
            Self::Grpc => {
                let client = channel(replica, token).await?;
                let events = client.watch(run, place.number).await.map_err(|error| grpc_refused(&error))?;
                Ok(grpc_feed(events))
            }
        }
    }

    /// Returns `true` if the surface shows payloads of AG-UI, in place of events.
    pub fn is_agui(self) -> bool {
        matches!(self, Self::Sse | Self::WebSocket)
    }
}

fn refused(kind: RefusalKind) -> Refused {
    if kind == RefusalKind::NotFound { Refused::Unknown } else { Refused::Other }
}

/// The input of a run, as AG-UI clients send it.
fn agui_input(input: &RunInput) -> Value {
    let message = json!({ "id": "m", "role": "user", "content": input.text() });
    json!({
        "threadId": input.thread_id.as_str(), "runId": input.run_id.as_str(), "messages": [message], "tools": [], "context": [],
    })
}

fn shown(event: &NumberedEvent) -> Shown {
    let outcome = match &event.event {
        BlockEvent::RunFinished(end) => Some(end.outcome),
        _ => None,
    };
    Shown {
        number: event.number,
        line: trace_line(&event.event),
        is_end: event.event.is_terminal(),
        outcome,
        place: Place { number: event.number, ..Place::default() },
    }
}

/// Returns events of the engine as what a client reads.
pub fn numbered(events: EventStream) -> Feed {
    Box::pin(events.map(|event| shown(&event)))
}

/// A payload of AG-UI.
fn payload(number: u64, data: &str, place: Place) -> Shown {
    let kind = serde_json::from_str::<Value>(data).ok();
    let kind = kind.as_ref().and_then(|event| event.get("type")?.as_str());
    let is_end = matches!(kind, Some("RUN_FINISHED" | "RUN_ERROR"));
    Shown { number, line: data.to_owned(), is_end, outcome: None, place }
}

async fn sse_feed(
    replica: &Replica,
    request: http::request::Builder,
    token: &str,
    body: String,
    place: Place,
) -> Result<Feed, Refused> {
    let request = request.header("authorization", format!("Bearer {token}")).header("host", "localhost");
    let request = request.body(Body::from(body)).map_err(|_| Refused::Other)?;
    let response = replica.router.clone().oneshot(request).await.map_err(|_| Refused::Other)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(Refused::Unknown),
        _ => return Err(Refused::Other),
    }
    let mut chunks = response.into_body().into_data_stream();
    let mut frames = sse::Decoder::new(sse::DecodeLimits::default());
    Ok(Box::pin(async_stream::stream! {
        let mut place = place;
        while let Some(Ok(chunk)) = chunks.next().await {
            frames.handle_chunk(chunk);
            while let Some(Ok(event)) = frames.poll_event() {
                let Some(id) = event.id else { continue };
                let number = EventPosition::parse(&id).map(|position| position.number).unwrap_or_default();
                place = Place { number, id: Some(id.to_string()), ..place };
                if !event.data.is_empty() {
                    yield payload(number, &event.data, place.clone());
                }
            }
        }
    }))
}

async fn socket(replica: &Replica, token: &str) -> Result<aqueduct_transport_ws::client::Client, Refused> {
    let io = net::connect(&replica.node, replica.router.clone());
    let mut options = ConnectOptions::new("ws://localhost/ws");
    options.token = Some(token.to_owned());
    let connected = aqueduct_transport_ws::client::Client::connect_over(io, &options).await;
    connected.map_err(|_| Refused::Other)
}

fn ws_feed(events: RunEvents, position: Position) -> Feed {
    let open = (events, position);
    Box::pin(stream::unfold(open, |(mut events, mut position)| async move {
        loop {
            let event = events.next().await?.ok()?;
            if position.advance(&event) {
                let place = Place { number: event.number, position, id: None };
                let shown = payload(event.number, &String::from_utf8_lossy(&event.data), place);
                return Some((shown, (events, position)));
            }
        }
    }))
}

fn ws_refused(error: &aqueduct_transport_ws::Error) -> Refused {
    match error {
        aqueduct_transport_ws::Error::Rejected { code, .. } if code == "not_found" => Refused::Unknown,
        _ => Refused::Other,
    }
}

async fn channel(replica: &Replica, token: &str) -> Result<aqueduct_transport_grpc::Client, Refused> {
    let io = net::connect(&replica.node, replica.router.clone());
    let token = aqueduct_transport_grpc::client::Token::new(token).map_err(|_| Refused::Other)?;
    let config = aqueduct_transport_grpc::ClientConfig { token: Some(token), ..Default::default() };
    aqueduct_transport_grpc::Client::connect_over(io, config).await.map_err(|_| Refused::Other)
}

fn grpc_feed(events: aqueduct_transport_grpc::RunStream) -> Feed {
    Box::pin(
        events
            .take_while(|event| std::future::ready(event.is_ok()))
            .filter_map(|event| std::future::ready(event.ok().map(|event| shown(&event)))),
    )
}

fn grpc_refused(error: &GrpcError) -> Refused {
    match error {
        GrpcError::Refused(error) => refused(error.kind),
        _ => Refused::Other,
    }
}
