//! The gateway's [`RunService`]: one implementation for all transports.
//!
//! ```text
//! start ──► who asks? ──► RunLog::open ──► driver task ──► RunLog::append ──► Follow ──► watchers
//!                                             ▲    └ StreamContext: balanced events
//!                                             └ RunSource: what the agent says
//! ```
//!
//! Invariants: every event is in the log before anybody sees it; every log ends, also when the agent, the watcher or
//! the driver goes away; a run is seen and stopped only by whoever started it; agents come from the configuration
//! alone.

mod access;
mod agents;
mod driver;
mod earlier;
mod engine;
mod feed;
mod inspect;
mod left;
pub(crate) mod metrics;
mod publish;
mod replica;
mod setup;
mod side;
mod sweeper;
mod threads;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, PublishRequest, RefusalKind, RunService, ServiceError,
    StartedRun,
};
use aqueduct_core::{Principal, RunId, RunInput, Timestamp};
use aqueduct_runlog::{Control, Follow, LogError, RunLog, RunMeta, RunState};
use aqueduct_transport_http::Shutdown;
use tracing::Instrument as _;

use crate::config::{Agent, AgentSource, Config};
use crate::source::{Ask, Forwarded};
use crate::tee::{Tee, Trail};
pub(crate) use agents::AgentEntry;
use driver::Drive;
use feed::Feed;
use metrics::Metrics;
use publish::Published;
use replica::Replica;
pub use setup::Changes;
use setup::Setup;
pub(crate) use side::{SideEar, SideRun};
use threads::Told;
use watch::Watched;
pub(crate) use watch::{ActiveRun, is_note};

/// The gateway.
pub struct Gateway {
    /// Replaced as a whole when the configuration is read again.
    setup: RwLock<Arc<Setup>>,
    log: Arc<dyn RunLog>,
    active: Mutex<HashMap<RunId, Arc<ActiveRun>>>,
    /// Runs that frameworks feed.
    published: Mutex<HashMap<RunId, Arc<Published>>>,
    /// Where the history of threads stands in the log.
    told: Told,
    replica: Replica,
    metrics: Arc<Metrics>,
    tee: Arc<Tee>,
    draining: Shutdown,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("agents", &self.setup().agents.keys()).finish_non_exhaustive()
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
        let tee = Tee::new(config.tee.relate_by.clone(), Arc::clone(&log));
        Ok(Arc::new(Self {
            setup: RwLock::new(Arc::new(Setup::new(config)?)),
            tee,
            log,
            active: Mutex::default(),
            published: Mutex::default(),
            told: Told::default(),
            replica: Replica::default(),
            metrics: Arc::default(),
            draining: Shutdown::new(),
        }))
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
        let state = self.log.state(run).await.ok()?;
        self.setup().known(&state.meta.agent).map(|agent| agent.config.clone())
    }

    /// Its counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Whose calls belong to which run.
    pub(crate) fn tee(&self) -> &Arc<Tee> {
        &self.tee
    }

    /// True if a run is driven here.
    pub(crate) fn drives(&self, run: &RunId) -> bool {
        self.active().contains_key(run)
    }

    /// Runs that are under way.
    pub fn active_runs(&self) -> usize {
        self.active().len()
    }

    /// No new runs from now on; those under way may end.
    pub fn drain(&self) {
        self.draining.trigger();
    }

    /// True once no new runs are taken.
    pub fn is_draining(&self) -> bool {
        self.draining.is_triggered()
    }

    /// Stops all runs.
    pub fn stop_all(&self) {
        self.active().values().for_each(|run| run.stop.trigger());
    }

    /// Forgets ended runs whose time is over.
    pub async fn expire(&self) {
        let keep = i64::try_from(self.config().runs.keep.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(now().0.saturating_sub(keep));
        if let Ok(forgotten) = self.log.expire(before).await
            && forgotten > 0
        {
            tracing::debug!(forgotten, "ended runs were forgotten");
        }
    }

    /// When a lease that is taken now lapses.
    fn lease_until(&self) -> Timestamp {
        let lease = i64::try_from(self.config().runs.lease.as_millis()).unwrap_or(i64::MAX);
        Timestamp(now().0.saturating_add(lease))
    }

    fn active(&self) -> MutexGuard<'_, HashMap<RunId, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Published>>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start_run(
        self: Arc<Self>,
        caller: Caller,
        name: String,
        input: RunInput,
    ) -> Result<StartedRun, ServiceError> {
        let agent = self.agent(&name);
        let agent = agent.ok_or_else(|| self.no_such_agent(&caller, &name))?;
        let owner = self.authenticate(&agent, &caller)?;
        self.check_room()?;
        if matches!(agent.config.source, AgentSource::Magentic) {
            return self.answer_published(agent, owner, input).await;
        }
        let run_id = input.run_id.detached();
        let meta = RunMeta {
            run_id: run_id.clone(),
            thread_id: input.thread_id.detached(),
            agent: name,
            owner,
            opened_at: now(),
        };
        let owner = meta.owner.clone();
        let lease = self.log.open(meta, self.lease_until()).await.map_err(|error| refuse(&error))?;
        let asked = self.told.asked(&*self.log, &owner, &input).await;
        let earlier = self.earlier(&agent, &owner, &input.thread_id, &run_id).await;
        let active = Arc::new(ActiveRun::new());
        self.active().insert(run_id.clone(), Arc::clone(&active));
        // The watcher is there before the run begins: a run is never unwatched by accident.
        let events = self.watched(&run_id, Some(&active), 0);
        let forwarded = Forwarded::of(&caller, &agent.config.forward_headers);
        let trail = Trail::begin(&self.tee, &active, &input, &caller);
        trail.publish().await;
        let forwarded = forwarded.marked(&trail);
        let stop = Shutdown::new();
        let principal = Principal::from_stored(&owner);
        let ask = Ask { input: Arc::new(input), principal, forwarded, trail, stop, is_logged: true, earlier };
        let drive =
            Drive { gateway: Arc::clone(&self), agent, lease, active, ask, feed: Feed::Source(asked) };
        tokio::spawn(drive.run().in_current_span());
        Ok(StartedRun { run_id, events })
    }

    fn watched(&self, run: &RunId, active: Option<&Arc<ActiveRun>>, after: u64) -> EventStream {
        let follow = Follow::new(Arc::clone(&self.log), run.clone(), after);
        Box::pin(Watched::new(follow, active.map(ActiveRun::watch)))
    }

    fn check_room(&self) -> Result<(), ServiceError> {
        if self.is_draining() {
            let message = "the gateway is stopping: ask again, or ask another one";
            return Err(ServiceError::new(RefusalKind::Unavailable, message));
        }
        if self.active_runs() >= self.config().runs.limit {
            let message = "there are as many runs as there may be (`runs.limit`): ask again later";
            return Err(ServiceError::new(RefusalKind::Busy, message));
        }
        Ok(())
    }

    /// The run, if this caller may see it; with what drives it, if that is here.
    async fn find_run(
        &self,
        caller: &Caller,
        run: &RunId,
    ) -> Result<(RunState, Option<Arc<ActiveRun>>), ServiceError> {
        let state = match self.log.state(run).await {
            Ok(state) => state,
            Err(error) if error.is_temporary() => return Err(refuse(&error)),
            Err(_) => return Err(self.no_such_run(caller)),
        };
        if !self.owns(caller, &state.meta) {
            return Err(self.no_such_run(caller));
        }
        Ok((state, self.active().get(run).cloned()))
    }

    /// Stops a run that is driven elsewhere; false if it is over.
    async fn cancel_far(&self, run: &RunId) -> Result<bool, ServiceError> {
        match self.log.control(run, Control::Cancel).await {
            // Whoever has been told so often knows.
            Ok(()) | Err(LogError::RunTooLong { .. }) => Ok(true),
            Err(LogError::Closed(_) | LogError::NotFound(_)) => Ok(false),
            Err(error) => Err(refuse(&error)),
        }
    }
}

