//! Serves agents over A2A: card, JSON-RPC and HTTP+JSON below `/a2a/{name}`, gRPC beside them, both versions.
//!
//! ```text
//! HTTP request ──► admitted? ──► AgentServer of the agent ──► HttpAnswer ──► response
//! gRPC call ─────► agent of the call ─────▲
//! ```
//!
//! The adapter's [`AgentServer`] computes responses; this module provides its runtime (`HostOf`), the addresses of its
//! card, and the conversion of responses to HTTP. A host configures its agents by [`Cards`].

mod card;
#[cfg(feature = "grpc")]
pub mod grpc;
mod host;
mod log;
mod push;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::signing::CardSigner;
use aqueduct_adapter_a2a::server::{
    AgentServer, CardConfig, HttpAnswer, HttpBody, HttpCall, ServerConfig, TaskLog,
};
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_core::service::{Caller, RefusalKind, RunService, ServiceError};
use aqueduct_runs::Runs;
use aqueduct_transport_http::{Refusal, StreamOptions, caller, payload_response, read_body};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};

pub use card::{Card, OwnCards};
use host::{HostOf, Sources};
use log::{Couriers, TasksInLog};
pub use push::Courier;
use serde_json::{Map, Value};

/// The segment of `/a2a/.well-known/agent-card.json` in the place where other paths name an agent.
pub const WELL_KNOWN: &str = ".well-known";

/// The path prefix of A2A.
const MOUNT: &str = "/a2a/";

/// The configuration of the agents that a host serves over A2A.
pub trait Cards: Send + Sync + 'static {
    /// Returns the names of all agents.
    fn names(&self) -> Vec<String>;

    /// Returns the card of `agent`, to which [`Servers`] adds the addresses. Returns `None` if there is no such agent.
    fn card(&self, agent: &str) -> Option<CardConfig>;

    /// Returns the address of the server for clients of `agent` whose requests name `host`.
    fn base(&self, agent: &str, host: Option<&str>) -> String;

    /// Returns how the agent is served. Called once per agent: its tasks outlive a change of configuration.
    fn server_config(&self, agent: &str) -> ServerConfig;

    /// Returns the principal of `caller` at `agent`, in its stored form.
    ///
    /// # Errors
    ///
    /// Returns a refusal for callers that may not use the agent, and for agents that do not exist.
    fn authenticate(&self, caller: &Caller, agent: &str) -> Result<String, ServiceError>;

    /// Returns `true` if the card of `agent` needs no authentication.
    fn is_card_public(&self, agent: &str) -> bool;

    /// Returns `true` if clients may register push notifications.
    fn has_push(&self) -> bool;

    /// Returns the signer of cards, if cards are signed.
    fn signer(&self) -> Option<Arc<CardSigner>> {
        None
    }
}

