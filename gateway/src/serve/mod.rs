//! `aqueduct serve`: the gateway on its sockets.
//!
//! ```text
//! bind ──► serve ── SIGTERM, SIGINT ──► draining: not ready, no new runs, open ones may end ──► `drain` is nearly over:
//!                                       what is left is cancelled ──► stopped
//! ```
//!
//! Every route is in the table of [`routes`]; admission by host and origin stands before all of them. WebSocket and gRPC
//! are routes of the same server; an address for gRPC alone has the gRPC routes and no others.

mod a2a;
mod a2a_grpc;
mod agui;
mod command;
mod cut;
mod demo;
mod inspector;
mod proxy;
mod requests;
pub mod routes;
mod threads;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_core::CancelToken;
use aqueduct_core::service::RunService;
use aqueduct_transport_grpc::{Config as GrpcConfig, Limits as GrpcLimits, Services, unimplemented};
use aqueduct_transport_http::{Admission, Counters, Drained, Server, ServerConfig};
use axum::Router;
use tokio::task::JoinSet;

use a2a::A2aServers;
use a2a_grpc::{A2aV1, A2aV03};
pub use command::serve;
pub(crate) use command::{load_config, run_config, stop_on_signal};
pub use demo::{DEMO_PORT, DemoAgents, demo, demo_gateway};

use crate::config::Config;
use crate::service::{Gateway, GatewayService};
use crate::tls;

/// How long before the end of the drain the runs that are left are cancelled, so that their readers are told.
const LAST_CALL: Duration = Duration::from_secs(2);

/// The counts of the transports, by the name under which metrics show them. Several of one name are added up.
pub(crate) type TransportCounters = Vec<(&'static str, Counters)>;

/// A gateway that listens.
#[derive(Debug)]
pub struct Listening {
    gateway: Arc<Gateway>,
    a2a: A2aServers,
    servers: Vec<Server>,
    /// Addresses for gRPC alone.
    grpc_servers: Vec<Server>,
    grpc: Router,
    counters: TransportCounters,
    shutdown: CancelToken,
}

impl Listening {
    /// Listens on every configured address.
    pub async fn bind(gateway: Arc<Gateway>) -> anyhow::Result<Self> {
        let config = gateway.config();
        let (mut servers, mut grpc_servers) = (Vec::new(), Vec::new());
        for address in &config.server.listen {
            servers.push(Server::bind(*address, server_config(&config, ServerConfig::default())?).await?);
        }
        for address in &config.server.grpc {
            grpc_servers
                .push(Server::bind(*address, server_config(&config, ServerConfig::http2_only())?).await?);
        }
        let service: Arc<dyn RunService> = Arc::new(GatewayService(Arc::clone(&gateway)));
        let a2a = A2aServers::new(&gateway, &service);
        let grpc = Services::new(service, grpc_config(&config))
            .mount_raw(Arc::new(A2aV1(a2a.clone())))
            .mount_raw(Arc::new(A2aV03(a2a.clone())));
        let mut counters = vec![("grpc", grpc.counters())];
        counters.extend(servers.iter().chain(&grpc_servers).map(|server| ("http", server.counters())));
        let (grpc, shutdown) = (grpc.router()?, CancelToken::new());
        Ok(Self { gateway, a2a, servers, grpc_servers, grpc, counters, shutdown })
    }

    /// Serves that agent over A2A at `/` too, and hangs up where its script says so.
    pub(crate) fn playing(mut self, agent: &str) -> Self {
        self.a2a = self.a2a.with_root(Some(agent));
        self
    }

    /// Where it listens.
    pub fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Where it listens for gRPC alone.
    pub fn grpc_addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.grpc_servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// The switch that stops it.
    pub fn shutdown(&self) -> CancelToken {
        self.shutdown.clone()
    }

    /// Serves until the switch is turned and everything has ended.
    pub async fn serve(self) {
        let (gateway, shutdown) = (Arc::clone(&self.gateway), self.shutdown.clone());
        let mut tasks = self.start();
        let mut housekeeping = JoinSet::new();
        housekeeping.spawn(gateway.runs().clone().run_housekeeping());
        shutdown.cancelled().await;
        gateway.drain();
        let drain = gateway.config().server.drain;
        tracing::info!(runs = gateway.active_runs(), ?drain, "draining");
        let last_call = tokio::spawn(last_call(Arc::clone(&gateway), drain.saturating_sub(LAST_CALL)));
        while let Some(drained) = tasks.join_next().await {
            let cut = drained.map(|drained| drained.cut).unwrap_or_default();
            if cut > 0 {
                tracing::warn!(cut, "connections were cut because their runs did not end in time");
            }
        }
        last_call.abort();
        leave(&gateway).await;
        housekeeping.shutdown().await;
        tracing::info!("stopped");
    }

    /// Starts every server with its routes.
    fn start(self) -> JoinSet<Drained> {
        let Self { gateway, a2a, servers, grpc_servers, grpc, mut counters, shutdown } = self;
        let service = Arc::new(GatewayService(Arc::clone(&gateway)));
        let sockets = ws::endpoint(Arc::clone(&service) as _, &gateway);
        counters.push(("ws", sockets.counters()));
        let router = routes::router(&gateway, &service, counters, &a2a).merge(sockets.router());
        let router = admission(&gateway.config()).apply(router.merge(grpc.clone()));
        let router = if a2a.root().is_some() { cut::cutting(router) } else { router };
        let router = requests::identified(router);
        let mut tasks = JoinSet::new();
        for server in servers {
            tasks.spawn(server.serve(router.clone(), shutdown.clone()));
        }
        // Browsers cannot open such a connection, so there is no page to keep out.
        let alone = grpc.fallback(unimplemented);
        for server in grpc_servers {
            tasks.spawn(server.serve(alone.clone(), shutdown.clone()));
        }
        tasks
    }
}

/// Runs that nobody watches may be left: their agents are told.
async fn leave(gateway: &Gateway) {
    gateway.stop_all();
    let empty = async {
        while gateway.active_runs() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LAST_CALL, empty).await.is_err() {
        tracing::warn!(runs = gateway.active_runs(), "runs were left behind");
    }
}

async fn last_call(gateway: Arc<Gateway>, after: Duration) {
    tokio::time::sleep(after).await;
    gateway.stop_all();
}

fn admission(config: &Config) -> Admission {
    let server = &config.server;
    Admission {
        hosts: server.hosts.clone(),
        any_host: server.any_host,
        origins: server.origins.clone(),
        cors: server.cors,
        ..Admission::default()
    }
}

fn server_config(config: &Config, base: ServerConfig) -> anyhow::Result<ServerConfig> {
    let (settings, mut server) = (&config.server, base);
    server.limits.connections = settings.connections;
    server.limits.body_bytes = routes::longest_body(config);
    server.timeouts.drain = settings.drain;
    server.tls = settings.tls.as_ref().map(tls::of_server).transpose().context("server.tls")?;
    Ok(server)
}

fn grpc_config(config: &Config) -> GrpcConfig {
    let limits = GrpcLimits { merge_bytes: config.server.merge, ..GrpcLimits::default() };
    GrpcConfig { limits, ..GrpcConfig::default() }
}
