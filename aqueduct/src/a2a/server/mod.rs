//! Agents behind A2A: card, JSON-RPC and HTTP+JSON below `/a2a/{name}`, gRPC beside them, both versions.
//!
//! ```text
//! HTTP request ──► admitted? ──► AgentServer of the agent ──► HttpAnswer ──► response
//! gRPC call ─────► which agent? ──────────▲
//! ```
//!
//! The adapter's [`AgentServer`] decides what is answered; this module gives it a runtime (`HostOf`), the addresses of
//! its card, and the way between its answers and HTTP. What a host decides about its agents enters as [`Cards`].

mod card;
#[cfg(feature = "grpc")]
pub mod grpc;
mod host;
mod push;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_adapter_a2a::server::{AgentServer, CardConfig, HttpAnswer, HttpBody, HttpCall, ServerConfig};
use aqueduct_core::service::{Caller, RunService, ServiceError};
use aqueduct_transport_http::{Refusal, StreamOptions, caller, payload_response, read_body};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};

pub use card::{Card, OwnCards, grpc_address};
use host::{HostOf, Ids};
pub use push::Courier;

/// Where A2A begins.
const MOUNT: &str = "/a2a/";

/// What a host decides about its agents behind A2A.
pub trait Cards: Send + Sync + 'static {
    /// Returns the names of all agents.
    fn names(&self) -> Vec<String>;

    /// Returns the card of `agent` with addresses below `base`; `None` if there is no such agent.
    fn card(&self, agent: &str, base: &str) -> Option<CardConfig>;

    /// Returns the address at which clients that asked for `host` find the server.
    fn base(&self, host: Option<&str>) -> String;

    /// Returns how the agent is served. Asked once per agent: its tasks outlive a change of configuration.
    fn server_config(&self, agent: &str) -> ServerConfig;

    /// Returns the principal of `caller` at `agent`, in its stored form.
    ///
    /// # Errors
    ///
    /// Refuses callers that may not use the agent, and agents that do not exist.
    fn authenticate(&self, caller: &Caller, agent: &str) -> Result<String, ServiceError>;

    /// Returns `true` if the card of `agent` needs no authentication.
    fn is_card_public(&self, agent: &str) -> bool;

    /// Returns `true` if clients may register push notifications.
    fn has_push(&self) -> bool;
}

/// The A2A servers of all agents. Clones share their tasks.
#[derive(Clone)]
pub struct Servers {
    service: Arc<dyn RunService>,
    cards: Arc<dyn Cards>,
    ids: Arc<Ids>,
    /// Made on the first call, and kept: an agent that is configured again keeps its tasks.
    by_name: Arc<Mutex<HashMap<String, AgentServer>>>,
    /// The agent that is served at `/` too.
    root: Option<Arc<str>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Servers {
    /// Returns servers for the agents of `cards`, whose runs `service` starts.
    pub fn new(service: Arc<dyn RunService>, cards: Arc<dyn Cards>) -> Self {
        Self { service, cards, ids: Arc::default(), by_name: Arc::default(), root: None }
    }

    /// Serves that agent at `/` too.
    pub fn with_root(mut self, name: Option<&str>) -> Self {
        self.root = name.map(Into::into);
        self
    }

    /// Returns the agent at `/`.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Returns the routes of all agents that exist now: `/a2a/{name}` and below.
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for name in self.cards.names() {
            let servers = self.clone();
            let agent = name.clone();
            let answer = any(async move |request: Request| servers.answer(&agent, request).await);
            let mount = format!("{MOUNT}{name}");
            router = router
                .route(&mount, answer.clone())
                .route(&format!("{mount}/"), answer.clone())
                .route(&format!("{mount}/{{*call}}"), answer);
        }
        router
    }

    /// Answers a request below `/a2a/{name}`, or below `/` for the agent there.
    pub async fn answer(&self, name: &str, request: Request) -> Response {
        let (parts, body) = match self.admit(name, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.into_response(),
        };
        let caller = caller(&parts);
        let base = self.public_base(&parts);
        let Some(card) = self.cards.card(name, &base) else {
            let refused = self.cards.authenticate(&caller, name).err();
            return refused.map_or_else(no_such_agent, Refusal::from).into_response();
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

    /// Returns the address at which the sender of a request finds the server.
    pub fn public_base(&self, parts: &Parts) -> String {
        let named = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        self.cards.base(named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)))
    }

    /// Returns the card of an agent, with addresses below `base`; `None` if there is no such agent.
    pub fn card(&self, agent: &str, base: &str) -> Option<CardConfig> {
        self.cards.card(agent, base)
    }

    fn server(&self, name: &str) -> AgentServer {
        let make = || {
            let (cards, ids) = (Arc::clone(&self.cards), Arc::clone(&self.ids));
            let config = self.cards.server_config(name);
            let host = HostOf { cards, agent: name.to_owned(), ids };
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

/// Returns what follows `/a2a/{name}` in a path, still encoded; all of it for the agent at `/`.
fn below_mount(path: &str) -> &str {
    let Some(rest) = path.strip_prefix(MOUNT) else { return path };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

fn no_such_agent() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such agent")
}

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
