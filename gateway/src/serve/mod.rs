//! `aqueduct serve`: the gateway on its sockets.
//!
//! ```text
//! bind ──► serving ── SIGTERM ──► leaving ── `pre_stop` is over ──► draining ── `drain` is over ──► stopped
//!             └───── SIGINT ─────────┴────────────────────────────────▲
//! ```
//!
//! | stage | what happens |
//! |---|---|
//! | leaving | readiness probes fail and new runs are refused; everything else works |
//! | draining | no new connections; runs that another replica can resume are handed over, the others may end |
//! | the last seconds of `drain` (`LAST_CALL`) | runs that have not ended fail as `gateway_lost` |
//!
//! A run that is handed over is not cancelled at its agent: with a shared log another replica takes it over at once, with a
//! log on disk the next start of the gateway does.
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

/// How long before the end of `drain` the remaining runs are ended, so that their watchers still receive the end.
const LAST_CALL: Duration = Duration::from_secs(2);

/// The counters of the transports, each with its name in metrics. Counters with the same name are summed.
pub(crate) type TransportCounters = Vec<(&'static str, Counters)>;

/// A gateway with bound sockets. [`serve`](Self::serve) starts to accept connections.
///
/// Binding and serving are separate, so that a command can report the bound addresses (binding resolves port 0) and handle
/// signals before the first request.
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
    /// The routes of the gRPC services, for `servers` and `grpc_servers`.
    grpc: Router,
    counters: TransportCounters,
    /// The quotas of callers, shared by `servers` and `grpc_servers`.
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
        // All addresses share the quotas, so that the limits of a caller apply across them.
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
            // The admin address is for a private network: probes of an orchestrator use plain HTTP, and no quotas apply.
            let plain = ServerConfig { tls: None, ..server_config(&config, ServerConfig::default())? };
            admin_servers.push(Server::bind(*address, plain).await?);
        }
        // A reload of the configuration replaces the certificates of these servers without closing connections.
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

    /// Serves connections on the threads of `workers`, except those of the admin addresses, which stay on the current runtime.
    pub fn on_workers(mut self, workers: &Workers) -> Self {
        let move_to_workers =
            |servers: Vec<Server>| servers.into_iter().map(|server| server.on_workers(workers)).collect();
        self.servers = move_to_workers(self.servers);
        self.grpc_servers = move_to_workers(self.grpc_servers);
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

    /// Returns the token that starts the stage leaving. The gateway drains after `server.pre_stop`.
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
        tracing::info!(runs = gateway.runs().active_runs(), ?drain, "draining");
        // Runs that another replica can resume are handed over now; the others may end by themselves until the last call.
        gateway.runs().hand_over();
        let runs = gateway.runs().clone();
        let mut all_runs_ended = tokio::spawn(async move { runs.left().await });
        let last_call_at = Instant::now() + drain.saturating_sub(LAST_CALL);
        let last_call = tokio::spawn(last_call(Arc::clone(&gateway), last_call_at));
        // Each server ends when its connections have ended, or cuts them after `drain`.
        while let Some(drained) = tasks.join_next().await {
            let cut = drained.map(|drained| drained.cut).unwrap_or_default();
            if cut > 0 {
                tracing::warn!(cut, "connections were cut because their runs did not end in time");
            }
        }
        // All connections have ended. Runs without a watcher may remain, and have until the last call as well.
        let until = last_call_at.max(Instant::now()) + LAST_CALL;
        if tokio::time::timeout_at(until, &mut all_runs_ended).await.is_err() {
            all_runs_ended.abort();
            tracing::warn!(runs = gateway.runs().active_runs(), "runs did not end in time and are abandoned");
        }
        last_call.abort();
        // Metrics and spans are exported last, so that they include the end of every run.
        housekeeping.shutdown().await;
        stopped.cancel();
        if let Some(export) = export {
            export.await.ok();
        }
        gateway.stop_telemetry().await;
        tracing::info!("stopped");
    }

    /// Starts every server with its routes. Returns the tasks of the servers, and the probes, which read their counters.
    ///
    /// ```text
    /// request ──► id, count, log ──► host and origin ──► authentication ──► route        server.listen
    /// request ──► id, count, log ──────────────────────► authentication ──► gRPC route   server.grpc
    /// request ──► probes and metrics                                                    server.admin
    /// ```
    ///
    /// On `server.listen`, probes and metrics skip authentication, and probes, which report no data, also skip the check of host
    /// and origin.
    fn start(mut self) -> (JoinSet<Drained>, Probes) {
        let (gateway, shutdown) = (&self.gateway, &self.shutdown);
        let sockets = routes::sockets(gateway);
        self.counters.push(("ws", sockets.counters()));
        let counters = Arc::new(self.counters);
        let probes = Probes { gateway: Arc::clone(gateway), counters, quotas: self.quotas };
        // Browsers cannot use an address for gRPC alone, so no admission by origin is needed.
        let service: Arc<dyn RunService> = Arc::new(gateway.runs().clone());
        let grpc_only = self.grpc.clone().fallback(grpc::unimplemented);
        let grpc_only = layered(gateway, authenticated(grpc_only, Arc::clone(&service)));
        let router = routes::router(gateway, &self.a2a, &sockets, self.grpc);
        let router = authenticated(router, service);
        let admission = admission(&gateway.config());
        // Scrapers may address a pod by its IP address.
        let metrics = Admission { any_address: true, ..admission.clone() }.apply(probes.walled_routes());
        let router = admission.apply(router).merge(metrics).merge(probes.open_routes(false));
        let router = if self.a2a.root().is_some() { cut::cutting(router) } else { router };
        let router = layered(gateway, router);
        let mut tasks = JoinSet::new();
        for server in self.servers {
            tasks.spawn(server.serve(router.clone(), shutdown.clone()));
        }
        for server in self.grpc_servers {
            tasks.spawn(server.serve(grpc_only.clone(), shutdown.clone()));
        }
        for server in self.admin_servers {
            tasks.spawn(server.serve(probes.open_routes(true), shutdown.clone()));
        }
        (tasks, probes)
    }
}

