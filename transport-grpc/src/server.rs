//! The service, and a server for it.
//!
//! * [`AgentStreamServer`] is the `aqueduct.v1.AgentStream` service: mount it wherever tower services go.
//! * [`Server`] serves it on a listener of its own, with health, reflection and whatever else is mounted.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use aqueduct_core::service::RunService;
//! # use aqueduct_transport_grpc::{Server, ServerConfig, ServerError};
//! # async fn serve(service: Arc<dyn RunService>) -> Result<(), ServerError> {
//! let server = Server::new(service, ServerConfig::default()).bind("127.0.0.1:50051").await?;
//! println!("listening on {}", server.address());
//! server.serve().await;
//! # Ok(())
//! # }
//! ```

mod body;
mod connection;
mod guard;
mod handler;
mod preface;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use aqueduct_core::service::RunService;
use bytes::Bytes;
use http::{Request, Response};
use tokio::net::{TcpListener, ToSocketAddrs};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::service::Routes;

use crate::config::ServerConfig;
use crate::counters::Counters;
use crate::driver::Shared;
use crate::error::ServerError;
use crate::proto::agent_stream_server as generated;
use crate::raw::{RawServer, RawService};
use crate::shutdown::{Drained, Shutdown};
use crate::stall::StallWatch;
use connection::Connections;
use handler::Handler;

pub(crate) use body::TimedBody;
pub(crate) use handler::Call;
pub use handler::{PeerAddress, PeerCertificate};

/// The service `aqueduct.v1.AgentStream` over a [`RunService`]. Clones share everything.
#[derive(Debug, Clone)]
pub struct AgentStreamServer {
    inner: generated::AgentStreamServer<Handler>,
    shared: Arc<Shared>,
    stalls: Arc<StallWatch>,
}

impl AgentStreamServer {
    /// The service. Of `config`, what concerns the listener is not used.
    pub fn new(service: Arc<dyn RunService>, config: &ServerConfig) -> Self {
        let shared = Arc::new(Shared::new(config));
        let stalls = StallWatch::new(config.timeouts.write_stall);
        let handler = Handler { service, shared: Arc::clone(&shared), stalls: Arc::clone(&stalls) };
        let inner = generated::AgentStreamServer::new(handler);
        Self { inner: inner.max_decoding_message_size(config.limits.request_bytes), shared, stalls }
    }

    /// Its counters. Those of connections stay zero unless a [`Server`] serves it.
    pub fn counters(&self) -> Counters {
        self.shared.counters.clone()
    }

    /// Another service with the same limits and counters, that stops with this one. Mount it beside.
    pub fn beside<S: RawService>(&self, service: Arc<S>) -> RawServer<S> {
        RawServer::sharing(service, Arc::clone(&self.shared), Arc::clone(&self.stalls))
    }

    /// Ends all streams with `UNAVAILABLE` and the number to continue from; later calls end the same way.
    pub fn stop_streams(&self) {
        self.shared.stop.cancel();
    }
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
        // A publisher may rest between payloads for as long as it likes.
        let limit = (!request.uri().path().ends_with("/Publish")).then_some(self.shared.timeouts.request);
        let statuses = self.shared.statuses;
        self.inner.call(request.map(|body| TimedBody::new(body, limit, statuses)))
    }
}

/// Serves [`AgentStreamServer`], health, reflection and other services on one port.
#[derive(Debug)]
pub struct Server {
    service: AgentStreamServer,
    config: ServerConfig,
    routes: Routes,
    descriptions: Vec<&'static [u8]>,
    shutdown: Shutdown,
}

impl Server {
    /// A server for a service.
    pub fn new(service: Arc<dyn RunService>, config: ServerConfig) -> Self {
        let service = AgentStreamServer::new(service, &config);
        Self {
            routes: Routes::new(service.clone()),
            service,
            config,
            descriptions: vec![crate::FILE_DESCRIPTOR_SET],
            shutdown: Shutdown::new(),
        }
    }

    /// Serves another tonic service on the same port.
    pub fn mount<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.routes = self.routes.add_service(service);
        self
    }

    /// Serves another service of bytes on the same port; it stops and counts with the server.
    pub fn mount_raw<S: RawService>(self, service: Arc<S>) -> Self {
        let raw = self.service.beside(service);
        self.mount(raw)
    }

    /// Lets reflection tell of another service: its encoded `FileDescriptorSet`.
    pub fn describe(mut self, descriptor_set: &'static [u8]) -> Self {
        self.descriptions.push(descriptor_set);
        self
    }

    /// The switch that stops it.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// What it does.
    pub fn counters(&self) -> Counters {
        self.service.counters()
    }

    /// Takes an address; port 0 takes a free one.
    pub async fn bind(
        self,
        address: impl ToSocketAddrs + std::fmt::Debug,
    ) -> Result<BoundServer, ServerError> {
        let name = format!("{address:?}");
        let listener =
            TcpListener::bind(address).await.map_err(|source| ServerError::Bind { address: name, source })?;
        self.listen(listener)
    }

    /// Takes a listener that is there already.
    pub fn listen(mut self, listener: TcpListener) -> Result<BoundServer, ServerError> {
        let address = listener.local_addr().map_err(ServerError::Socket)?;
        let buffer = self.config.limits.send_buffer_bytes;
        // Set on the listener, so that connections have it before their first byte.
        socket2::SockRef::from(&listener).set_send_buffer_size(buffer).map_err(ServerError::Socket)?;
        #[cfg(feature = "tls")]
        let tls = self.config.tls.take().map(|tls| tls.into_config(crate::tls::PROTOCOLS)).transpose()?;
        let (health, health_service) = tonic_health::server::health_reporter();
        if self.config.health {
            self.routes = self.routes.add_service(health_service);
            self.descriptions.push(tonic_health::pb::FILE_DESCRIPTOR_SET);
        }
        if self.config.reflection {
            self.add_reflection()?;
        }
        let connections = Connections {
            routes: self.routes.prepare(),
            config: self.config,
            shared: self.service.shared,
            #[cfg(feature = "tls")]
            tls: tls.map(Into::into),
        };
        Ok(BoundServer { listener, address, connections, health, shutdown: self.shutdown })
    }

    fn add_reflection(&mut self) -> Result<(), ServerError> {
        let builder = || {
            let builder = tonic_reflection::server::Builder::configure();
            self.descriptions
                .iter()
                .fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
        };
        let unusable = |error: tonic_reflection::server::Error| ServerError::Description(error.to_string());
        let current = builder().build_v1().map_err(unusable)?;
        // What grpcurl and older clients ask for.
        let older = builder().build_v1alpha().map_err(unusable)?;
        self.routes = std::mem::take(&mut self.routes).add_service(current).add_service(older);
        Ok(())
    }
}

/// A server with an address.
#[derive(Debug)]
pub struct BoundServer {
    listener: TcpListener,
    address: SocketAddr,
    connections: Connections,
    health: tonic_health::server::HealthReporter,
    shutdown: Shutdown,
}

impl BoundServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The switch that stops it.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// What it does.
    pub fn counters(&self) -> Counters {
        self.connections.shared.counters.clone()
    }

    /// Serves until the [`Shutdown`] is triggered and all has ended.
    pub async fn serve(self) -> Drained {
        use tonic_health::ServingStatus::NotServing;
        self.health.set_serving::<AgentStreamServer>().await;
        let health = self.health;
        let leaving = async {
            self.shutdown.triggered().await;
            health.set_service_status("", NotServing).await;
            health.set_not_serving::<AgentStreamServer>().await;
        };
        self.connections.serve(self.listener, leaving, &self.shutdown).await
    }
}
