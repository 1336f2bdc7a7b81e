//! The operations of the engine as a [`RunService`]: what the transports call.
//!
//! Each method checks the access of its caller before it reads or changes anything, and a run of
//! another principal is refused like one that does not exist. `start`, `watch`, `cancel` and
//! `publish` are audited with their result, refused ones included.
//!
//! | operation | run driven here | run driven by another replica | ended run |
//! |---|---|---|---|
//! | `watch` | follows the log, counted as a watcher of the handle | follows the log, and reports itself to the owner by the log | reads the log |
//! | `cancel` | cancels the token of the handle | sends a control message by the log | cancels the run that replies under its id, if there is one |

use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, PublishRequest, RunService, ServiceError,
    ServiceFuture, StartedRun,
};
use aqueduct_core::{Account, Quota, RunId, RunInput};
use aqueduct_runlog::{Control, LogError, RunState};

use crate::audit::Action;
use crate::runs::{Runs, refuse};

impl RunService for Runs {
    fn list_agents(&self, caller: &Caller) -> ServiceFuture<'_, Vec<AgentInfo>> {
        let result = self.list(caller);
        Box::pin(std::future::ready(result))
    }

    /// Checks access without an effect: a transport calls it before it reads the body of a request.
    fn admit(&self, caller: &Caller, agent: Option<&str>) -> Result<(), ServiceError> {
        match agent {
            Some(name) => self.authenticate(caller, name).map(drop),
            None => self.list(caller).map(drop),
        }
    }

    fn authenticate(&self, caller: Caller) -> BoxFuture<'_, Caller> {
        self.0.host.access.authenticate(caller)
    }

    fn quota(&self, account: &Account) -> Quota {
        self.0.host.access.quota(account)
    }

    fn agent_of<'a>(&'a self, caller: &'a Caller, run: &'a RunId) -> ServiceFuture<'a, Option<String>> {
        Box::pin(async move { self.find_run(caller, run).await.map(|state| Some(state.meta.agent)) })
    }

    fn version_of<'a>(&'a self, caller: &'a Caller, run: &'a RunId) -> ServiceFuture<'a, Option<String>> {
        Box::pin(Runs::version_of(self, caller, run))
    }

    fn start(&self, caller: &Caller, agent: &str, input: RunInput) -> ServiceFuture<'_, StartedRun> {
        let (caller, agent) = (caller.clone(), agent.to_owned());
        Box::pin(async move {
            // The id shares the buffer of the request otherwise, and the audit entry may outlive it.
            let run = input.run_id.detached();
            let started = self.clone().start_run(caller.clone(), agent.clone(), input).await;
            self.audit(&caller, Action { verb: "start", agent: &agent, run: run.as_str() }, &started);
            started
        })
    }

    fn watch(&self, caller: &Caller, run: &RunId, after: u64) -> ServiceFuture<'_, EventStream> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move {
            let watched = self.watch_run(&caller, run.clone(), after).await;
            self.audit(&caller, Action { verb: "watch", agent: "", run: run.as_str() }, &watched);
            watched
        })
    }

    fn cancel(&self, caller: &Caller, run: &RunId) -> ServiceFuture<'_, bool> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move {
            let cancelled = self.cancel_run(&caller, run.clone()).await;
            self.audit(&caller, Action { verb: "cancel", agent: "", run: run.as_str() }, &cancelled);
            cancelled
        })
    }

    fn publish(&self, caller: &Caller, request: PublishRequest) -> ServiceFuture<'_, Box<dyn Ingest>> {
        let caller = caller.clone();
        Box::pin(async move {
            let (agent, run) = (request.agent.clone(), request.run_id.clone());
            let published = self.clone().publish_run(caller.clone(), request).await;
            let run = run.as_ref().map_or("", RunId::as_str);
            self.audit(&caller, Action { verb: "publish", agent: &agent, run }, &published);
            published
        })
    }
}

impl Runs {
    /// Watches a run of the caller. A position beyond the last event of an ended run gives an empty stream.
    async fn watch_run(&self, caller: &Caller, run: RunId, after: u64) -> Result<EventStream, ServiceError> {
        let state = self.find_run(caller, &run).await?;
        let run = state.meta.run_id.clone();
        let handle = self.active().get(&run).cloned();
        if after.saturating_add(1) < state.earliest {
            return Err(refuse(&LogError::Gone { run: state.meta.public_id(), earliest: state.earliest }));
        }
        // An ended run can be read from what is stored; following an open one needs a log that is
        // available.
        if state.closed_at.is_none() {
            self.check_log()?;
        }
        self.0.metrics.count_resume();
        if state.closed_at.is_some() && after >= state.head {
            return Ok(Box::pin(futures_util::stream::empty()));
        }
        let events = self.watched(&run, handle.as_ref(), after);
        // The owner on another replica would cancel a run that seems unwatched, so this replica reports its
        // watcher.
        let is_remote = handle.is_none() && state.closed_at.is_none();
        Ok(if is_remote { self.watched_remotely(&run, events) } else { events })
    }

    /// Cancels a run here, at its owner, or at the run that replies under its id.
    /// Returns `false` if there is nothing to cancel. Cancelling takes effect when the driver handles
    /// it: the end of the run follows in its events.
    async fn cancel_run(&self, caller: &Caller, run: RunId) -> Result<bool, ServiceError> {
        let state = self.find_run(caller, &run).await?;
        let run = state.meta.run_id.clone();
        let handle = self.active().get(&run).cloned();
        match handle {
            Some(handle) => {
                handle.cancel_token().cancel();
                Ok(true)
            }
            None if state.closed_at.is_some() => self.cancel_reply(&state).await,
            None => self.cancel_remotely(&run).await,
        }
    }

    /// Cancels the run that replies under the id of this ended one: the client knows only that id.
    async fn cancel_reply(&self, ended: &RunState) -> Result<bool, ServiceError> {
        let Some(run) = self.live_reply(&ended.meta).await.map_err(|error| refuse(&error))? else {
            return Ok(false);
        };
        let Some(handle) = self.active().get(&run).cloned() else { return self.cancel_remotely(&run).await };
        handle.cancel_token().cancel();
        Ok(true)
    }

    /// Cancels a run that another replica drives. Returns `false` if it has ended.
    async fn cancel_remotely(&self, run: &RunId) -> Result<bool, ServiceError> {
        match self.0.log.control(run, Control::Cancel).await {
            // A full control queue: its last place is reserved for a cancel, so the owner has received one.
            Ok(()) | Err(LogError::RunTooLong { .. }) => Ok(true),
            Err(LogError::Closed(_) | LogError::NotFound(_)) => Ok(false),
            Err(error) => Err(refuse(&error)),
        }
    }
}
