//! [`Drive`]: the task of one run, from the connection of its source to the end of the agent's stream.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{MessageId, RunId, RunInfo, StreamContext};
use aqueduct_runlog::{Lease, LogError, RunMeta};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::input::Input;
use super::{HANDED_OVER, INTERRUPTED, LOG_LOST, Machine, TAKEN_OVER};
use crate::agents::AgentEntry;
use crate::extension::RunExtension;
use crate::feed::Feed;
use crate::handle::RunHandle;
use crate::quota::RunPlace;
use crate::runs::Runs;
use crate::settings::OnLogLoss;
use crate::suspend::Suspension;

/// The time for which the stream of an agent is polled after the end of its run, so that the agent
/// can send its remote side a last request, for example a cancel.
const FINISH_WAIT: Duration = Duration::from_secs(10);

/// A run to drive.
pub(crate) struct Drive {
    pub(crate) runs: Runs,
    pub(crate) agent: Arc<AgentEntry>,
    pub(crate) lease: Lease,
    pub(crate) handle: Arc<RunHandle>,
    pub(crate) extension: Option<Arc<dyn RunExtension>>,
    pub(crate) request: AgentRequest,
    /// The message ids of the thread's earlier runs, for an agent whose ids are kept.
    pub(crate) kept_ids: Option<Vec<String>>,
    /// The id of the run in its events, if it differs from the id in the log.
    pub(crate) shown: Option<RunId>,
    /// The extension of the first run whose stream this run continues: the lanes of that extension belong to this run.
    pub(crate) lanes_of: Option<Arc<dyn RunExtension>>,
    /// The run's place in the quota of its principal.
    pub(crate) place: Option<RunPlace>,
}

impl Drive {
    /// Keeps the ids of the source if the agent merges the history of its threads by them.
    pub(super) fn keeping_ids(&self, context: StreamContext) -> StreamContext {
        let Some(earlier) = &self.kept_ids else { return context };
        let of_input = self.request.input.messages.iter().filter_map(|message| message.id.as_ref());
        context.with_kept_ids(of_input.map(MessageId::as_str).chain(earlier.iter().map(String::as_str)))
    }

    /// Drives the run in a task of its own.
    pub(crate) fn spawn(self, feed: Feed) {
        // Boxed: a future stores each moved argument twice.
        let (drive, feed) = (Box::new(self), Box::new(feed));
        drive.runs.active().insert(drive.lease.run_id.clone(), Arc::clone(&drive.handle));
        tokio::spawn(drive.run(feed).in_current_span());
    }

    /// Drives the run to its end, and waits for the agent to finish.
    async fn run(mut self: Box<Self>, feed: Box<Feed>) {
        let run_id = self.lease.run_id.clone();
        let started_at = Instant::now();
        tracing::info!(
            run = self.request.input.run_id.as_str(),
            thread = self.request.input.thread_id.as_str(),
            agent = self.agent.name(),
            "run started"
        );
        let held = self.runs.hold(&self.lease);
        let (source, begin) = feed.connect(self.agent.agent(), &self.request);
        let mut input = Input::new(source);
        let metrics = Arc::clone(self.runs.metrics());
        let counted = metrics.run_begins();
        // Boxed: a future stores each moved value a second time.
        let machine = Box::new(Machine::new(&self, begin, held.lost.clone()));
        let (mut outcome, suspension) = machine.run(&mut input).await;
        drop((held, counted));
        if outcome == TAKEN_OVER && Box::pin(self.has_vanished()).await {
            LOG_LOST.clone_into(&mut outcome);
        }
        if outcome == HANDED_OVER {
            Box::pin(self.release()).await;
        }
        let suspension = Box::pin(self.confirm_suspension(suspension, &outcome)).await;
        if suspension.is_none() {
            self.end();
        }
        self.runs.remove_active(&run_id, &self.handle);
        drop(self.place.take());
        metrics.run_ended(self.agent.name(), &outcome, started_at.elapsed());
        tracing::info!(
            run = self.request.input.run_id.as_str(),
            agent = self.agent.name(),
            outcome = outcome.as_str(),
            ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            "run ended"
        );
        if let Some(suspension) = suspension {
            Box::pin(suspension.hold(&self, &mut input)).await;
            self.end();
        }
        if self.cancels_agent(&outcome) {
            Box::pin(self.finish_agent(input)).await;
        }
    }

    /// Ends the handle and the extension: no event follows, in this run or in another one.
    fn end(&mut self) {
        self.handle.end();
        if let Some(extension) = self.extension.take() {
            extension.handle_end();
        }
    }

    /// Returns the suspension if the log holds the end of the run with its interrupts; otherwise withdraws the suspension.
    async fn confirm_suspension(&self, suspension: Option<Suspension>, outcome: &str) -> Option<Suspension> {
        let suspension = suspension?;
        if outcome != INTERRUPTED {
            suspension.withdraw(&self.runs).await;
            return None;
        }
        if let Some(extension) = &self.extension {
            extension.handle_suspended();
        }
        Some(suspension)
    }

    /// Returns `true` if the agent is cancelled after the end of the run. Returns `false` if another replica needs its
    /// work.
    fn cancels_agent(&self, outcome: &str) -> bool {
        match outcome {
            TAKEN_OVER | HANDED_OVER => false,
            LOG_LOST => self.runs.setup().settings.on_log_loss == OnLogLoss::Cancel,
            _ => true,
        }
    }

    /// Returns `true` if the log does not have the run any more. An engine reports its lease as lost, as that of a run that
    /// another replica has taken over.
    async fn has_vanished(&self) -> bool {
        matches!(self.runs.run_log().state(&self.lease.run_id).await, Err(LogError::NotFound(_)))
    }

    /// Releases the lease, so that another replica, or this one after a restart, takes the run over.
    async fn release(&self) {
        if let Err(error) = self.runs.run_log().release(vec![self.lease.clone()]).await {
            tracing::warn!(run = self.lease.run_id.as_str(), %error, "the lease was not released: it lapses");
        }
        self.handle.mark_handed_over();
    }

    /// Cancels the agent after the end of its run, and polls its stream to the end within [`FINISH_WAIT`].
    async fn finish_agent(&self, input: Input) {
        self.request.cancel.cancel();
        if tokio::time::timeout(FINISH_WAIT, input.finish()).await.is_err() {
            tracing::warn!(run = self.lease.run_id.as_str(), "the agent did not finish in time");
        }
    }

    /// Returns the identity of the run for its first event.
    pub(super) fn info(&self) -> RunInfo {
        let input = &self.request.input;
        RunInfo {
            thread_id: input.thread_id.detached(),
            run_id: RunMeta::id_in(&self.lease.run_id),
            parent_run_id: input.parent_run_id.as_ref().map(RunId::detached),
            agent: Some(self.agent.name().to_owned().into()),
        }
    }
}