/// The A2A servers of all agents. Clones share their tasks.
#[derive(Clone)]
pub struct Servers {
    service: Arc<dyn RunService>,
    cards: Arc<dyn Cards>,
    sources: Sources,
    /// Created by the first call, and kept: an agent that is configured again keeps its tasks.
    by_name: Arc<Mutex<HashMap<String, AgentServer>>>,
    /// The log in which tasks are found; `None` if each server knows only its own.
    log: Option<Arc<dyn TaskLog>>,
    /// Held for the couriers of the engine, as long as a clone exists.
    _couriers: Option<Arc<Self>>,
    /// The agent that is also served at `/`.
    root: Option<Arc<str>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Servers {
    /// Returns servers for the agents of `cards`, whose runs `service` starts. Only this process knows their tasks.
    pub fn new(service: Arc<dyn RunService>, cards: Arc<dyn Cards>) -> Self {
        Self {
            service,
            cards,
            sources: Sources::default(),
            by_name: Arc::default(),
            log: None,
            _couriers: None,
            root: None,
        }
    }

    /// Returns servers for the agents of `cards`, whose runs `runs` starts. Their tasks are stored in its log.
    pub fn of_runs(runs: &Runs, cards: Arc<dyn Cards>) -> Self {
        let log: Arc<dyn TaskLog> = Arc::new(TasksInLog(runs.clone()));
        let engine = runs.clone();
        let sources = Sources { clock: Arc::new(move || engine.now()), ..Sources::default() };
        let servers = Self { log: Some(log), sources, ..Self::new(Arc::new(runs.clone()), cards) };
        // The engine outlives its servers and must not hold them.
        let shared = Arc::new(servers.clone());
        runs.handle_errands(log::PUSH, Arc::new(Couriers(Arc::downgrade(&shared))));
        Self { _couriers: Some(shared), ..servers }
    }

    /// Takes the ids of tasks and contexts from `ids`, for hosts whose runs must be repeatable. By default ids cannot be
    /// guessed. Must be called before the first request.
    pub fn with_ids(mut self, ids: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.sources.ids = Arc::new(ids);
        self
    }

    /// Serves the agent at `/` too.
    pub fn with_root(mut self, name: Option<&str>) -> Self {
        self.root = name.map(Into::into);
        self
    }

    /// Returns the agent at `/`.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Returns the routes of the agents that exist now: `/a2a/{name}` and below. The router can be merged with others.
    pub fn router(&self) -> Router {
        self.cards.names().into_iter().fold(Router::new(), |router, name| {
            let (servers, agent) = (self.clone(), name.clone());
            let answer = async move |request: Request| servers.answer(&agent, request).await;
            router.merge(routes(&name, answer))
        })
    }

    /// Returns the routes of all agents, including those that are added later. A layer around them handles every
    /// request before this server.
    pub fn router_of_all(&self) -> Router {
        let servers = self.clone();
        let answer = async move |Path(path): Path<HashMap<String, String>>, request: Request| {
            let name = path.get("name").map(String::as_str).unwrap_or_default();
            servers.answer(name, request).await
        };
        routes("{name}", answer)
    }

    /// Returns the agent whose card `GET /a2a/.well-known/agent-card.json` requests: clients that resolve the
    /// well-known path relative to `/a2a/{name}` send it. It is the only agent, the one at `/`, or the only one that
    /// the caller may use.
    pub fn looked_up(&self, parts: &Parts) -> Option<String> {
        let names = self.cards.names();
        if let [name] = names.as_slice() {
            return Some(name.clone());
        }
        if let Some(root) = self.root() {
            return Some(root.to_owned());
        }
        let caller = caller(parts);
        let mut allowed = names.into_iter().filter(|name| self.cards.authenticate(&caller, name).is_ok());
        allowed.next().filter(|_| allowed.next().is_none())
    }

    /// Handles a request below `/a2a/{name}`, or below `/` for the agent there.
    pub async fn answer(&self, name: &str, request: Request) -> Response {
        if name == WELL_KNOWN {
            return self.answer_look_up(request).await;
        }
        let (parts, body) = match self.admit(name, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.into_response(),
        };
        let caller = caller(&parts);
        let Some(card) = self.card(name, &parts) else {
            return Refusal::from(self.no_such_agent(&caller, name)).into_response();
        };
        let call = HttpCall {
            method: parts.method.as_str(),
            path: below_mount(parts.uri.path()),
            query: parts.uri.query(),
            caller: &caller,
            body: &body,
        };
        response(self.server(name).handle_http(call, &card).await)
    }

    /// Handles a request for a card that names no agent.
    async fn answer_look_up(&self, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let Some(name) = self.looked_up(&parts) else { return several_agents().into_response() };
        if let Some(uri) = look_up_uri(&parts.uri, &name) {
            parts.uri = uri;
        }
        Box::pin(self.answer(&name, Request::from_parts(parts, body))).await
    }

    /// Returns the card of an agent, with addresses that the sender of a request can reach. Returns `None` if there is
    /// no such agent.
    pub fn card(&self, name: &str, parts: &Parts) -> Option<CardConfig> {
        let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        self.card_at(name, named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)))
    }

    /// Returns the card of an agent for requests to `host`: its interfaces, tenant and signature.
    fn card_at(&self, name: &str, host: Option<&str>) -> Option<CardConfig> {
        let mut card = self.cards.card(name)?;
        let base = self.cards.base(name, host);
        let url = if self.root() == Some(name) { base.clone() } else { format!("{base}{MOUNT}{name}") };
        card.interfaces = vec![(Binding::JsonRpc, url.clone()), (Binding::HttpJson, url)];
        if cfg!(feature = "grpc") {
            card.interfaces.extend(grpc_address(&base).map(|address| (Binding::Grpc, address)));
        }
        if !card.bindings.is_empty() {
            let rank = |binding: &Binding| card.bindings.iter().position(|named| named == binding);
            card.interfaces.retain(|(binding, _)| rank(binding).is_some());
            card.interfaces.sort_by_key(|(binding, _)| rank(binding));
        }
        // gRPC has no path that would name the agent.
        card.grpc_tenant = if self.cards.names().len() == 1 { String::new() } else { name.to_owned() };
        if let (Some(signer), Value::Object(shown)) = (self.cards.signer(), card.to_json()) {
            card.signature = signer.signature_of(&shown);
        }
        Some(card)
    }

    /// Signs the card of a proxied agent: its own signatures were made for another card.
    pub fn sign(&self, card: &mut Map<String, Value>) {
        if let Some(signer) = self.cards.signer() {
            signer.sign(card);
        }
    }

    /// Returns the refusal of a call to an agent that does not exist.
    fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        let refused = self.cards.authenticate(caller, name).err();
        refused.unwrap_or_else(|| ServiceError::new(RefusalKind::NotFound, "there is no such agent"))
    }

    /// Returns the server of an agent; creates it on the first call.
    fn server(&self, name: &str) -> AgentServer {
        let make = || {
            let (cards, sources) = (Arc::clone(&self.cards), self.sources.clone());
            let config = self.cards.server_config(name);
            let host = HostOf { cards, agent: name.to_owned(), sources, log: self.log.clone() };
            AgentServer::new(name.to_owned(), Arc::clone(&self.service), Arc::new(host), config)
        };
        let mut servers = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        servers.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Refuses callers before the body is read.
    async fn admit(&self, name: &str, request: Request) -> Result<(Parts, bytes::Bytes), Refusal> {
        let (parts, body) = request.into_parts();
        let is_card = below_mount(parts.uri.path()).starts_with("/.well-known/");
        if !(is_card && self.cards.is_card_public(name)) {
            self.cards.authenticate(&caller(&parts), name)?;
        }
        read_body(Request::from_parts(parts, body)).await
    }
}

