//! The verbs of the engine as a [`RunService`].

use std::sync::Arc;

use aqueduct_core::service::{
    AgentInfo, BoxFuture, Caller, EventStream, Ingest, PublishRequest, RunService, ServiceError, StartedRun,
};
use aqueduct_core::{RunId, RunInput};
use aqueduct_runlog::{Control, LogError, RunState};

use crate::handle::RunHandle;
use crate::runs::{Runs, refuse};

impl RunService for Runs {
    fn list_agents(&self, caller: &Caller) -> BoxFuture<'_, Result<Vec<AgentInfo>, ServiceError>> {
        let result = self.list(caller);
        Box::pin(std::future::ready(result))
    }

    fn start(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> BoxFuture<'_, Result<StartedRun, ServiceError>> {
        Box::pin(self.clone().start_run(caller.clone(), agent.to_owned(), input))
    }

    fn watch(
        &self,
        caller: &Caller,
        run: &RunId,
        after: u64,
    ) -> BoxFuture<'_, Result<EventStream, ServiceError>> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move { self.watch_run(&caller, run, after).await })
    }

    fn cancel(&self, caller: &Caller, run: &RunId) -> BoxFuture<'_, Result<bool, ServiceError>> {
        let (caller, run) = (caller.clone(), run.clone());
        Box::pin(async move { self.cancel_run(&caller, run).await })
    }

    fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> BoxFuture<'_, Result<Box<dyn Ingest>, ServiceError>> {
        Box::pin(self.clone().publish_run(caller.clone(), request))
    }
}

impl Runs {
    /// Returns the run, if the caller may see it, and its handle if it is driven here.
    async fn find_run(
        &self,
        caller: &Caller,
        run: &RunId,
    ) -> Result<(RunState, Option<Arc<RunHandle>>), ServiceError> {
        let state = match self.0.log.state(run).await {
            Ok(state) => state,
            Err(error) if error.is_temporary() => return Err(refuse(&error)),
            Err(_) => return Err(self.no_such_run(caller)),
        };
        if !self.owns(caller, &state.meta) {
            return Err(self.no_such_run(caller));
        }
        Ok((state, self.active().get(run).cloned()))
    }

    async fn watch_run(&self, caller: &Caller, run: RunId, after: u64) -> Result<EventStream, ServiceError> {
        let (state, handle) = self.find_run(caller, &run).await?;
        if after.saturating_add(1) < state.earliest {
            return Err(refuse(&LogError::Gone { run, earliest: state.earliest }));
        }
        self.0.metrics.count_resume();
        let events = self.watched(&run, handle.as_ref(), after);
        let is_remote = handle.is_none() && state.closed_at.is_none();
        Ok(if is_remote { self.watched_remotely(&run, events) } else { events })
    }

    async fn cancel_run(&self, caller: &Caller, run: RunId) -> Result<bool, ServiceError> {
        let (state, handle) = self.find_run(caller, &run).await?;
        match handle {
            Some(handle) => {
                tracing::info!(run = run.as_str(), "cancelled by its owner");
                handle.cancel_token().cancel();
                Ok(true)
            }
            None if state.closed_at.is_some() => Ok(false),
            None => self.cancel_remotely(&run).await,
        }
    }

    /// Cancels a run that another replica drives. Returns `false` if it has ended.
    async fn cancel_remotely(&self, run: &RunId) -> Result<bool, ServiceError> {
        match self.0.log.control(run, Control::Cancel).await {
            // A full control queue: the owner has already received a cancel.
            Ok(()) | Err(LogError::RunTooLong { .. }) => Ok(true),
            Err(LogError::Closed(_) | LogError::NotFound(_)) => Ok(false),
            Err(error) => Err(refuse(&error)),
        }
    }
}