/// Returns the routes of a gateway for a program that serves them with a server of its own: without admission by host and
/// origin, probes, and quotas of connections.
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

/// Adds the outermost layer: it assigns an id to every request, counts it and logs it, refused requests included.
fn layered(gateway: &Arc<Gateway>, router: Router) -> Router {
    requests::identified(router, gateway)
}

/// Waits until one of the tokens is cancelled. After `leaving`, also waits for `pre_stop`, or until `shutdown` is cancelled, so
/// that load balancers stop sending requests.
///
/// On return both tokens are cancelled, and the gateway refuses new runs.
async fn leave(gateway: &Gateway, leaving: &CancelToken, shutdown: &CancelToken) {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = leaving.cancelled() => {
            gateway.runs().drain();
            let pre_stop = gateway.config().server.pre_stop;
            tracing::info!(runs = gateway.runs().active_runs(), ?pre_stop, "leaving: readiness probes fail, and new runs are refused");
            tokio::time::timeout(pre_stop, shutdown.cancelled()).await.ok();
        }
    }
    leaving.cancel();
    shutdown.cancel();
    gateway.runs().drain();
}

/// Ends the remaining runs at that time. Aborted if all runs end before.
async fn last_call(gateway: Arc<Gateway>, at: Instant) {
    tokio::time::sleep_until(at).await;
    gateway.runs().last_call();
}

/// Returns the hosts and origins that the configuration admits, beside the loopback names of the default.
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

/// Returns the configuration of the gRPC services: `server.merge` limits the text of merged deltas.
fn grpc_config(config: &Config) -> grpc::Config {
    let limits = grpc::Limits { merge_bytes: config.server.merge, ..grpc::Limits::default() };
    grpc::Config { limits, ..grpc::Config::default() }
}
