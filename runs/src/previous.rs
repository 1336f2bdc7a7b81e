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

/// The runs of an agent in a thread, before a run that starts there.
pub(crate) struct EarlierRuns<'r> {
    pub(crate) runs: &'r Runs,
    pub(crate) entry: &'r AgentEntry,
    /// The principal of the thread. Only its runs are read, so others cannot crowd them out.
    pub(crate) owner: &'r str,
    pub(crate) thread: &'r ThreadId,
    /// The run that starts.
    pub(crate) run: &'r RunId,
}

impl EarlierRuns<'_> {
    /// Returns the state that the last run of the thread left at the agent. Returns `None` if the agent itself holds it.
    pub(crate) async fn previous(&self) -> Option<PreviousRun> {
        let is_kept = self.runs.scope() > LogScope::Process;
        if !is_kept || !self.entry.agent().is_some_and(|agent| agent.keeps_threads()) {
            return None;
        }
        match self.find_previous().await {
            Ok(found) => found,
            Err(error) => {
                let run = self.run.as_str();
                tracing::warn!(run, %error, "the previous run of the thread cannot be read");
                None
            }
        }
    }

    /// Folds the earlier runs of the thread for an agent that needs them. If the log fails, returns the fold of the events read.
    pub(crate) async fn fold_thread(&self) -> Option<Box<dyn ThreadFold>> {
        let mut fold = self.entry.agent().and_then(|agent| agent.thread_fold())?;
        if let Err(error) = self.read_thread(&mut *fold).await {
            let run = self.run.as_str();
            tracing::warn!(run, %error, "the earlier runs of the thread cannot be read");
        }
        Some(fold)
    }

    /// Returns those of the thread's newest `max` runs that are earlier runs of the agent, newest first.
    async fn list(&self, max: usize) -> Result<Vec<RunState>, LogError> {
        let (thread_id, owner) = (Some(self.thread.clone()), Some(self.owner.to_owned()));
        let query = RunQuery { thread_id, owner, newest_first: true, ..RunQuery::default() };
        let mut states = self.runs.run_log().list(query, max).await?;
        states.retain(|state| state.meta.agent == self.entry.name() && state.meta.run_id != *self.run);
        Ok(states)
    }

    /// Folds the events of the agent's runs in the thread, oldest first, page by page.
    async fn read_thread(&self, fold: &mut dyn ThreadFold) -> Result<(), LogError> {
        for state in self.list(FOLDED_RUNS).await?.into_iter().rev() {
            self.runs.each_event(&state, |event| fold.handle_event(event)).await?;
        }
        Ok(())
    }

    /// Returns the newest run of the agent in the thread that has a checkpoint.
    async fn find_previous(&self) -> Result<Option<PreviousRun>, LogError> {
        // A run without checkpoint has no state at the agent.
        let with_checkpoint = |mut state: RunState| state.checkpoint.take().map(|found| (state, found));
        let Some((state, checkpoint)) = self.list(RUNS).await?.into_iter().find_map(with_checkpoint) else {
            return Ok(None);
        };
        let run = state.meta.public_id();
        let last = self.runs.run_log().read(&state.meta.run_id, state.head.saturating_sub(1), 1).await?;
        let is_waiting = last.events.iter().any(|event| {
            matches!(&event.event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Interrupted)
        });
        Ok(Some(PreviousRun::new(run, Checkpoint((*checkpoint).clone()), is_waiting)))
    }
}
