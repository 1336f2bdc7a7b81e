//! A2A at the gateway's own door: every agent of the configuration under `/a2a/{name}`, whatever its source.
//!
//! What is said is the business of [`AgentServer`]; here are the world it lives in ([`Place`]), the addresses that its
//! card names, and the way between its answers and HTTP.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aqueduct::a2a::server::Courier;
use aqueduct_adapter_a2a::server::{
    AgentServer, CardConfig, Host, HttpAnswer, HttpBody, HttpCall, PushPolicy, PushSender, ServerConfig,
    TaskLimits,
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

use crate::config::{AgentSource, CardAccess, Config, PushAccess};
use crate::service::{AgentEntry, Gateway, now};

/// Where A2A begins.
const MOUNT: &str = "/a2a/";

/// The servers of all agents.
#[derive(Clone)]
pub(crate) struct A2aServers {
    gateway: Arc<Gateway>,
    service: Arc<dyn RunService>,
    ids: Arc<Ids>,
    /// Made when first asked for, and kept: an agent that is configured anew keeps its tasks.
    by_name: Arc<Mutex<HashMap<String, AgentServer>>>,
    /// The agent that is served at `/` too.
    root: Option<Arc<str>>,
}

impl std::fmt::Debug for A2aServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("A2aServers").field("root", &self.root).finish_non_exhaustive()
    }
}

impl A2aServers {
    /// Serves that agent at `/` too, as an A2A server that is nothing else.
    pub(crate) fn with_root(mut self, name: Option<&str>) -> Self {
        self.root = name.map(Into::into);
        self
    }

    /// The agent at `/`.
    pub(crate) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Servers for the agents of the gateway.
    pub(crate) fn new(gateway: &Arc<Gateway>, service: &Arc<dyn RunService>) -> Self {
        let (gateway, service) = (Arc::clone(gateway), Arc::clone(service));
        Self { gateway, service, ids: Arc::default(), by_name: Arc::default(), root: None }
    }

    fn server(&self, agent: &AgentEntry) -> AgentServer {
        let make = || {
            let (gateway, ids) = (Arc::clone(&self.gateway), Arc::clone(&self.ids));
            let config = server_config(agent, &gateway.config());
            let host = Place { gateway, agent: agent.name.clone(), ids };
            AgentServer::new(agent.name.clone(), Arc::clone(&self.service), Arc::new(host), config)
        };
        let mut servers = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        servers.entry(agent.name.clone()).or_insert_with(make).clone()
    }

    /// Answers a request below `/a2a/{name}`, or below `/` for the agent there.
    pub(crate) async fn answer(&self, name: &str, request: Request) -> Response {
        let (parts, body) = match self.admit(name, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.into_response(),
        };
        let (server, agent) = match self.find(&caller(&parts), name) {
            Ok(found) => found,
            Err(error) => return Refusal::from(error).into_response(),
        };
        let card = self.card(&agent, &public_base(&parts, &self.gateway.config()));
        let call = HttpCall {
            method: parts.method.as_str(),
            path: below_mount(parts.uri.path()),
            query: parts.uri.query(),
            caller: &caller(&parts),
            body: &body,
        };
        response(server.handle_http(call, &card).await)
    }

    /// The server of an agent.
    pub(super) fn find(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<(AgentServer, Arc<AgentEntry>), ServiceError> {
        let agent = self.gateway.agent(name).ok_or_else(|| self.gateway.no_such_agent(caller, name))?;
        Ok((self.server(&agent), agent))
    }

    /// True if there is an agent of that name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.gateway.agent(name).is_some()
    }

    /// The agent, if there is but one.
    pub(super) fn only_agent(&self) -> Option<String> {
        let mut names = self.gateway.agent_names().into_iter();
        names.next().filter(|_| names.next().is_none())
    }

    /// The card of an agent, with the addresses that whoever asks can reach.
    pub(super) fn card(&self, agent: &AgentEntry, base: &str) -> CardConfig {
        let is_root = self.root() == Some(agent.name.as_str());
        let url = if is_root { base.to_owned() } else { format!("{base}{MOUNT}{}", agent.name) };
        let is_only = self.gateway.agent_names().len() == 1;
        let modified = Some(self.gateway.configured_at());
        CardConfig { modified, ..card(agent, (base, url), &self.gateway.config(), is_only) }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.gateway.config()
    }

