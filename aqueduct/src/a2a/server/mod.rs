//! Serves agents over A2A: card, JSON-RPC and HTTP+JSON below `/a2a/{name}`, gRPC beside them, both versions.
//!
//! ```text
//! HTTP request ──► admit ──────────► AgentServer of the agent ──► HttpAnswer ──► HTTP response
//! gRPC call ─────► agent_of_call ─────────▲ └──────────────────────────────────► gRPC response
//! ```
//!
//! The adapter's [`AgentServer`] computes responses; this module provides its runtime (`HostOf`), the addresses in its
//! card, and the conversion of responses to HTTP. The program that embeds this crate, the host, configures its agents by
//! [`Cards`].

mod card;
#[cfg(feature = "grpc")]
pub mod grpc;
mod host;
mod log;
mod push;

use std::collections::HashMap;
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
use host::{ClockAndIds, HostOf};
use log::{Couriers, TasksInLog};
pub use push::Courier;
use serde_json::{Map, Value};

/// The segment of the path `/a2a/.well-known/agent-card.json` where other paths have the name of an agent.
pub const WELL_KNOWN: &str = ".well-known";

/// The path prefix of A2A.
const MOUNT: &str = "/a2a/";

/// The configuration of the agents that a host serves over A2A.
pub trait Cards: Send + Sync + 'static {
    /// Returns the names of all agents.
    fn names(&self) -> Vec<String>;

    /// Returns the card of `agent`, to which [`Servers`] adds the addresses. Returns `None` if there is no such agent.
    fn card(&self, agent: &str) -> Option<CardConfig>;

    /// Returns the base address to put into the card of `agent`, for a client whose request has the header `host`.
    fn base(&self, agent: &str, host: Option<&str>) -> String;

    /// Returns how `agent` is served. Called once per agent: its server and tasks outlive a change of configuration.
    fn server_config(&self, agent: &str) -> ServerConfig;

    /// Returns the principal of `caller` at `agent`, in the form in which logs store it.
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
    clock_and_ids: ClockAndIds,
    /// The server of each agent, created by its first call. An agent whose configuration is reloaded keeps its server and tasks.
    by_name: Arc<Mutex<HashMap<String, AgentServer>>>,
    /// The run log in which tasks are found; `None` if each server knows only the tasks of this process.
    log: Option<Arc<dyn TaskLog>>,
    /// The engine delivers push notifications through a weak reference to these servers ([`Couriers`]): this keeps it valid as
    /// long as a clone exists.
    _couriers: Option<Arc<Self>>,
    /// The agent that is also served at `/`.
    root: Option<Arc<str>>,
}

aqueduct_core::debug_fields!(Servers { root });

impl Servers {
    /// Returns servers for the agents of `cards`. `service` starts their runs, and only this process knows their tasks.
    pub fn new(service: Arc<dyn RunService>, cards: Arc<dyn Cards>) -> Self {
        Self {
            service,
            cards,
            clock_and_ids: ClockAndIds::default(),
            by_name: Arc::default(),
            log: None,
            _couriers: None,
            root: None,
        }
    }

    /// Returns servers for the agents of `cards`. `runs` starts their runs, and its log stores their tasks.
    pub fn of_runs(runs: &Runs, cards: Arc<dyn Cards>) -> Self {
        let log: Arc<dyn TaskLog> = Arc::new(TasksInLog(runs.clone()));
        let engine = runs.clone();
        let clock_and_ids = ClockAndIds { clock: Arc::new(move || engine.now()), ..ClockAndIds::default() };
        let servers = Self { log: Some(log), clock_and_ids, ..Self::new(Arc::new(runs.clone()), cards) };
        // The engine may outlive its servers, so it gets a weak reference.
        let shared = Arc::new(servers.clone());
        runs.handle_errands(log::PUSH, Arc::new(Couriers(Arc::downgrade(&shared))));
        Self { _couriers: Some(shared), ..servers }
    }

