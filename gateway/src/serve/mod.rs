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
use tokio::time::Instant;

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

/// A gateway with bound sockets that does not accept connections yet: [`serve`](Self::serve) starts that.
///
/// Binding and serving are separate, so that a command can report its addresses (port 0 is decided by the bind) and
/// handle signals before the first request.
#[derive(Debug)]
pub struct Listening {
    gateway: Arc<Gateway>,
    /// The A2A servers of all agents, shared by HTTP and gRPC: a task that one binding starts is visible in the other.
    a2a: Servers,
    /// Servers of `server.listen`: all routes, gRPC included.
    servers: Vec<Server>,
    /// Servers of addresses for gRPC alone.
    grpc_servers: Vec<Server>,
    /// Servers of addresses for probes and metrics alone.
    admin_servers: Vec<Server>,
    /// The routes of the gRPC services, mounted on both kinds of servers.
    grpc: Router,
    counters: TransportCounters,
    quotas: Quotas,
    /// Cancelled by SIGTERM: the gateway is not ready, refuses new runs, and drains after `server.pre_stop`.
    leaving: CancelToken,
    /// Cancelled by SIGINT or at the end of `pre_stop`: the servers stop accepting and drain.
    shutdown: CancelToken,
}

impl Listening {
    /// Binds every configured address. Must be called inside a runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if an address cannot be bound or a certificate cannot be read. Sockets that were bound before
    /// are closed.
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
            // Probes of an orchestrator use plain HTTP, and have no account for quotas. The admin port is for a private
            // network.
            let plain = ServerConfig { tls: None, ..server_config(&config, ServerConfig::default())? };
            admin_servers.push(Server::bind(*address, plain).await?);
        }
        // A reload replaces the certificates of these ports without closing connections.
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
    ///
    /// Used by `aqueduct mock` and `aqueduct demo`, whose agents are addressed as `http://host:port`, without a path.
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

    /// Returns the bound addresses of `server.listen`, with the ports that the system chose in place of port 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not report the address of a socket.
    pub fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the bound addresses for gRPC alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not report the address of a socket.
    pub fn grpc_addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.grpc_servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the token that starts leaving: the gateway drains after `server.pre_stop`.
    pub fn leaving(&self) -> CancelToken {
        self.leaving.clone()
    }

    /// Returns the bound addresses for probes and metrics alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not report the address of a socket.
    pub fn admin_addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        Ok(self.admin_servers.iter().map(Server::local_addr).collect::<Result<_, _>>()?)
    }

    /// Returns the token that starts draining at once.
    pub fn shutdown(&self) -> CancelToken {
        self.shutdown.clone()
    }

    /// Serves until one of the tokens is cancelled and all runs and connections have ended.
    ///
    /// Cancel one of the tokens instead of dropping the future, which would cut every connection.
    ///
    /// The stop takes at most `server.pre_stop` plus `server.drain`, and some seconds to close connections, to end the
    /// last runs and to export the last metrics.
    pub async fn serve(self) {
        let gateway = Arc::clone(&self.gateway);
        let (leaving, shutdown) = (self.leaving.clone(), self.shutdown.clone());
        let (mut tasks, probes) = self.start();
        let stopped = CancelToken::new();
        let export = gateway.metrics_export().map(|export| probes.export_metrics(export, stopped.clone()));
        let export = export.map(tokio::spawn);
        // Leases are renewed until the last run has ended, also while the gateway drains.
        let mut housekeeping = JoinSet::new();
        housekeeping.spawn(gateway.runs().clone().run_housekeeping());
        leave(&gateway, &leaving, &shutdown).await;
        let drain = gateway.config().server.drain;
        tracing::info!(runs = gateway.active_runs(), ?drain, "draining");
        // Runs that another replica can resume leave now; the others have until `drain` is nearly over.
        gateway.runs().hand_over();
        let runs = gateway.runs().clone();
        let mut left = tokio::spawn(async move { runs.left().await });
        let last_call_at = Instant::now() + drain.saturating_sub(LAST_CALL);
        let last_call = tokio::spawn(last_call(Arc::clone(&gateway), last_call_at));
        // Each server ends when its connections have ended, or cuts them after `drain`.
        while let Some(drained) = tasks.join_next().await {
            let cut = drained.map(|drained| drained.cut).unwrap_or_default();
            if cut > 0 {
                tracing::warn!(cut, "connections were cut because their runs did not end in time");
            }
        }
        // All connections have ended. Runs without a watcher may remain: they have as long as watched ones.
        let until = last_call_at.max(Instant::now()) + LAST_CALL;
        if tokio::time::timeout_at(until, &mut left).await.is_err() {
            left.abort();
            tracing::warn!(runs = gateway.active_runs(), "runs were left behind");
        }
        last_call.abort();
        // Metrics and spans are exported last, so that they include the ends of all runs.
        housekeeping.shutdown().await;
        stopped.cancel();
        if let Some(export) = export {
            export.await.ok();
        }
        gateway.stop_telemetry().await;
        tracing::info!("stopped");
    }

    /// Starts every server with its routes. Returns the probes, which read the counters of the servers.
    ///
    /// ```text
    /// request ──► id, count, log ──► host and origin ──► authentication ──► route        server.listen
    /// request ──► id, count, log ──────────────────────► authentication ──► gRPC route   server.grpc
    /// request ──► probes and metrics                                                    server.admin
    /// ```
    ///
    /// Probes on the main address skip authentication, and those that report no data skip the check of the host too.
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

/// Returns the routes of a gateway that has no sockets, for a host that serves them itself: without admission, probes
/// and quotas of connections.
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
///
/// The outermost layer, so that refused requests have an id and are counted too.
fn layered(gateway: &Arc<Gateway>, router: Router) -> Router {
    requests::identified(router, gateway)
}

/// Waits for one of the tokens. After `leaving`, waits for `pre_stop`, so that load balancers stop sending requests.
///
/// Afterwards both tokens are cancelled and the gateway refuses new runs, whichever token came first. `shutdown` during
/// `pre_stop` ends the wait.
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

/// Ends the remaining runs when the drain is nearly over. Aborted if all runs end before.
async fn last_call(gateway: Arc<Gateway>, at: Instant) {
    tokio::time::sleep_until(at).await;
    gateway.runs().last_call();
}

/// Returns the hosts and origins that the configuration admits. Loopback names are admitted by default.
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

/// Returns the configuration of a server: `base` with the limits, timeouts and certificates of the gateway's
/// configuration.
///
/// # Errors
///
/// Returns an error if a file of `server.tls` cannot be read or is not a certificate or key.
fn server_config(config: &Config, base: ServerConfig) -> anyhow::Result<ServerConfig> {
    let (settings, mut server) = (&config.server, base);
    server.limits.connections = settings.connections;
    server.limits.body_bytes = routes::longest_body(config);
    server.timeouts.drain = settings.drain;
    server.tls = settings.tls.as_ref().map(tls::of_server).transpose().context("server.tls")?;
    Ok(server)
}

/// Returns the configuration of the gRPC services; `server.merge` is the limit of one merged message of events.
fn grpc_config(config: &Config) -> grpc::Config {
    let limits = grpc::Limits { merge_bytes: config.server.merge, ..grpc::Limits::default() };
    grpc::Config { limits, ..grpc::Config::default() }
}