/// The gateway as a service. The trait's methods take `&self`, runs live on in tasks: so the service holds an `Arc`.
#[derive(Debug, Clone)]
pub struct GatewayService(pub Arc<Gateway>);

impl RunService for GatewayService {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        let result = self.0.list(caller);
        Box::pin(std::future::ready(result))
    }

    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        Box::pin(Arc::clone(&self.0).start_run(caller.clone(), agent.to_owned(), input))
    }

    fn watch(
        &self,
        caller: &Caller,
        run: &RunId,
        after: u64,
    ) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move {
            let (state, active) = self.0.find_run(&caller, &run).await?;
            if after.saturating_add(1) < state.earliest {
                return Err(refuse(&LogError::Gone { run, earliest: state.earliest }));
            }
            self.0.metrics.resumed();
            let events = self.0.watched(&run, active.as_ref(), after);
            let is_far = active.is_none() && state.closed_at.is_none();
            Ok(if is_far { self.0.watched_far(&run, events) } else { events })
        })
    }

    fn cancel(&self, caller: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move {
            let (state, active) = self.0.find_run(&caller, &run).await?;
            match active {
                Some(active) => {
                    tracing::info!(run = run.as_str(), "cancelled by its owner");
                    active.stop.trigger();
                    Ok(true)
                }
                None if state.closed_at.is_some() => Ok(false),
                None => self.0.cancel_far(&run).await,
            }
        })
    }

    fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(Arc::clone(&self.0).publish_run(caller.clone(), request))
    }
}

fn refuse(error: &LogError) -> ServiceError {
    let kind = match error {
        LogError::NotFound(_) => RefusalKind::NotFound,
        LogError::Exists(_) => RefusalKind::Conflict,
        LogError::Full { .. } => RefusalKind::Busy,
        LogError::Unavailable(_) => RefusalKind::Unavailable,
        LogError::Gone { earliest, .. } => RefusalKind::Gone { earliest: *earliest },
        _ => RefusalKind::Internal,
    };
    ServiceError::new(kind, error.to_string())
}

/// The time, for the log.
pub(crate) fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}