    /// Sets the generator of the ids of tasks and contexts, for hosts that need repeatable ids. By default ids cannot be
    /// guessed. Must be called before the first request.
    pub fn with_ids(mut self, ids: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.clock_and_ids.ids = Arc::new(ids);
        self
    }

    /// Serves the agent `name` at `/` too.
    pub fn with_root(mut self, name: Option<&str>) -> Self {
        self.root = name.map(Into::into);
        self
    }

    /// Returns the name of the agent that is also served at `/`.
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

    /// Returns the routes of all agents, including those that are added later.
    pub fn router_of_all(&self) -> Router {
        let servers = self.clone();
        let answer = async move |Path(path): Path<HashMap<String, String>>, request: Request| {
            let name = path.get("name").map(String::as_str).unwrap_or_default();
            servers.answer(name, request).await
        };
        routes("{name}", answer)
    }

    /// Returns the agent whose card a request `GET /a2a/.well-known/agent-card.json` means, which clients send that resolve
    /// the well-known path relative to `/a2a/{name}`. That is the only agent, or the agent at `/`, or the only agent that the
    /// caller may use. Returns `None` if there are several.
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

    /// Handles a request to the agent `name`, below `/a2a/{name}` or below `/`.
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

    /// Returns the card of an agent, with addresses at the host that the request `parts` was sent to. Returns `None` if there
    /// is no such agent.
    pub fn card(&self, name: &str, parts: &Parts) -> Option<CardConfig> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        self.card_at(name, host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)))
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
        // A gRPC call has no path with the name of the agent, so clients send the name as the tenant.
        card.grpc_tenant = if self.cards.names().len() == 1 { String::new() } else { name.to_owned() };
        if let (Some(signer), Value::Object(shown)) = (self.cards.signer(), card.to_json()) {
            card.signature = signer.signature_of(&shown);
        }
        Some(card)
    }

    /// Signs the card of a proxied agent, whose own signatures do not match the changed card.
    pub fn sign(&self, card: &mut Map<String, Value>) {
        if let Some(signer) = self.cards.signer() {
            signer.sign(card);
        }
    }

    /// Returns the refusal of a call to an agent that does not exist: that of authentication, if the caller fails it.
    fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        let refused = self.cards.authenticate(caller, name).err();
        refused.unwrap_or_else(|| ServiceError::new(RefusalKind::NotFound, "there is no such agent"))
    }

    /// Returns the server of an agent; creates it on the first call.
    fn server(&self, name: &str) -> AgentServer {
        let make = || {
            let (cards, clock_and_ids) = (Arc::clone(&self.cards), self.clock_and_ids.clone());
            let config = self.cards.server_config(name);
            let host = HostOf { cards, agent: name.to_owned(), clock_and_ids, log: self.log.clone() };
            AgentServer::new(name.to_owned(), Arc::clone(&self.service), Arc::new(host), config)
        };
        let mut servers = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        servers.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Authenticates the caller, except for a public card, and then reads the body.
    async fn admit(&self, name: &str, request: Request) -> Result<(Parts, bytes::Bytes), Refusal> {
        let (parts, body) = request.into_parts();
        let is_card = below_mount(parts.uri.path()).starts_with("/.well-known/");
        if !(is_card && self.cards.is_card_public(name)) {
            self.cards.authenticate(&caller(&parts), name)?;
        }
        read_body(Request::from_parts(parts, body)).await
    }
}

/// Returns the address of the card of `name`, for a request to `/a2a/.well-known/…` that names no agent.
pub fn look_up_uri(uri: &http::Uri, name: &str) -> Option<http::Uri> {
    let rest = uri.path().strip_prefix(MOUNT)?;
    format!("{MOUNT}{name}/{rest}").parse().ok()
}

/// Returns the refusal of a request for a card that does not name one of several agents.
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
        // The values are constants, or extensions that the client sent in a valid header: none is lost here.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
