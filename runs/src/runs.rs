//! [`Runs`]: the run engine, its shared state, and the start of runs.
//!
//! ```text
//! start_run ──► access, limits ──► reply to an interrupt? ──┬ repeats an accepted reply ──► the run of that reply
//!                                                           └ new input ──► open_start ──► run log, watcher, driver
//! ```
//!
//! Other operations are in modules of their own: watching and cancelling in `service`, publishing in `publish`, takeovers
//! in `takeover`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct_core::agent::{AgentRequest, CallContext, ThreadFold};
use aqueduct_core::service::{Caller, EventStream, RefusalKind, ServiceError, StartedRun};
use aqueduct_core::{Agent, CancelToken, Principal, RunId, RunInput, Timestamp};
use aqueduct_runlog::{Follow, LogScope, RunLog, RunMeta};

use crate::agents::{AgentEntry, Agents};
use crate::builder::{Host, RunsBuilder};
use crate::driver::Drive;
use crate::errands::Handlers;
use crate::extension::{RunExtension, RunOrigin, RunStart};
use crate::feed::Feed;
use crate::forward::{Forwarded, forwarded};
use crate::handle::{RunHandle, Watched};
use crate::leaving::Leaving;
use crate::metrics::RunMetrics;
use crate::outage::Outage;
use crate::previous::EarlierRuns;
use crate::publish::Published;
use crate::quota::RunLedger;
pub(crate) use crate::refuse::refuse;
use crate::replica::Replica;
use crate::reply::{Reply, ReplyRun};
use crate::settings::{AgentOptions, Settings};
use crate::threads::ThreadIndex;

/// The run engine. Clones share one engine.
#[derive(Clone)]
pub struct Runs(pub(crate) Arc<Engine>);

/// The state of an engine, shared by the clones of [`Runs`].
pub(crate) struct Engine {
    pub(crate) setup: RwLock<Arc<Setup>>,
    pub(crate) log: Arc<dyn RunLog>,
    pub(crate) host: Host,
    /// The runs that this engine drives, by key. Ordered, like all maps that are iterated here: the simulation replays from
    /// a seed only if equal calls have equal effects in the same order.
    pub(crate) active: Mutex<BTreeMap<RunId, Arc<RunHandle>>>,
    /// Runs that publishers send in, and runs whose source is held for a reply ([`suspend`](crate::suspend)), by key.
    pub(crate) published: Mutex<BTreeMap<RunId, Arc<Published>>>,
    pub(crate) threads: ThreadIndex,
    pub(crate) replica: Replica,
    pub(crate) metrics: Arc<RunMetrics>,
    /// Cancelled once new runs are refused.
    draining: CancelToken,
    pub(crate) leaving: Leaving,
    pub(crate) outage: Outage,
    pub(crate) places: RunLedger,
    pub(crate) errands: Handlers,
}

/// The parts that can be replaced while runs are in progress.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) agents: Agents,
}

aqueduct_core::debug_fields!(Runs { agents: agent_names() });

impl Default for Runs {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl Runs {
    /// Returns an engine without agents, with a log in memory, open to every caller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a builder.
    pub fn builder() -> RunsBuilder {
        RunsBuilder::default()
    }

    /// Returns an engine with these parts and no runs.
    pub(crate) fn with_parts(
        log: Arc<dyn RunLog>,
        settings: Settings,
        agents: Vec<Arc<AgentEntry>>,
        host: Host,
    ) -> Self {
        Self(Arc::new(Engine {
            setup: RwLock::new(Arc::new(Setup { settings, agents: Agents::new(agents) })),
            log,
            host,
            active: Mutex::default(),
            published: Mutex::default(),
            threads: ThreadIndex::default(),
            replica: Replica::default(),
            metrics: Arc::default(),
            draining: CancelToken::new(),
            leaving: Leaving::default(),
            outage: Outage::default(),
            places: RunLedger::default(),
            errands: Handlers::default(),
        }))
    }

    /// Adds an agent, or replaces the agent of that name. Runs in progress keep the agent that they started with.
    pub fn agent(self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agent_with(name, agent, AgentOptions::default())
    }

    /// Adds or replaces an agent with its options.
    pub fn agent_with(self, name: impl Into<String>, agent: impl Agent, options: AgentOptions) -> Self {
        let entry = Arc::new(AgentEntry::new(name, Arc::new(agent), options));
        self.change_setup(|setup| setup.agents.insert(entry));
        self
    }

    /// Returns a new engine with the same agents and settings, and with `log` as its run log. It does not contain the runs of
    /// this engine.
    pub fn log(self, log: impl RunLog) -> Self {
        let setup = self.setup();
        let agents = setup.agents.all().into_iter().cloned().collect();
        Self::with_parts(Arc::new(log), setup.settings, agents, self.0.host.clone())
    }

