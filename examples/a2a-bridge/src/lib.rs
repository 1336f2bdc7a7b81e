//! An A2A agent shown as AG-UI, as a library: two adapters and one transport, nothing else.
//!
//! ```text
//! AG-UI client ─ POST ─► Bridge ─► TaskClient (A2A) ─► transport-http client ─► A2A agent
//!              ◄─ SSE ── AG-UI encoder ◄─ StreamContext ◄─ source events ◄─────── SSE
//! ```
//!
//! A reader that goes away stops the agent's task. A question of the agent becomes an interrupt (or text, for readers
//! that know no interrupts), and the next run of the same thread answers it.

mod task;
mod threads;

use std::sync::Arc;

use aqueduct_adapter_a2a::call::{SendMessage, card_request};
use aqueduct_adapter_a2a::card::{self, Endpoint};
use aqueduct_adapter_a2a::error::CardError;
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_adapter_a2a::{ClientConfig, TaskClient, input};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::input::{read_input, run_input};
use aqueduct_adapter_agui::{Settings, version::Encoding};
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{RunInfo, SourceStreamExt as _, StreamContext};
use aqueduct_transport_http as transport;
use aqueduct_transport_http::{Client, ClientError, EventPosition, Refusal, StreamOptions};
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use futures_util::{StreamExt as _, stream};
use thiserror::Error;

use task::TaskRun;
use threads::Threads;

/// An A2A agent, and what is known of its conversations.
#[derive(Debug)]
pub struct Bridge {
    http: Client,
    endpoint: Endpoint,
    threads: Arc<Threads>,
}

impl Bridge {
    /// Finds the card of the agent at that address.
    pub async fn to_agent(address: &str) -> Result<Self, BridgeError> {
        let http = Client::new(transport::ClientConfig::default())?;
        for url in card::card_urls(address) {
            let response = http.request(task::http_request(card_request(url))?).await?;
            if response.status().is_success() {
                let text = String::from_utf8_lossy(response.body());
                let endpoint = card::choose(&card::parse(&text)?, &[Binding::JsonRpc, Binding::HttpJson])?;
                return Ok(Self { http, endpoint, threads: Arc::default() });
            }
        }
        Err(BridgeError::NoCard(address.to_owned()))
    }

    /// The AG-UI endpoint, at `/`.
    pub fn into_router(self) -> Router {
        let bridge = Arc::new(self);
        Router::new().route("/", post(async move |request: Request| bridge.run(request).await))
    }

    async fn run(&self, request: Request) -> Result<Response, Refusal> {
        let (_, body) = transport::read_json(request).await?;
        let input = read_input(&body).map_err(|error| Refusal::invalid(error.to_string()))?;
        let settings = Settings::for_declared(input.protocol_version.as_deref());
        let encoder = Box::new(WatcherEncoder::new(converters(&settings), Encoding::Sse));
        let input = run_input(input);
        let (thread, run) = (input.thread_id.clone(), input.run_id.clone());
        // Run ids are new by contract, so they serve as message ids.
        let message = input::message(&input, run.as_str(), &self.threads.recipient(&thread));
        let task = TaskClient::new(ClientConfig::default(), SendMessage::new(message));
        let task = TaskRun::new(task, self.http.clone(), self.endpoint.clone(), thread, &self.threads);
        let context = StreamContext::new(RunInfo::new(input.thread_id.as_str(), run.as_str()))
            .with_known_calls(input.known_calls());
        let events = task.into_events().through(context).zip(stream::iter(1..));
        let events = Box::pin(events.map(|(event, number)| NumberedEvent { number, event }));
        let options = StreamOptions::default();
        Ok(transport::stream_response(&EventPosition::start(run), events, encoder, &options))
    }
}

/// Why there is no bridge to an agent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The agent cannot be reached.
    #[error(transparent)]
    Http(#[from] ClientError),
    /// Its address makes no request.
    #[error("the agent's address cannot be requested: {0}")]
    Address(#[from] http::Error),
    /// Its card cannot be used.
    #[error(transparent)]
    Card(#[from] CardError),
    /// It shows no card.
    #[error("no card at {0} or below: is an A2A agent there?")]
    NoCard(String),
}
