//! [`Endpoint`]: upgrades requests of an HTTP server and drives the connections.
//!
//! ```text
//! server (transport-http) ─► Endpoint::router ─► handshake::accept ─► 101 ─► Endpoint::serve ─► driver
//! ```
//!
//! Sockets, TLS, the request head and admission by `Host` and `Origin` belong to the server. An upgraded connection keeps its
//! permit among the server's connections. While the server drains, it is closed with 1001 once no run is watched or published
//! on it; when the server closes, it is closed in any case.

use std::sync::Arc;

use aqueduct_core::protocol::Protocol;
use aqueduct_core::service::{Proof, RunService};
use aqueduct_transport_http::{Counters, Gauge, Refusal, Stopping, Total};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header, request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::Instrument as _;

use crate::config::Config;
use crate::driver::{self, session::Shared};
use crate::handshake::{self, Upgrade};

/// Serves WebSocket connections of a service. Clones share the endpoint.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use aqueduct_core::protocol::Protocol;
/// use aqueduct_core::service::RunService;
/// use aqueduct_transport_http::{Admission, CancelToken, Server, ServerConfig, Error};
/// use aqueduct_transport_ws::{Config, Endpoint};
///
/// async fn serve(service: Arc<dyn RunService>, protocol: Arc<dyn Protocol>) -> Result<(), Error> {
///     let routes = Endpoint::new(service, protocol, Config::default()).router();
///     let server = Server::bind("127.0.0.1:8001", ServerConfig::default()).await?;
///     server.serve(Admission::default().apply(routes), CancelToken::new()).await;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

aqueduct_core::debug_fields!(Endpoint { config: shared.config });

impl Endpoint {
    /// Returns an endpoint for a service, with inputs and events of `protocol`.
    pub fn new(service: Arc<dyn RunService>, protocol: Arc<dyn Protocol>, mut config: Config) -> Self {
        config.limits = config.limits.at_least_one();
        Self { shared: Arc::new(Shared { service, protocol, config, counters: Counters::default() }) }
    }

    /// Returns the routes, for a server of their own or merged with others. They have no fallback.
    ///
    /// | path | what |
    /// |---|---|
    /// | `/ws` | the protocol `aqueduct.v1` |
    /// | `/agents/{name}/ws` | the plain mode, or `aqueduct.v1` with that agent as default |
    pub fn router(&self) -> Router {
        let (unnamed, named) = (self.clone(), self.clone());
        let of_agent = async move |Path(name): Path<String>, request: Request| {
            // The router accepts an empty segment as a name.
            if name.is_empty() {
                let message = "name an agent: /agents/{name}/ws";
                return Refusal::new(StatusCode::NOT_FOUND, "not_found", message).into_response();
            }
            named.upgrade(Some(&name), request).await
        };
        Router::new()
            .route("/ws", get(async move |request: Request| unnamed.upgrade(None, request).await))
            .route("/agents/{name}/ws", get(of_agent))
    }

    /// Answers a request and, if it is upgraded, drives the connection in a task of its own. `agent` is the agent of the path.
    pub async fn upgrade(&self, agent: Option<&str>, mut request: Request) -> Response {
        let upgraded = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let mut upgrade = match self.accept(&parts, agent) {
            Ok(upgrade) => upgrade,
            Err(refusal) => return refused(refusal),
        };
        if upgrade.caller.proof == Proof::Unchecked {
            upgrade.caller = self.shared.service.authenticate(upgrade.caller).await;
        }
        let response = upgrade.response().map(|()| Body::empty());
        let (endpoint, upgrade) = (self.clone(), Box::new(upgrade));
        let connection = async move {
            // A peer that disconnected before the upgrade has no connection to serve.
            if let Ok(io) = upgraded.await {
                endpoint.serve_boxed(TokioIo::new(io), upgrade).await;
            }
        };
        // Log lines of its runs carry the id of the request that opened the connection.
        tokio::spawn(connection.in_current_span());
        response
    }

    /// Checks a request for an upgrade: see [`handshake::accept`].
    ///
    /// # Errors
    ///
    /// Returns a refusal if the request is not a supported WebSocket upgrade, or if the server drains.
    pub fn accept(&self, head: &request::Parts, agent: Option<&str>) -> Result<Upgrade, Refusal> {
        let stopping = head.extensions.get::<Stopping>().cloned().unwrap_or_default();
        let decision = if stopping.draining.is_cancelled() {
            let message = "the server stops: connect to another replica, or later";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message))
        } else {
            handshake::accept(head, agent, stopping)
        };
        let counted = if decision.is_ok() { Total::Connections } else { Total::Refusals };
        self.shared.counters.count(counted);
        decision
    }

    /// Drives an upgraded connection to its end. Dropping the future drops the connection.
    pub async fn serve<IO>(&self, io: IO, upgrade: Upgrade)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin,
    {
        self.serve_boxed(io, Box::new(upgrade)).await;
    }

    async fn serve_boxed<IO>(&self, io: IO, upgrade: Box<Upgrade>)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let _open = self.shared.counters.open(Gauge::Connections);
        driver::run(Arc::clone(&self.shared), io, upgrade).await;
    }

    /// Returns the live counts: connections, streams, publishers, messages.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }
}

/// Returns the response for a refused handshake. A request without upgrade gets the headers that name the required one.
fn refused(refusal: Refusal) -> Response {
    let is_no_upgrade = refusal.status == StatusCode::UPGRADE_REQUIRED;
    let mut response = refusal.into_response();
    if is_no_upgrade {
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    response
}