    /// Who may not come in is refused before the body is read.
    async fn admit(&self, name: &str, request: Request) -> Result<(Parts, bytes::Bytes), Refusal> {
        let (parts, body) = request.into_parts();
        let asks = caller(&parts);
        let agent = self.gateway.agent(name).ok_or_else(|| self.gateway.no_such_agent(&asks, name))?;
        let is_card = below_mount(parts.uri.path()).starts_with("/.well-known/");
        if !(is_card && agent.config.card == CardAccess::Public) {
            self.gateway.authenticate(&agent, &asks)?;
        }
        read_body(Request::from_parts(parts, body)).await
    }
}

/// What follows `/a2a/{name}` in a path, still encoded; all of it for the agent at `/`.
fn below_mount(path: &str) -> &str {
    let Some(rest) = path.strip_prefix(MOUNT) else { return path };
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
        intermediate: match agent.config.intermediate {
            IntermediateView::Hidden => IntermediateView::Hidden,
            IntermediateView::Reasoning | IntermediateView::Text => IntermediateView::Text,
        },
        // Nobody asks such an agent: its framework begins its runs.
        adopts_runs: matches!(agent.config.source, AgentSource::Magentic),
        input_modes: agent.card.input_modes.clone(),
        // A task outlives the log of its runs no longer than readers could come back to them.
        limits: TaskLimits { keep: config.runs.keep, ..TaskLimits::default() },
        push: PushPolicy { any_address: config.server.push == PushAccess::Any, ..PushPolicy::default() },
        ..ServerConfig::default()
    }
}

/// Where whoever asks found the gateway.
pub(super) fn public_base(parts: &Parts, config: &Config) -> String {
    let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    base_of(config, named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)))
}

/// The address of the gateway, for whoever asked for `host`. The walls let only hosts through that it goes by.
pub(super) fn base_of(config: &Config, host: Option<&str>) -> String {
    config.server.public_url.clone().unwrap_or_else(|| {
        let scheme = if config.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", host.unwrap_or("localhost"))
    })
}

/// The same for gRPC, which has neither scheme nor path: `host:port`.
fn grpc_address(base: &str) -> Option<String> {
    let uri: http::Uri = base.parse().ok()?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    Some(format!("{}:{port}", uri.host()?))
}

fn card(agent: &AgentEntry, (base, url): (&str, String), config: &Config, is_only: bool) -> CardConfig {
    let is_protected = !agent.config.tokens.is_empty() || !config.server.tokens.is_empty();
    let mut interfaces = vec![(Binding::JsonRpc, url.clone()), (Binding::HttpJson, url)];
    interfaces.extend(grpc_address(base).map(|address| (Binding::Grpc, address)));
    CardConfig {
        name: agent.name.clone(),
        description: if agent.description.is_empty() {
            agent.name.clone()
        } else {
            agent.description.clone()
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        only_v1: agent.card.only_v1,
        input_modes: if agent.card.input_modes.is_empty() {
            vec!["text/plain".to_owned(), "application/json".to_owned()]
        } else {
            agent.card.input_modes.clone()
        },
        output_modes: ServerConfig::default().output_modes,
        interfaces,
        // gRPC has no path that would name the agent.
        grpc_tenant: if is_only { String::new() } else { agent.name.clone() },
        push: config.server.push != PushAccess::Off,
        bearer: is_protected,
        public: !is_protected || agent.config.card == CardAccess::Public,
        ..CardConfig::default()
    }
}

/// The world of one agent's server.
struct Place {
    gateway: Arc<Gateway>,
    /// By name: its tokens may change while its tasks live on.
    agent: String,
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
        let agent = self.gateway.agent(&self.agent);
        let agent = agent.ok_or_else(|| self.gateway.no_such_agent(caller, &self.agent))?;
        self.gateway.authenticate(&agent, caller)
    }

    fn push_sender(&self) -> Option<Arc<dyn PushSender>> {
        let is_on = self.gateway.config().server.push != PushAccess::Off;
        is_on.then(|| Arc::new(Courier) as Arc<dyn PushSender>)
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