    /// Replaces all settings and agents. Runs in progress keep the settings and agents that they started with. `lease`,
    /// `silence` and `scope` keep their current values.
    pub fn replace(&self, settings: Settings, agents: impl IntoIterator<Item = Arc<AgentEntry>>) {
        self.change_setup(|setup| {
            let Settings { lease, silence, scope, .. } = setup.settings;
            setup.settings = Settings { lease, silence, scope, ..settings };
            setup.agents = setup.agents.replaced(agents);
        });
    }

    /// Replaces the setup as a whole, so that readers never see a partial change.
    fn change_setup(&self, change: impl FnOnce(&mut Setup)) {
        let mut setup = self.0.setup.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Setup::clone(&setup);
        change(&mut next);
        *setup = Arc::new(next);
    }

    /// Returns the current settings and agents. They do not change while the caller holds them.
    pub(crate) fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.0.setup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the agent `name`. Returns `None` if the engine has no such agent.
    pub fn entry(&self, name: &str) -> Option<Arc<AgentEntry>> {
        self.setup().agents.get(name).cloned()
    }

    /// Returns the names of all agents, in alphabetical order.
    pub fn agent_names(&self) -> Vec<String> {
        self.setup().agents.all().into_iter().map(|entry| entry.name().to_owned()).collect()
    }

    /// Returns the run log.
    pub fn run_log(&self) -> &Arc<dyn RunLog> {
        &self.0.log
    }

    /// Returns the counters of the engine.
    pub fn metrics(&self) -> &Arc<RunMetrics> {
        &self.0.metrics
    }

    /// Returns `true` if this engine drives the run.
    pub fn drives(&self, run: &RunId) -> bool {
        self.active().contains_key(run)
    }

    /// Removes a run that its driver does not drive any more. A driver of the same run that was started since keeps its entry.
    pub(crate) fn remove_active(&self, run: &RunId, handle: &Arc<RunHandle>) {
        let mut active = self.active();
        if active.get(run).is_some_and(|known| Arc::ptr_eq(known, handle)) {
            active.remove(run);
        }
    }

    /// Returns the number of runs that this engine drives.
    pub fn active_runs(&self) -> usize {
        self.active().len()
    }

    /// Returns the number of watchers of the runs that this engine drives.
    pub fn watchers(&self) -> usize {
        self.active().values().map(|run| run.watchers()).sum()
    }

    /// Returns the number of leases that this engine holds.
    pub fn leases(&self) -> usize {
        self.0.replica.count()
    }

    /// Refuses new runs from now on. Runs in progress continue.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    /// Returns `true` once new runs are refused.
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Cancels all runs that this engine drives.
    pub fn stop_all(&self) {
        self.active().values().for_each(|run| run.cancel_token().cancel());
    }

