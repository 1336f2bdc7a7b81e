//! `aqueduct serve`: the gateway on its sockets.
//!
//! ```text
//! bind ──► serve ── SIGTERM, SIGINT ──► draining: not ready, no new runs, open ones may end ──► `drain` is nearly over:
//!                                       what is left is cancelled ──► stopped
//! ```
//!
//! Every route is in the table of [`routes`]; walls against foreign hosts and origins stand around all of them.

mod a2a;
mod a2a_grpc;
mod a2a_push;
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
use aqueduct_core::service::RunService;
use aqueduct_transport_grpc::{
    AgentStreamServer, BoundServer, Limits as GrpcLimits, Server as GrpcServer, ServerConfig as GrpcConfig,
    Timeouts as GrpcTimeouts,
};
use aqueduct_transport_http::{Counters, Limits, Server, ServerConfig, Shutdown, Timeouts, Walls};
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

/// A gateway that listens.
#[derive(Debug)]
pub struct Listening {
    gateway: Arc<Gateway>,
    a2a: A2aServers,
    servers: Vec<Server>,
    grpc: Vec<BoundServer>,
    counters: Vec<Counters>,
    shutdown: Shutdown,
}

impl Listening {
    /// Listens on every configured address.
    pub async fn bind(gateway: Arc<Gateway>) -> anyhow::Result<Self> {
        let mut servers = Vec::new();
        for address in &gateway.config().server.listen {
            let config = server_config(&gateway.config())?;
            servers.push(Server::bind(*address, config).await?);
        }
        let counters = servers.iter().map(Server::counters).collect();
        let service: Arc<dyn RunService> = Arc::new(GatewayService(Arc::clone(&gateway)));
        let a2a = A2aServers::new(&gateway, &service);
        let mut grpc = Vec::new();
        for address in &gateway.config().server.grpc {
            let service = Arc::new(GatewayService(Arc::clone(&gateway)));
            let server = GrpcServer::new(service, grpc_config(&gateway.config())?)
                .mount_raw(Arc::new(A2aV1(a2a.clone())))
                .mount_raw(Arc::new(A2aV03(a2a.clone())));
            grpc.push(server.bind(*address).await?);
        }
        Ok(Self { gateway, a2a, servers, grpc, counters, shutdown: Shutdown::new() })
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
    pub fn grpc_addresses(&self) -> Vec<SocketAddr> {
        self.grpc.iter().map(BoundServer::address).collect()
    }

    /// The live counts of its sockets.
    pub fn counters(&self) -> &[Counters] {
        &self.counters
    }

    /// The switch that stops it.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Serves until the switch is turned and everything has ended.
    pub async fn serve(self) {
        let Self { gateway, a2a, servers, grpc: grpc_servers, counters, shutdown } = self;
        let service = Arc::new(GatewayService(Arc::clone(&gateway)));
        let sockets = ws::endpoint(Arc::clone(&service) as _, &gateway);
        let grpc = AgentStreamServer::new(Arc::clone(&service) as _, &GrpcConfig::default());
        let router = routes::router(&gateway, &service, &counters, &sockets, &grpc, &a2a);
        let walls = walls(&gateway.config());
        let mut tasks = JoinSet::new();
        for server in servers {
            let router = walls.clone().around(router.clone());
            let router = if a2a.root().is_some() { cut::cutting(router) } else { router };
            let router = requests::identified(router);
            let shutdown = shutdown.clone();
            tasks.spawn(async move { server.serve(router, shutdown).await });
        }
        let mut grpc_tasks = JoinSet::new();
        let grpc_switches: Vec<_> = grpc_servers.iter().map(BoundServer::shutdown).collect();
        for server in grpc_servers {
            grpc_tasks.spawn(server.serve());
        }
        let mut housekeeping = JoinSet::new();
        housekeeping.spawn(gateway.runs().clone().run_housekeeping());
        shutdown.triggered().await;
        gateway.drain();
        let drain = gateway.config().server.drain;
        for switch in grpc_switches {
            switch.trigger();
        }
        let sockets = tokio::spawn(async move { sockets.shutdown().stop(drain).await });
        tracing::info!(runs = gateway.active_runs(), ?drain, "draining");
        let last_call = tokio::spawn(last_call(Arc::clone(&gateway), drain.saturating_sub(LAST_CALL)));
        while let Some(drained) = tasks.join_next().await {
            let cut = drained.map(|drained| drained.cut).unwrap_or_default();
            if cut > 0 {
                tracing::warn!(cut, "connections were cut because their runs did not end in time");
            }
        }
        sockets.await.ok();
        while grpc_tasks.join_next().await.is_some() {}
        last_call.abort();
        leave(&gateway).await;
        housekeeping.shutdown().await;
        tracing::info!("stopped");
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

fn walls(config: &Config) -> Walls {
    let server = &config.server;
    Walls {
        hosts: server.hosts.clone(),
        any_host: server.any_host,
        origins: server.origins.clone(),
        cors: server.cors,
        ..Walls::default()
    }
}

fn server_config(config: &Config) -> anyhow::Result<ServerConfig> {
    let server = &config.server;
    let tls = server.tls.as_ref().map(tls::of_server);
    Ok(ServerConfig {
        limits: Limits {
            connections: server.connections,
            body_bytes: routes::longest_body(config),
            ..Limits::default()
        },
        timeouts: Timeouts { drain: server.drain, ..Timeouts::default() },
        tls: tls.transpose().context("server.tls")?,
    })
}

fn grpc_config(config: &Config) -> anyhow::Result<GrpcConfig> {
    let tls = config.server.tls.as_ref().map(tls::of_server);
    let timeouts = GrpcTimeouts { drain: config.server.drain, ..GrpcTimeouts::default() };
    let limits = GrpcLimits { merge_bytes: config.server.merge, ..GrpcLimits::default() };
    Ok(GrpcConfig { limits, timeouts, tls: tls.transpose().context("server.tls")?, ..GrpcConfig::default() })
}
