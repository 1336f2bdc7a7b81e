//! What earlier runs of a thread left at its agent, for a gateway that did not drive them.
//!
//! A gateway remembers the conversations that it had. Where several share a log, or one was started again, the last run
//! of the thread may have been driven elsewhere: then the log tells where its work is found, and whether it waits.

use aqueduct_core::{BlockEvent, RunId, RunOutcome, ThreadId};
use aqueduct_runlog::{LogError, RunQuery, RunState};

use super::watch::is_note;
use super::{AgentEntry, Gateway};
use crate::config::RunLogEngine;
use crate::source::Earlier;

/// Runs of a thread that are looked at: those of the agent may stand between runs of others.
const RUNS: usize = 16;
/// Events in which the note stands: the run, what it was asked, and a few that may come before the agent names its task.
const FIRST: usize = 16;

impl Gateway {
    /// What the last run of the thread left at the agent; none if nothing is known, or only this gateway can know.
    pub(super) async fn earlier(
        &self,
        agent: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Option<Earlier> {
        let is_kept = !matches!(self.config().runs.log, RunLogEngine::Memory);
        if !is_kept || !agent.source.as_ref().is_some_and(|source| source.has_threads()) {
            return None;
        }
        match self.find_earlier(agent, owner, thread, run).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(run = run.as_str(), %error, "what the thread left at its agent cannot be read");
                None
            }
        }
    }

    async fn find_earlier(
        &self,
        agent: &AgentEntry,
        owner: &str,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<Option<Earlier>, LogError> {
        let query = RunQuery { thread_id: Some(thread.clone()), newest_first: true, ..RunQuery::default() };
        let is_of_agent = |state: &RunState| {
            state.meta.agent == agent.name && state.meta.owner == owner && state.meta.run_id != *run
        };
        for state in self.log.list(query, RUNS).await?.into_iter().filter(is_of_agent) {
            if let Some(found) = self.left_at_agent(&state).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// None of a run that came to nothing at the agent.
    async fn left_at_agent(&self, state: &RunState) -> Result<Option<Earlier>, LogError> {
        let run = &state.meta.run_id;
        if state.earliest > 1 {
            return Ok(None);
        }
        let first = self.log.read(run, 0, FIRST).await?;
        let note = first.events.into_iter().find(|event| is_note(&event.event)).map(|event| event.event);
        let Some(BlockEvent::Custom(note)) = note else { return Ok(None) };
        let last = self.log.read(run, state.head.saturating_sub(1), 1).await?;
        let waits = last.events.iter().any(|event| {
            matches!(&event.event, BlockEvent::RunFinished(end) if end.outcome == RunOutcome::Interrupted)
        });
        Ok(Some(Earlier { run: run.clone(), upstream: note.value, waits }))
    }
}
