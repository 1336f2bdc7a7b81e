//! A2A at the gateway's own door: every agent of the configuration under `/a2a/{name}`, whatever its source.
//!
//! What is said is the business of [`AgentServer`]; here are the world it lives in ([`Place`]), the addresses that its
//! card names, and the way between its answers and HTTP.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::server::{
    AgentServer, CardConfig, Host, HttpAnswer, HttpBody, HttpCall, ServerConfig, TaskLimits,
};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_core::service::{BoxFuture, Caller, RunService, ServiceError};
use aqueduct_core::{IntermediateView, Timestamp};
use aqueduct_transport_http::{Refusal, StreamOptions, caller, payload_response, read_body};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::config::{CardAccess, Config};
use crate::service::{AgentEntry, Gateway, now};

/// Where A2A begins.
const MOUNT: &str = "/a2a/";

/// The servers of all agents.
#[derive(Debug, Clone)]
pub(crate) struct A2aServers {
    gateway: Arc<Gateway>,
    by_name: Arc<HashMap<String, AgentServer>>,
}

impl A2aServers {
    /// A server for every agent of the gateway.
    pub(crate) fn new(gateway: &Arc<Gateway>, service: &Arc<dyn RunService>) -> Self {
        let ids = Arc::new(Ids::default());
        let server = |agent: &Arc<AgentEntry>| {
            let host =
                Place { gateway: Arc::clone(gateway), agent: Arc::clone(agent), ids: Arc::clone(&ids) };
            let config = server_config(agent, gateway.config());
            AgentServer::new(agent.name.clone(), Arc::clone(service), Arc::new(host), config)
        };
        let by_name = gateway.agents().map(|agent| (agent.name.clone(), server(agent))).collect();
        Self { gateway: Arc::clone(gateway), by_name: Arc::new(by_name) }
    }

    /// Answers a request below `/a2a/{name}`.
    pub(crate) async fn answer(&self, name: &str, request: Request) -> Response {
        let (parts, body) = match self.admit(name, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.into_response(),
        };
        let (Some(server), Some(agent)) = (self.by_name.get(name), self.gateway.agent(name)) else {
            return Refusal::from(self.gateway.no_such_agent(&caller(&parts), name)).into_response();
        };
        let card = card(agent, &parts, self.gateway.config());
        let call = HttpCall {
            method: parts.method.as_str(),
            path: below_mount(parts.uri.path()),
            query: parts.uri.query(),
            caller: &caller(&parts),
            body: &body,
        };
        response(server.handle_http(call, &card).await)
    }

    /// Who may not come in is refused before the body is read.
    async fn admit(&self, name: &str, request: Request) -> Result<(Parts, bytes::Bytes), Refusal> {
        let (parts, body) = request.into_parts();
        let asks = caller(&parts);
        let agent = self.gateway.agent(name).ok_or_else(|| self.gateway.no_such_agent(&asks, name))?;
        let is_card = below_mount(parts.uri.path()).starts_with("/.well-known/");
        if !(is_card && agent.config.card == CardAccess::Public) {
            self.gateway.authenticate(agent, &asks)?;
        }
        read_body(Request::from_parts(parts, body)).await
    }
}

/// What follows `/a2a/{name}` in a path, still encoded.
fn below_mount(path: &str) -> &str {
    let rest = path.strip_prefix(MOUNT).unwrap_or_default();
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

fn response(answer: HttpAnswer) -> Response {
    let mut response = match answer.body {
        HttpBody::Whole(bytes) => Response::new(Body::from(bytes)),
        HttpBody::Stream(payloads) => payload_response(payloads, &StreamOptions::default()),
    };
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        // Extensions are echoed, and a header that came in is a header that can go out.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn server_config(agent: &AgentEntry, config: &Config) -> ServerConfig {
    ServerConfig {
        intermediate: match agent.config.intermediate.as_str() {
            "hidden" => IntermediateView::Hidden,
            _ => IntermediateView::Text,
        },
        // A task outlives the log of its runs no longer than readers could come back to them.
        limits: TaskLimits { keep: config.runs.keep, ..TaskLimits::default() },
        ..ServerConfig::default()
    }
}

/// Where whoever asks found the gateway.
pub(super) fn public_base(parts: &Parts, config: &Config) -> String {
    config.server.public_url.clone().unwrap_or_else(|| {
        let scheme = if config.server.tls.is_some() { "https" } else { "http" };
        // The walls let only hosts through that the gateway goes by.
        let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host =
            named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or("localhost");
        format!("{scheme}://{host}")
    })
}

/// The card, with the addresses that whoever asks can reach.
fn card(agent: &AgentEntry, parts: &Parts, config: &Config) -> CardConfig {
    let base = public_base(parts, config);
    let url = format!("{base}{MOUNT}{}", agent.name);
    let is_protected = !agent.config.tokens.is_empty() || !config.server.tokens.is_empty();
    CardConfig {
        name: agent.name.clone(),
        description: if agent.description.is_empty() {
            agent.name.clone()
        } else {
            agent.description.clone()
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        input_modes: vec!["text/plain".to_owned(), "application/json".to_owned()],
        output_modes: ServerConfig::default().output_modes,
        interfaces: vec![(Binding::JsonRpc, url.clone()), (Binding::HttpJson, url)],
        bearer: is_protected,
        public: !is_protected || agent.config.card == CardAccess::Public,
        ..CardConfig::default()
    }
}

/// The world of one agent's server.
struct Place {
    gateway: Arc<Gateway>,
    agent: Arc<AgentEntry>,
    ids: Arc<Ids>,
}

impl Host for Place {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn now(&self) -> Timestamp {
        now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn new_id(&self) -> String {
        self.ids.next()
    }

    fn identify(&self, caller: &Caller) -> Result<String, ServiceError> {
        self.gateway.authenticate(&self.agent, caller)
    }
}

/// Ids that nobody can guess: a count, hidden by a keyed hash whose keys come from the system's randomness.
#[derive(Debug, Default)]
struct Ids {
    keys: (RandomState, RandomState),
    count: AtomicU64,
}

impl Ids {
    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{:016x}", self.keys.0.hash_one(count), self.keys.1.hash_one((count, "more")))
    }
}
