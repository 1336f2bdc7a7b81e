//! The gateway: a configuration around the run engine ([`Runs`]).
//!
//! ```text
//! Config ──► agents (entries of `Runs`), access by tokens, settings ──► Runs ◄── transports
//!                                                            tee ──────┘ (extension of runs)
//! ```
//!
//! Invariants: agents come from the configuration alone; a reload replaces agents, tokens and settings together.
//!
//! Not here: driving runs. That is done by `aqueduct-runs`.

mod access;
mod agents;
mod engine;
mod extension;
mod setup;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Context as _;
use aqueduct::remote::AgentHealth;
use aqueduct_adapter_agui::fold;
use aqueduct_core::Timestamp;
use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_runlog::{LogScope, RunLog};
use aqueduct_runs::{Clock, Runs, Settings, UniqueBits, random_bits};
use aqueduct_transport_http::Dial;
use aqueduct_transport_http::tls::LiveTls;

use crate::config::{Agent, Config, RunLogEngine};
use crate::tee::Tee;
use crate::telemetry::{Metrics, MetricsExport, Tracing};
use crate::tls;
use access::ConfiguredAccess;
pub(crate) use agents::AgentEntry;
use agents::Watches;
pub(crate) use aqueduct_runs::now;
use extension::GatewayExtensions;
pub use setup::Changes;
use setup::Setup;

/// The current setup, which a reload replaces as a whole.
type SharedSetup = Arc<RwLock<Arc<Setup>>>;

/// The parts of a gateway that its configuration does not describe.
#[derive(Clone)]
pub struct Surroundings {
    /// The log of runs.
    pub log: Arc<dyn RunLog>,
    /// The clock of leases and of the age of runs.
    pub clock: Clock,
    /// Opens the connections to agents over HTTP, in place of sockets and TLS.
    pub dial: Option<Arc<dyn Dial>>,
    /// The source of the ids of side runs.
    pub unique_bits: UniqueBits,
}

impl Surroundings {
    /// Returns the clock and the network of the system, with the given log.
    pub fn new(log: Arc<dyn RunLog>) -> Self {
        Self { log, clock: Arc::new(now), dial: None, unique_bits: Arc::new(random_bits) }
    }
}

aqueduct_core::debug_fields!(Surroundings { dial });

/// The gateway: agents, identities and settings of a configuration, around the run engine.
pub struct Gateway {
    setup: SharedSetup,
    runs: Runs,
    metrics: Arc<Metrics>,
    tee: Arc<Tee>,
    tracing: Option<Arc<Tracing>>,
    /// The export of metrics, until the server takes it.
    export: Mutex<Option<MetricsExport>>,
    /// The certificates of the ports.
    certificates: RwLock<Vec<LiveTls>>,
}

aqueduct_core::debug_fields!(Gateway { runs });

impl Gateway {
    /// Returns a gateway with the log of the configuration. Must be called inside a runtime; no agent is connected yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be opened, or if a file of an agent (script, recording, certificate) cannot
    /// be read.
    pub fn new(config: Config) -> anyhow::Result<Arc<Self>> {
        let log = engine::open(&config)?;
        Self::with_log(config, log)
    }

    /// Returns a gateway with the given log.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of an agent (script, recording, certificate) cannot be read.
    pub fn with_log(config: Config, log: Arc<dyn RunLog>) -> anyhow::Result<Arc<Self>> {
        Self::with_surroundings(config, Surroundings::new(log))
    }

    /// Returns a gateway with the given log, clock and network.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of an agent (script, recording, certificate) cannot be read.
    pub fn with_surroundings(config: Config, surroundings: Surroundings) -> anyhow::Result<Arc<Self>> {
        let Surroundings { log, clock, dial, unique_bits } = surroundings;
        let metrics = Arc::new(Metrics::default());
        let tracing = Tracing::start(&config.telemetry)?;
        let export = MetricsExport::new(&config.telemetry)?;
        let settings = settings(&config);
        let watches = Watches { metrics: Arc::clone(&metrics), tracing: tracing.clone(), dial };
        let setup = Setup::new(config, watches)?;
        let tee = Tee::new(setup.relate_by(), Arc::clone(&log), Arc::clone(&clock), Arc::clone(&metrics));
        let entries = setup.run_entries();
        let setup = Arc::new(RwLock::new(Arc::new(setup)));
        let mut builder = Runs::builder()
            .shared_log(log)
            .clock(clock)
            .unique_bits(unique_bits)
            .settings(settings)
            .access(Arc::new(ConfiguredAccess::new(Arc::clone(&setup))))
            .extensions(Arc::new(GatewayExtensions {
                tee: Arc::clone(&tee),
                metrics: Arc::clone(&metrics),
                tracing: tracing.clone(),
            }))
            .ingest_format("magentic", aqueduct::magentic::decoder)
            .record_input(fold::asked)
            .guard_events(|input| Box::new(fold::state_guard(input)));
        for entry in entries {
            builder = builder.entry(entry);
        }
        Ok(Arc::new(Self {
            setup,
            runs: builder.build(),
            metrics,
            tee,
            tracing,
            export: Mutex::new(export),
            certificates: RwLock::default(),
        }))
    }

