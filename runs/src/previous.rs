//! The state of a thread's earlier runs at their agent, for a replica that did not drive them.
//!
//! An agent keeps the state of its conversations. With a shared log, or after a restart, another replica may have driven
//! the last run of the thread: then the log holds its checkpoint, and whether it waits for a reply.

use aqueduct_core::agent::{PreviousRun, ThreadFold};
use aqueduct_core::{BlockEvent, Checkpoint, RunId, RunOutcome, ThreadId};
use aqueduct_runlog::{LogError, LogScope, RunQuery, RunState};

use crate::agents::AgentEntry;
use crate::runs::Runs;

/// Runs of a thread that are searched: runs of other agents may lie between those of the agent.
const RUNS: usize = 16;

/// The most runs of a thread that an agent's [`ThreadFold`] reads: the newest, in the order in which they ran.
const FOLDED_RUNS: usize = 256;

/// Returns a query for the runs of a thread, newest first. Only runs of `owner` are read, so others cannot crowd them out.
fn thread_query(owner: &str, thread: &ThreadId) -> RunQuery {
    let (thread_id, owner) = (Some(thread.clone()), Some(owner.to_owned()));
    RunQuery { thread_id, owner, newest_first: true, ..RunQuery::default() }
}

impl Runs {
    /// Returns the state that the last run of the thread left at the agent. Returns `None` if the agent itself holds it.
    pub(crate) async fn previous(
        &self,
        entry: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Option<PreviousRun> {
        let is_kept = self.scope() > LogScope::Process;
        if !is_kept || !entry.agent().is_some_and(|agent| agent.keeps_threads()) {
            return None;
        }
        match self.find_previous(entry, owner, thread, run).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(run = run.as_str(), %error, "the previous run of the thread cannot be read");
                None
            }
        }
    }

    /// Folds the earlier runs of the thread for an agent that needs them. If the log fails, returns the fold of the events read.
    pub(crate) async fn fold_thread(
        &self,
        entry: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Option<Box<dyn ThreadFold>> {
        let mut fold = entry.agent().and_then(|agent| agent.thread_fold())?;
        if let Err(error) = self.read_thread(entry, owner, thread, run, &mut *fold).await {
            tracing::warn!(run = run.as_str(), %error, "the earlier runs of the thread cannot be read");
        }
        Some(fold)
    }

    /// Folds the events of the agent's runs in the thread, oldest first, page by page.
    async fn read_thread(
        &self,
        entry: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
        fold: &mut dyn ThreadFold,
    ) -> Result<(), LogError> {
        let query = thread_query(owner, thread);
        let is_of_agent = |state: &RunState| state.meta.agent == entry.name() && state.meta.run_id != *run;
        let states = self.run_log().list(query, FOLDED_RUNS).await?;
        for state in states.into_iter().rev().filter(is_of_agent) {
            self.each_event(&state, |event| fold.handle_event(event)).await?;
        }
        Ok(())
    }

    /// Returns the newest run of the agent in the thread that has a checkpoint.
    async fn find_previous(
        &self,
        entry: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<Option<PreviousRun>, LogError> {
        let query = thread_query(owner, thread);
        let is_of_agent = |state: &RunState| state.meta.agent == entry.name() && state.meta.run_id != *run;
        // A run without checkpoint has no state at the agent.
        let states = self.run_log().list(query, RUNS).await?.into_iter().filter(is_of_agent);
        let Some((state, checkpoint)) =
            states.into_iter().find_map(|mut state| state.checkpoint.take().map(|found| (state, found)))
        else {
            return Ok(None);
        };
        let run = state.meta.public_id();
        let last = self.run_log().read(&state.meta.run_id, state.head.saturating_sub(1), 1).await?;
        let is_waiting = last.events.iter().any(|event| {
            matches!(&event.event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Interrupted)
        });
        Ok(Some(PreviousRun::new(run, Checkpoint((*checkpoint).clone()), is_waiting)))
    }
}