/// Returns the address of the card of `name` for a request that names no agent.
pub fn look_up_uri(uri: &http::Uri, name: &str) -> Option<http::Uri> {
    let rest = uri.path().strip_prefix(MOUNT)?;
    format!("{MOUNT}{name}/{rest}").parse().ok()
}

/// Returns the refusal of a request for a card that names no agent, if there are several.
pub fn several_agents() -> Refusal {
    let message = "this server has several agents: look the card up at `/a2a/{name}/.well-known/agent-card.json`, for \
                   example by a base address that ends with a slash";
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// Returns the path after `/a2a/{name}`, still encoded; the whole path for the agent at `/`.
fn below_mount(path: &str) -> &str {
    let Some(rest) = path.strip_prefix(MOUNT) else { return path };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

/// Returns the routes of one agent, or of all if `name` is a placeholder.
fn routes<H, T>(name: &str, answer: H) -> Router
where
    H: Handler<T, ()>,
    T: 'static,
{
    let mount = format!("{MOUNT}{name}");
    let call = get(answer.clone()).post(answer.clone()).delete(answer.clone());
    Router::new()
        .route(&mount, post(answer.clone()))
        .route(&format!("{mount}/"), post(answer))
        .route(&format!("{mount}/{{*call}}"), call)
}

/// Returns an address in the form of gRPC clients: scheme, host and port, without a path.
fn grpc_address(base: &str) -> Option<String> {
    let uri: http::Uri = base.parse().ok()?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    Some(format!("{}://{}:{port}", uri.scheme_str()?, uri.host()?))
}

/// Converts a response of the adapter into an HTTP response.
fn response(answer: HttpAnswer) -> Response {
    let mut response = match answer.body {
        HttpBody::Whole(bytes) => Response::new(Body::from(bytes)),
        HttpBody::Stream(payloads) => payload_response(payloads, &StreamOptions::default()),
    };
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        // Extensions are echoed, and a header that was received can be sent.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
