//! `aqueduct serve`: the gateway on its sockets.
//!
//! ```text
//! bind ──► serving ── SIGTERM ──► leaving: not ready, no new runs, all else works ── `pre_stop` ──► draining
//!             └───── SIGINT ──────────────────────────────────────────────────────────────────────►    │
//!      draining: no new connections; runs that can go on elsewhere are handed over, the others may end ┘
//!         └ `drain` is nearly over: what is left fails as `gateway_lost` ──► stopped
//! ```
//!
//! A run that continues elsewhere is not cancelled at its agent: with a shared log another replica takes it over at
//! once, with a log on disk the next start does.
//!
//! Every route is in the table of [`routes`]; admission by host and origin precedes all of them. WebSocket and gRPC are
//! routes of the same server; an address for gRPC alone has only the gRPC routes.

mod a2a;
mod agui;
mod command;
mod cut;
mod demo;
mod inspector;
mod probes;
mod proxy;
mod reload;
mod requests;
pub mod routes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct::a2a::Servers;
use aqueduct::grpc;
use aqueduct_core::CancelToken;
use aqueduct_core::service::RunService;
use aqueduct_transport_http::{
    Admission, Counters, Drained, Quotas, Server, ServerConfig, Workers, authenticated,
};
use axum::Router;
use tokio::task::JoinSet;

pub use command::serve;
pub(crate) use command::{load_config, run_config, stop_on_signal};
pub use demo::{DEMO_PORT, DemoAgents, demo, demo_gateway};
use probes::Probes;

use crate::config::Config;
use crate::quota;
use crate::service::Gateway;
use crate::tls;

/// Remaining runs are ended this long before the drain ends, so that their watchers receive the end.
const LAST_CALL: Duration = Duration::from_secs(2);