    /// Deletes ended runs whose retention time is over.
    pub async fn expire(&self) {
        let keep = i64::try_from(self.setup().settings.keep.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(self.now().0.saturating_sub(keep));
        if let Ok(forgotten) = self.0.log.expire(before).await
            && forgotten > 0
        {
            tracing::debug!(forgotten, "ended runs were deleted after their retention time");
        }
    }

    /// Returns the current time of this engine's clock, in the unit of the log.
    pub fn now(&self) -> Timestamp {
        (self.0.host.clock)()
    }

    /// Returns 128 bits for the id of a side run.
    pub(crate) fn unique_bits(&self) -> std::io::Result<u128> {
        (self.0.host.unique_bits)()
    }

    /// Returns the time at which a lease lapses that is acquired or renewed now.
    pub(crate) fn lease_until(&self) -> Timestamp {
        let lease = i64::try_from(self.setup().settings.lease.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.now().0.saturating_add(lease))
    }

    /// Returns which processes share the log.
    pub(crate) fn scope(&self) -> LogScope {
        self.setup().settings.scope.unwrap_or_else(|| self.0.log.scope())
    }

    /// Locks the runs that this engine drives, by key.
    pub(crate) fn active(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<RunHandle>>> {
        self.0.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the published and held runs, by key.
    pub(crate) fn published(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Published>>> {
        self.0.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the handle of a run that this engine will drive, and attaches the host's extension.
    pub(crate) fn attach(
        &self,
        run: &RunId,
        origin: &RunOrigin<'_>,
    ) -> (Arc<RunHandle>, Option<Arc<dyn RunExtension>>) {
        let handle = Arc::new(RunHandle::new(run.clone()));
        let extensions = self.0.host.extensions.as_ref();
        let extension = extensions.and_then(|extensions| extensions.attach(&handle, origin));
        (handle, extension)
    }

    /// Starts a run: checks access and limits, accepts replies to interrupts, and opens the run.
    pub(crate) async fn start_run(
        self,
        caller: Caller,
        name: String,
        input: RunInput,
    ) -> Result<StartedRun, ServiceError> {
        let principal = self.authenticate(&caller, &name)?;
        let agent = self.entry(&name).ok_or_else(|| self.no_such_agent(&caller, &name))?;
        self.check_room()?;
        if !input.answers_interrupts() {
            self.check_held()?;
        }
        let owner = principal.to_string();
        let (run, claim) = match self.take_reply(&name, &owner, &input).await? {
            Reply::Taken(run, claim) => (run, claim),
            Reply::Repeats(run) => return self.repeat_run(&owner, &name, &input.thread_id, run).await,
        };
        let key = RunMeta::key(&owner, &run.id);
        let Some(claim) = claim else { return self.open_start(caller, agent, principal, input, run).await };
        let thread = input.thread_id.detached();
        match self.clone().open_start(caller, agent, principal, input, run.clone()).await {
            Ok(started) => {
                self.keep_claim(&claim).await;
                Ok(started)
            }
            // An equal reply, which arrived at the same time and has the same claim, opened the run first.
            Err(error) if error.kind == RefusalKind::Conflict && self.is_open(&key, &name, &thread).await => {
                self.repeat_run(&owner, &name, &thread, run.id).await
            }
            Err(error) => {
                self.release_claim(&claim, &key, &name, &thread).await;
                Err(error)
            }
        }
    }

    /// Opens a run in the log, registers its first watcher, and starts its driver.
    async fn open_start(
        self,
        caller: Caller,
        agent: Arc<AgentEntry>,
        principal: Principal,
        mut input: RunInput,
        run: ReplyRun,
    ) -> Result<StartedRun, ServiceError> {
        if agent.is_published() {
            return self.answer_published(agent, principal, input, run).await;
        }
        if let Some(started) = self.answer_suspended(&agent, &principal, &input, &run).await? {
            return Ok(started);
        }
        let place = self.take_place(&principal, &caller)?;
        let ReplyRun { id: run_id, shown } = run;
        input.run_id = run_id.clone();
        let owner = principal.to_string();
        let lease = self.open_log(&owner, agent.name(), &input.thread_id, &run_id).await?;
        if input.record.is_some() && self.scope() == LogScope::Replicas {
            self.note_record(&lease, &input).await?;
        }
        let key = lease.run_id.clone();
        let origin = RunOrigin::new(agent.name(), &input.thread_id, caller.surface);
        let (handle, extension) = self.attach(&key, &origin);
        // The caller is registered as a watcher before the driver starts: a driver cancels a run without watchers.
        let events = self.watched(&key, Some(&handle), 0);
        let headers = forwarded(&caller, agent.options());
        let context: Arc<dyn CallContext> = match &extension {
            Some(extension) => {
                Arc::clone(extension)
                    .begin(RunStart { input: &input, caller: &caller, principal: &principal, headers })
                    .await
            }
            None => Arc::new(Forwarded(headers)),
        };
        let extension_value = extension.as_ref().and_then(|extension| extension.checkpoint());
        let earlier =
            EarlierRuns { runs: &self, entry: &agent, owner: &owner, thread: &input.thread_id, run: &key };
        let ((), previous, fold) = futures_util::future::join3(
            self.note_input(&lease, &owner, &input, extension_value),
            earlier.previous(),
            earlier.fold_thread(),
        )
        .await;
        let mut request = AgentRequest::new(input);
        (request.principal, request.context, request.previous) = (principal, context, previous);
        request.keeps_checkpoints = true;
        let kept_ids = fold.as_ref().map(|fold| fold.message_ids());
        request.thread = fold.map(ThreadFold::finish);
        let (runs, lanes_of) = (self, None);
        let drive =
            Drive { runs, agent, lease, handle, extension, request, kept_ids, shown, lanes_of, place };
        drive.spawn(Feed::Agent);
        Ok(StartedRun::new(run_id, events))
    }

    /// Returns the events of a run for one watcher. `handle` is set if this engine drives the run.
    pub(crate) fn watched(&self, run: &RunId, handle: Option<&Arc<RunHandle>>, after: u64) -> EventStream {
        let follow = Follow::new(Arc::clone(&self.0.log), run.clone(), after);
        let halted = Box::pin(self.0.leaving.halted(handle.cloned()));
        Box::pin(Watched::new(run, follow, after, handle.map(RunHandle::watch), halted))
    }
}

/// Returns the system time, in the unit of the log.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}
