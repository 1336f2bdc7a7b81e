//! What earlier runs of a thread left at their agent, for a replica that did not drive them.
//!
//! An agent remembers the conversations that it had. Where replicas share a log, or one was restarted, the last run of
//! the thread may have been driven elsewhere: then the log holds where its work is found, and whether it waits.

use aqueduct_core::agent::{PreviousRun, ThreadFold};
use aqueduct_core::{BlockEvent, Checkpoint, RunId, RunOutcome, ThreadId};
use aqueduct_runlog::{LogError, LogScope, RunQuery, RunState};

use crate::agents::AgentEntry;
use crate::runs::Runs;

/// Runs of a thread that are looked at: those of the agent may stand between runs of others.
const RUNS: usize = 16;

/// Runs of a thread that an agent's [`ThreadFold`] reads at most: the newest, in the order in which they ran.
const FOLDED_RUNS: usize = 256;

/// Events that are read together.
const PAGE: usize = 512;

/// The runs of a thread, newest first. Runs of other owners are not read: they cannot crowd out those of this one.
fn thread_query(owner: &str, thread: &ThreadId) -> RunQuery {
    let (thread_id, owner) = (Some(thread.clone()), Some(owner.to_owned()));
    RunQuery { thread_id, owner, newest_first: true, ..RunQuery::default() }
}

impl Runs {
    /// Returns what the last run of the thread left at the agent; `None` if the agent itself knows as much.
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

    /// Folds the earlier runs of the thread for an agent that needs them. A log that cannot be read gives what was read.
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
            let mut after = state.earliest.saturating_sub(1);
            loop {
                let page = self.run_log().read(&state.meta.run_id, after, PAGE).await?;
                let Some(last) = page.events.last().map(|event| event.number) else { break };
                page.events.iter().for_each(|event| fold.handle_event(&event.event));
                after = last;
            }
        }
        Ok(())
    }

    async fn find_previous(
        &self,
        entry: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<Option<PreviousRun>, LogError> {
        let query = thread_query(owner, thread);
        let is_of_agent = |state: &RunState| state.meta.agent == entry.name() && state.meta.run_id != *run;
        // One without a checkpoint came to nothing at the agent.
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