/// The counters of the transports, by their name in metrics. Counters with the same name are added.
pub(crate) type TransportCounters = Vec<(&'static str, Counters)>;

/// A gateway with bound sockets.
#[derive(Debug)]
pub struct Listening {
    gateway: Arc<Gateway>,
    a2a: Servers,
    servers: Vec<Server>,
    /// Servers of addresses for gRPC alone.
    grpc_servers: Vec<Server>,
    /// Servers of addresses for probes and metrics alone.
    admin_servers: Vec<Server>,
    grpc: Router,
    counters: TransportCounters,
    quotas: Quotas,
    leaving: CancelToken,
    shutdown: CancelToken,
}

impl Listening {
    /// Binds every configured address.
    ///
    /// # Errors
    ///
    /// Returns an error if an address cannot be bound or a certificate cannot be read.
    pub async fn bind(gateway: Arc<Gateway>) -> anyhow::Result<Self> {
        let config = gateway.config();
        let leaving = CancelToken::new();
        // One ledger for all addresses: quotas of a caller apply across them.
        let quotas = Quotas::new(quota::limits(&config));
        let (mut servers, mut grpc_servers) = (Vec::new(), Vec::new());
        for address in &config.server.listen {
            let server = Server::bind(*address, server_config(&config, ServerConfig::default())?).await?;
            servers.push(server.leaving_by(leaving.clone()).with_quotas(quotas.clone()));
        }
        for address in &config.server.grpc {
            let server = Server::bind(*address, server_config(&config, ServerConfig::http2_only())?).await?;
            grpc_servers.push(server.leaving_by(leaving.clone()).with_quotas(quotas.clone()));
        }
        let mut admin_servers = Vec::new();
        for address in &config.server.admin {
            let plain = ServerConfig { tls: None, ..server_config(&config, ServerConfig::default())? };
            admin_servers.push(Server::bind(*address, plain).await?);
        }
        for tls in servers.iter().chain(&grpc_servers).filter_map(Server::tls) {
            gateway.renew_certificates_of(tls);
        }
        let a2a = a2a::servers(&gateway);
        let grpc = proxy::mount_grpc(grpc::services(gateway.runs(), grpc_config(&config)), &gateway, &a2a);
        let mut counters = vec![("grpc", grpc.counters())];
        counters.extend(servers.iter().chain(&grpc_servers).map(|server| ("http", server.counters())));
        let (grpc, shutdown) = (grpc.router()?, CancelToken::new());
        Ok(Self {
            gateway,
            a2a,
            servers,
            grpc_servers,
            admin_servers,
            grpc,
            counters,
            quotas,
            leaving,
            shutdown,
        })
    }

    /// Serves `agent` over A2A at `/` too, and cuts connections where its script requests it.
    pub(crate) fn playing(mut self, agent: &str) -> Self {
        self.a2a = self.a2a.with_root(Some(agent));
        self
    }

    /// Serves connections on these threads. Probes and metrics stay on the runtime that serves.
    pub fn on_workers(mut self, workers: &Workers) -> Self {
        let move_all =
            |servers: Vec<Server>| servers.into_iter().map(|server| server.on_workers(workers)).collect();
        self.servers = move_all(self.servers);
        self.grpc_servers = move_all(self.grpc_servers);
        self
    }

    /// Returns the bound addresses.
    pub fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the bound addresses for gRPC alone.
    pub fn grpc_addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.grpc_servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the token that starts leaving: the gateway drains after `server.pre_stop`.
    pub fn leaving(&self) -> CancelToken {
        self.leaving.clone()
    }

    /// Returns the bound addresses for probes and metrics alone.
    pub fn admin_addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.admin_servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the token that starts draining at once.
    pub fn shutdown(&self) -> CancelToken {
        self.shutdown.clone()
    }

    /// Serves until one of the tokens is cancelled and all runs and connections have ended.
    pub async fn serve(self) {
        let gateway = Arc::clone(&self.gateway);
        let (leaving, shutdown) = (self.leaving.clone(), self.shutdown.clone());
        let (mut tasks, probes) = self.start();
        let stopped = CancelToken::new();
        let export = gateway.metrics_export().map(|export| probes.export_metrics(export, stopped.clone()));
        let export = export.map(tokio::spawn);
        let mut housekeeping = JoinSet::new();
        housekeeping.spawn(gateway.runs().clone().run_housekeeping());
        leave(&gateway, &leaving, &shutdown).await;
        let drain = gateway.config().server.drain;
        tracing::info!(runs = gateway.active_runs(), ?drain, "draining");
        gateway.runs().hand_over();
        let runs = gateway.runs().clone();
        let mut left = tokio::spawn(async move { runs.left().await });
        let last_call = tokio::spawn(last_call(Arc::clone(&gateway), drain.saturating_sub(LAST_CALL)));
        while let Some(drained) = tasks.join_next().await {
            let cut = drained.map(|drained| drained.cut).unwrap_or_default();
            if cut > 0 {
                tracing::warn!(cut, "connections were cut because their runs did not end in time");
            }
        }
        last_call.abort();
        gateway.runs().last_call();
        if tokio::time::timeout(LAST_CALL, &mut left).await.is_err() {
            left.abort();
            tracing::warn!(runs = gateway.active_runs(), "runs were left behind");
        }
        housekeeping.shutdown().await;
        stopped.cancel();
        if let Some(export) = export {
            export.await.ok();
        }
        gateway.stop_telemetry().await;
        tracing::info!("stopped");
    }

    /// Starts every server with its routes. Returns the probes, which read the counters of the servers.
    fn start(self) -> (JoinSet<Drained>, Probes) {
        let Self {
            gateway,
            a2a,
            servers,
            grpc_servers,
            admin_servers,
            grpc,
            mut counters,
            quotas,
            shutdown,
            ..
        } = self;
        let sockets = routes::sockets(&gateway);
        counters.push(("ws", sockets.counters()));
        let probes = Probes { gateway: Arc::clone(&gateway), counters: Arc::new(counters), quotas };
        // Browsers cannot use an address for gRPC alone, so no admission by origin is needed.
        let known: Arc<dyn RunService> = Arc::new(gateway.runs().clone());
        let alone = grpc.clone().fallback(grpc::unimplemented);
        let alone = layered(&gateway, authenticated(alone, Arc::clone(&known)));
        let router = routes::router(&gateway, &a2a, &sockets, grpc);
        let router = authenticated(router, known);
        let admission = admission(&gateway.config());
        // Scrapers may address a pod by its IP address.
        let metrics = Admission { any_address: true, ..admission.clone() }.apply(probes.walled_routes());
        let router = admission.apply(router).merge(metrics).merge(probes.open_routes(false));
        let router = layered(&gateway, if a2a.root().is_some() { cut::cutting(router) } else { router });
        let mut tasks = JoinSet::new();
        for server in servers {
            tasks.spawn(server.serve(router.clone(), shutdown.clone()));
        }
        for server in grpc_servers {
            tasks.spawn(server.serve(alone.clone(), shutdown.clone()));
        }
        for server in admin_servers {
            tasks.spawn(server.serve(probes.open_routes(true), shutdown.clone()));
        }
        (tasks, probes)
    }
}

/// Returns the routes of a gateway that has no sockets, for a host that serves them itself: without admission, probes and
/// quotas of connections.
///
/// # Errors
///
/// Returns an error if the descriptions of the gRPC services cannot be read.
pub fn router(gateway: &Arc<Gateway>) -> anyhow::Result<Router> {
    let a2a = a2a::servers(gateway);
    let services = grpc::services(gateway.runs(), grpc_config(&gateway.config()));
    let grpc = proxy::mount_grpc(services, gateway, &a2a).router()?;
    let router = routes::router(gateway, &a2a, &routes::sockets(gateway), grpc);
    Ok(authenticated(router, Arc::new(gateway.runs().clone())))
}

/// Adds the layers that handle every request before its body is read.
fn layered(gateway: &Arc<Gateway>, router: Router) -> Router {
    requests::identified(router, gateway)
}

/// Waits for one of the tokens. After `leaving`, waits for `pre_stop`, so that load balancers stop sending requests.
async fn leave(gateway: &Gateway, leaving: &CancelToken, shutdown: &CancelToken) {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = leaving.cancelled() => {
            gateway.drain();
            let pre_stop = gateway.config().server.pre_stop;
            tracing::info!(runs = gateway.active_runs(), ?pre_stop, "leaving: not ready, and no new runs");
            tokio::time::timeout(pre_stop, shutdown.cancelled()).await.ok();
        }
    }
    leaving.cancel();
    shutdown.cancel();
    gateway.drain();
}

async fn last_call(gateway: Arc<Gateway>, after: Duration) {
    tokio::time::sleep(after).await;
    gateway.runs().last_call();
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

fn grpc_config(config: &Config) -> grpc::Config {
    let limits = grpc::Limits { merge_bytes: config.server.merge, ..grpc::Limits::default() };
    grpc::Config { limits, ..grpc::Config::default() }
}
