//! The gateway: a configuration around the run engine ([`Runs`]).
//!
//! ```text
//! Config ──► agents (entries of `Runs`), access by tokens, settings ──► Runs ◄── transports
//!                                                            tee ──────┘ (extension of runs)
//! ```
//!
//! Invariants: agents come from the configuration alone; a reload replaces agents, tokens and settings together.
//!
//! What is *not* here: driving runs. That is `aqueduct-runs`.

mod access;
mod agents;
mod engine;
pub(crate) mod metrics;
mod setup;

use std::sync::{Arc, PoisonError, RwLock};

use aqueduct_adapter_agui::fold;
use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, PublishRequest, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{RunId, RunInput, ThreadId, Timestamp};
use aqueduct_runlog::{LogError, LogScope, RunLog, RunState};
use aqueduct_runs::{Runs, Settings};

use crate::config::{Agent, Config, RunLogEngine};
use crate::tee::{Tee, TeeExtensions};
use access::TokenAccess;
pub(crate) use agents::AgentEntry;
pub(crate) use aqueduct_runs::now;
use metrics::Metrics;
pub use setup::Changes;
use setup::Setup;

/// The setup, which a reload replaces as a whole.
type SharedSetup = Arc<RwLock<Arc<Setup>>>;

/// The gateway.
pub struct Gateway {
    setup: SharedSetup,
    runs: Runs,
    metrics: Arc<Metrics>,
    tee: Arc<Tee>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway with the log that the configuration asks for, inside a runtime. No agent is connected yet.
    pub fn new(config: Config) -> anyhow::Result<Arc<Self>> {
        let log = engine::open(&config)?;
        Self::with_log(config, log)
    }

    /// A gateway with a log of another engine.
    pub fn with_log(config: Config, log: Arc<dyn RunLog>) -> anyhow::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::default());
        let tee = Tee::new(config.tee.relate_by.clone(), Arc::clone(&log), Arc::clone(&metrics));
        let settings = settings(&config);
        let setup = Setup::new(config)?;
        let entries = setup.run_entries();
        let setup = Arc::new(RwLock::new(Arc::new(setup)));
        let mut builder = Runs::builder()
            .shared_log(log)
            .settings(settings)
            .access(Arc::new(TokenAccess::new(Arc::clone(&setup))))
            .extensions(Arc::new(TeeExtensions(Arc::clone(&tee))))
            .ingest_format("magentic", aqueduct::magentic::decoder)
            .record_input(fold::asked);
        for entry in entries {
            builder = builder.entry(entry);
        }
        Ok(Arc::new(Self { setup, runs: builder.build(), metrics, tee }))
    }

    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The run engine.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Goes on with another configuration. Runs under way keep what they began with.
    pub fn reload(&self, config: Config) -> anyhow::Result<Changes> {
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        let (next, changes) = setup.next(config)?;
        self.runs.replace(settings(&next.config), next.run_entries());
        *setup = Arc::new(next);
        Ok(changes)
    }

    /// Its configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.setup().config)
    }

    /// Since when it has that configuration.
    pub(crate) fn configured_at(&self) -> Timestamp {
        self.setup().since
    }

    /// The names of all agents.
    pub(crate) fn agent_names(&self) -> Vec<String> {
        self.setup().agents.keys().cloned().collect()
    }

    pub(crate) fn agent(&self, name: &str) -> Option<Arc<AgentEntry>> {
        self.setup().agents.get(name).cloned()
    }

    /// How the agent of a run is configured.
    pub(crate) async fn agent_of(&self, run: &RunId) -> Option<Agent> {
        self.agent_config(&self.runs.agent_of(run).await?)
    }

    /// Returns the configuration of an agent, also of one that a reload removed.
    pub(crate) fn agent_config(&self, name: &str) -> Option<Agent> {
        self.setup().known(name).map(|agent| agent.config.clone())
    }

    /// Who the caller is to this agent, as the log keeps it.
    pub(crate) fn authenticate(&self, agent: &AgentEntry, caller: &Caller) -> Result<String, ServiceError> {
        self.runs.authenticate(caller, &agent.name).map(|principal| principal.to_string())
    }

    pub(crate) fn no_such_agent(&self, caller: &Caller, name: &str) -> ServiceError {
        self.runs.no_such_agent(caller, name)
    }

    /// Its counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Whose calls belong to which run.
    pub(crate) fn tee(&self) -> &Arc<Tee> {
        &self.tee
    }

    /// The log.
    pub(crate) fn log(&self) -> &Arc<dyn RunLog> {
        self.runs.run_log()
    }

    /// True if a run is driven here.
    pub(crate) fn drives(&self, run: &RunId) -> bool {
        self.runs.drives(run)
    }

    /// The runs of a thread that this caller may see, oldest first.
    pub(crate) async fn thread_runs(
        &self,
        caller: &Caller,
        thread: &ThreadId,
    ) -> Result<Vec<RunState>, ServiceError> {
        self.runs.thread_runs(caller, thread).await
    }

    /// The runs of this caller that the log still holds, newest first, at most `most`.
    pub(crate) async fn runs_of(&self, caller: &Caller, most: usize) -> Result<Vec<RunState>, ServiceError> {
        self.runs.list_runs(caller, most).await
    }

    /// Runs that are under way.
    pub fn active_runs(&self) -> usize {
        self.runs.active_runs()
    }

    /// No new runs from now on; those under way may end.
    pub fn drain(&self) {
        self.runs.drain();
    }

    /// True once no new runs are taken.
    pub fn is_draining(&self) -> bool {
        self.runs.is_draining()
    }

    /// Stops all runs.
    pub fn stop_all(&self) {
        self.runs.stop_all();
    }

    /// Forgets ended runs whose time is over.
    pub async fn expire(&self) {
        self.runs.expire().await;
    }

    /// Takes over all runs whose lease has lapsed by now.
    pub async fn sweep_once(&self) -> Result<(), LogError> {
        self.runs.sweep_once().await
    }
}

/// The settings of the engine.
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
        .with_scope(scope)
}

/// The gateway as a service.
#[derive(Debug, Clone)]
pub struct GatewayService(pub Arc<Gateway>);

impl RunService for GatewayService {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        self.0.runs.list_agents(caller)
    }

    fn admit(&self, caller: &Caller, agent: Option<&str>) -> Result<(), ServiceError> {
        self.0.runs.admit(caller, agent)
    }

    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        self.0.runs.start(caller, agent, input)
    }

    fn watch(
        &self,
        caller: &Caller,
        run: &RunId,
        after: u64,
    ) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        self.0.runs.watch(caller, run, after)
    }

    fn cancel(&self, caller: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        self.0.runs.cancel(caller, run)
    }

    fn agent_of<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Option<String>> {
        self.0.runs.agent_of(run)
    }

    fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        self.0.runs.publish(caller, request)
    }
}
