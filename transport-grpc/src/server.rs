//! The services, as routes for the server of `transport-http`.
//!
//! * [`AgentStreamServer`] is the `aqueduct.v1.AgentStream` service: a tower service that can be mounted anywhere.
//! * [`Services`] are its routes and those of health, reflection and other services, for a port of their own or merged with
//!   other routes. Sockets, TLS, the limits of HTTP/2 and the drain belong to the server.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use aqueduct_core::service::RunService;
//! # use aqueduct_transport_grpc::{Config, Services, unimplemented};
//! # use aqueduct_transport_http::{CancelToken, Server, ServerConfig};
//! # async fn serve(service: Arc<dyn RunService>) -> Result<(), Box<dyn std::error::Error>> {
//! let routes = Services::new(service, Config::default()).router()?.fallback(unimplemented);
//! let server = Server::bind("127.0.0.1:50051", ServerConfig::http2_only()).await?;
//! println!("listening on {}", server.local_addr()?);
//! server.serve(routes, CancelToken::new()).await;
//! # Ok(())
//! # }
//! ```
//!
//! While the server drains, health is `NOT_SERVING`; after the limit `drain`, streams end with `UNAVAILABLE` and the number
//! from which to resume ([`Stopping`](aqueduct_transport_http::Stopping)).

mod body;
mod handler;
mod health;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_core::service::{Proof, RunService};
use aqueduct_transport_http::{BodyLimitLift, Counters, StallWatched, Total};
use axum::Router;
use axum::body::Body as AxumBody;
use axum::response::{IntoResponse as _, Response as AxumResponse};
use axum::routing::post_service;
use bytes::Bytes;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic_health::pb::health_server::HealthServer;

use crate::config::Config;
use crate::driver::Shared;
use crate::error::Error;
use crate::proto::agent_stream_server as generated;
use crate::raw::{RawServer, RawService};
use crate::stall::StallWatch;
use handler::Handler;
use health::Health;

pub(crate) use body::TimedBody;

/// The service `aqueduct.v1.AgentStream` over a [`RunService`]. Clones share it.
#[derive(Debug, Clone)]
pub struct AgentStreamServer {
    inner: generated::AgentStreamServer<Handler>,
    shared: Arc<Shared>,
    stalls: Arc<StallWatch>,
}

impl AgentStreamServer {
    /// Returns the service with its own limits and counters.
    pub fn new(service: Arc<dyn RunService>, config: &Config) -> Self {
        let shared = Arc::new(Shared::new(config));
        let stalls = StallWatch::new(config.timeouts.write_stall);
        let handler = Handler { service, shared: Arc::clone(&shared), stalls: Arc::clone(&stalls) };
        let inner = generated::AgentStreamServer::new(handler);
        Self { inner: inner.max_decoding_message_size(config.limits.request_bytes), shared, stalls }
    }

    /// Returns the live counts: streams, publishers, calls, messages.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }

    /// Returns another service with the same limits and counters, to be mounted as well.
    pub fn beside<S: RawService>(&self, service: Arc<S>) -> RawServer<S> {
        RawServer::sharing(service, Arc::clone(&self.shared), Arc::clone(&self.stalls))
    }
}

/// Lifts the server's limits on the request body: messages and times are limited here.
pub(crate) fn admitted<B>(request: Request<B>) -> Request<B> {
    if let Some(limits) = request.extensions().get::<BodyLimitLift>() {
        limits.lift();
    }
    request
}

/// Returns the response to a caller whose authentication failed, without reading the request. Returns `None` for others.
pub(crate) fn refused(extensions: &http::Extensions, shared: &Shared) -> Option<Response<Body>> {
    let Some(Proof::Refused(error)) = extensions.get::<Proof>() else { return None };
    shared.counters.count(Total::Refusals);
    Some(shared.statuses.refused(error.clone()).into_http())
}

/// Marks a response whose stalled readers [`StallWatch`] detects.
pub(crate) fn stall_watched(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(StallWatched);
    response
}

impl NamedService for AgentStreamServer {
    const NAME: &'static str = generated::SERVICE_NAME;
}

impl<B> Service<Request<B>> for AgentStreamServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if let Some(refused) = refused(request.extensions(), &self.shared) {
            return Box::pin(async { Ok(refused) });
        }
        // A publisher may pause between payloads without limit.
        let limit = (!request.uri().path().ends_with("/Publish")).then_some(self.shared.timeouts.request);
        let statuses = self.shared.statuses;
        let request = admitted(request).map(|body| TimedBody::new(body, limit, statuses));
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(stall_watched) })
    }
}

/// The routes of [`AgentStreamServer`], health, reflection and other services.
#[derive(Debug)]
pub struct Services {
    service: AgentStreamServer,
    config: Config,
    names: Vec<&'static str>,
    routes: Router,
    descriptions: Vec<&'static [u8]>,
}

impl Services {
    /// Returns the services for a [`RunService`].
    pub fn new(service: Arc<dyn RunService>, config: Config) -> Self {
        let service = AgentStreamServer::new(service, &config);
        let services = Self {
            service: service.clone(),
            config,
            names: Vec::new(),
            routes: Router::new(),
            descriptions: vec![crate::FILE_DESCRIPTOR_SET],
        };
        services.mount(service)
    }

    /// Mounts another tonic service.
    pub fn mount<S>(mut self, service: S) -> Self
    where
        S: Service<Request<AxumBody>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes = self.routes.route(&format!("/{}/{{*method}}", S::NAME), post_service(service));
        self
    }

    /// Mounts another service of bytes, with the same limits and counters.
    pub fn mount_raw<S: RawService>(self, service: Arc<S>) -> Self {
        let raw = self.service.beside(service);
        self.mount(raw)
    }

    /// Adds the encoded `FileDescriptorSet` of another service to reflection.
    pub fn describe(mut self, descriptor_set: &'static [u8]) -> Self {
        self.descriptions.push(descriptor_set);
        self
    }

    /// Returns the live counts: streams, publishers, calls, messages.
    pub fn counters(&self) -> Counters {
        self.service.counters()
    }

    /// Returns the routes, for a server of their own or merged with others. They have no fallback; [`unimplemented()`] is the
    /// fallback for a port of gRPC alone.
    ///
    /// # Errors
    ///
    /// Returns an error if a descriptor for reflection is invalid.
    pub fn router(mut self) -> Result<Router, Error> {
        if self.config.health {
            let names = std::mem::take(&mut self.names);
            self = self.mount(HealthServer::new(Health::new(names)));
            self.descriptions.push(tonic_health::pb::FILE_DESCRIPTOR_SET);
        }
        if !self.config.reflection {
            return Ok(self.routes);
        }
        let builder = || {
            let builder = tonic_reflection::server::Builder::configure();
            self.descriptions
                .iter()
                .fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
        };
        let unusable = |error: tonic_reflection::server::Error| Error::Description(error.to_string());
        let current = builder().build_v1().map_err(unusable)?;
        // grpcurl and older clients use this version.
        let older = builder().build_v1alpha().map_err(unusable)?;
        Ok(self.mount(current).mount(older).routes)
    }
}

/// Answers a call of a service that is not mounted with `UNIMPLEMENTED`, which gRPC clients read from the headers. Used as the
/// fallback of a router.
pub async fn unimplemented() -> AxumResponse {
    std::future::ready(Status::unimplemented("there is no such service").into_http::<Body>())
        .await
        .into_response()
}