    /// Returns the current setup. A reload does not change the returned value.
    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the run engine.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Registers the certificates of a port, which a reload replaces.
    pub(crate) fn renew_certificates_of(&self, port: LiveTls) {
        self.certificates.write().unwrap_or_else(PoisonError::into_inner).push(port);
    }

    /// Applies another configuration. Open runs keep the agent they began with. Certificates are read again, and apply
    /// to new connections.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the new configuration needs a restart or one of its files cannot be
    /// read.
    pub fn reload(&self, config: Config) -> anyhow::Result<Changes> {
        // Certificates are read before anything changes.
        let tls = config.server.tls.as_ref().map(tls::of_server).transpose().context("server.tls")?;
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        // The lock is held until the end: two reloads at once would each be based on the same old setup.
        let (mut next, mut changes) = setup.next(config)?;
        if let Some(tls) = tls {
            // The ports differ in ALPN alone: a certificate without its key fails at the first port.
            for port in &*self.certificates.read().unwrap_or_else(PoisonError::into_inner) {
                changes.certificate |= port.replace(tls.clone()).context("server.tls")?;
            }
        }
        // Nothing fails from here on.
        next.identities.replace(&setup.identities);
        self.runs.replace(settings(&next.config), next.run_entries());
        self.tee.relate_by(next.relate_by());
        *setup = Arc::new(next);
        Ok(changes)
    }

    /// Returns the current configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.setup().config)
    }

    /// Returns the time since which the configuration is in use.
    pub(crate) fn configured_at(&self) -> Timestamp {
        self.setup().since
    }

    /// Returns the names of all agents.
    pub(crate) fn agent_names(&self) -> Vec<String> {
        self.setup().agents.keys().cloned().collect()
    }

    /// Returns a configured agent. Returns `None` for an agent that a reload removed.
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<AgentEntry>> {
        self.setup().agents.get(name).cloned()
    }

    /// Returns the health of all remote agents, by the name of the agent.
    pub(crate) fn remote_agents(&self) -> Vec<(String, AgentHealth)> {
        let setup = self.setup();
        let mut agents: Vec<_> =
            setup.agents.iter().filter_map(|(name, agent)| Some((name.clone(), agent.health()?))).collect();
        agents.sort_by(|a, b| a.0.cmp(&b.0));
        agents
    }

    /// Takes the export of metrics. Returns `None` if it was taken or is not configured.
    pub(crate) fn metrics_export(&self) -> Option<MetricsExport> {
        self.export.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Exports the remaining spans. To be called after everything has ended.
    pub(crate) async fn stop_telemetry(&self) {
        if let Some(tracing) = &self.tracing {
            tracing.stop().await;
        }
    }

    /// Returns `true` if the configuration has no proofs, so that all callers are one principal.
    pub(crate) fn is_open(&self) -> bool {
        self.setup().identities.is_open()
    }

    /// Returns `true` if callers of the agent must present a proof.
    pub(crate) fn protects(&self, agent: &str) -> bool {
        self.setup().identities.protects(agent)
    }

    /// Returns the configuration of an agent, also of one that a reload removed.
    pub(crate) fn agent_config(&self, name: &str) -> Option<Agent> {
        self.setup().known(name).map(|agent| agent.config.clone())
    }

    /// Returns the stored form of the caller's principal, if the caller may run the agent.
    pub(crate) fn authenticate(&self, agent: &AgentEntry, caller: &Caller) -> Result<String, ServiceError> {
        self.runs.authenticate(caller, &agent.name).map(|principal| principal.to_string())
    }

    /// Returns the metrics of the gateway.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the tee, which relates calls to runs.
    pub(crate) fn tee(&self) -> &Arc<Tee> {
        &self.tee
    }

    /// Returns the run log.
    pub(crate) fn log(&self) -> &Arc<dyn RunLog> {
        self.runs.run_log()
    }
}

/// Returns the settings of the run engine.
fn settings(config: &Config) -> Settings {
    let scope = match config.runs.log {
        RunLogEngine::Memory => LogScope::Process,
        RunLogEngine::Disk(_) => LogScope::Machine,
        RunLogEngine::Redis { .. } => LogScope::Replicas,
    };
    Settings::default()
        .with_limit(config.runs.limit)
        .with_lease(config.runs.lease)
        .with_keep(config.runs.keep)
        .with_silence(config.runs.silence)
        .with_on_log_loss(config.runs.on_log_loss)
        .with_scope(scope)
}
