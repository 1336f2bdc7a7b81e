//! Ends a thread's pending interrupts without a reply.
//!
//! A run that ended with interrupts has no driver that could be cancelled. [`Runs::dismiss`] claims the interrupts as a
//! reply does, and logs a run that is cancelled before its agent is called: every reader of the log then sees that
//! nothing is pending.

use std::sync::Arc;

use aqueduct_core::event::RunFinished;
use aqueduct_core::service::{Caller, ServiceError, StartedRun};
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunInput, RunOutcome};
use aqueduct_runlog::{LogError, RunMeta};

use crate::audit::Action;
use crate::reply::Reply;
use crate::runs::{Runs, refuse};

impl Runs {
    /// Ends the interrupts that `input` replies to. Returns the run that does, which has already ended.
    ///
    /// # Errors
    ///
    /// Returns the errors of a run that replies: the interrupts are unknown, or another reply has claimed them.
    pub async fn dismiss(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> Result<StartedRun, ServiceError> {
        let run = input.run_id.detached();
        let dismissed = self.dismiss_run(caller, agent, input).await;
        self.audit(caller, Action { verb: "cancel", agent, run: run.as_str() }, &dismissed);
        dismissed
    }

    /// Claims the interrupts, logs the cancelled run, and keeps or releases the claim.
    async fn dismiss_run(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> Result<StartedRun, ServiceError> {
        let owner = self.authenticate(caller, agent)?.to_string();
        let (run, claim) = match self.take_reply(agent, &owner, &input).await? {
            Reply::Taken(run, claim) => (run.id, claim),
            Reply::Repeats(run) => return self.repeat_run(&owner, agent, &input.thread_id, run).await,
        };
        let key = RunMeta::key(&owner, &run);
        let ended = self.log_cancelled(&owner, agent, &run, &input).await;
        if let Some(claim) = &claim {
            match &ended {
                Ok(()) => self.keep_claim(claim).await,
                Err(_) => self.release_claim(claim, &key, agent, &input.thread_id).await,
            }
        }
        ended?;
        Ok(StartedRun::new(run, self.watched(&key, None, 0)))
    }

    /// Logs a run that starts and is cancelled, without an agent.
    async fn log_cancelled(
        &self,
        owner: &str,
        agent: &str,
        run: &RunId,
        input: &RunInput,
    ) -> Result<(), ServiceError> {
        let mut info = RunInfo::new(input.thread_id.as_bytes().clone(), run.as_bytes().clone());
        info.parent_run_id.clone_from(&input.parent_run_id);
        info.agent = Some(agent.into());
        let info = Arc::new(info);
        let lease = self.open_log(owner, agent, &input.thread_id, run).await?;
        self.note_input(&lease, owner, input, None).await;
        let end = RunFinished::new(Arc::clone(&info), RunOutcome::Cancelled);
        let events = vec![BlockEvent::RunStarted(info), BlockEvent::RunFinished(Box::new(end))];
        let appended = self.run_log().append(&lease, events, self.now()).await;
        appended.map(drop).map_err(|error| refuse(&LogError::from(error)))
    }
}
