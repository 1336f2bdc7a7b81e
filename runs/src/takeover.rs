//! Takeover: a replica continues or ends a run whose owner's lease lapsed.
//!
//! ```text
//!   lapsed ── take over (the old owner is fenced) ──► read the log ──┬ the agent can resume ──► driven here
//!                                                                    └ it cannot ──► end open blocks, fail the run
//! ```
//!
//! The log is read after the old owner is fenced, so that it no longer changes. The output since the last logged event
//! comes from the agent, which resumes at its checkpoint. Headers that the old owner forwarded for its caller are not in
//! the log and are not sent again.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::agent::{AgentRequest, Checkpoint, Takeover};
use aqueduct_core::{
    BlockEvent, History, Principal, ResponseId, RunFailure, RunId, RunInfo, RunInput, StreamContext,
    Timestamp,
};
use aqueduct_runlog::{Lease, LogError, LogFuture, Remains, RunMeta, RunState, is_log_metadata, position_of};

use serde_json::Value;

use crate::agents::AgentEntry;
use crate::driver::{Drive, extension_value};
use crate::errands::is_errand;
use crate::extension::{RunExtension, RunOrigin};
use crate::feed::{Feed, TakenOver};
use crate::handle::RunHandle;
use crate::runs::Runs;

/// The failure code of a run whose owner is lost and that cannot be resumed.
pub(crate) const GATEWAY_LOST: &str = "gateway_lost";

/// The state of a lapsed run, read from its log.
pub(crate) struct Read {
    /// The open blocks and lanes, which must be ended if the run cannot be resumed.
    remains: Remains,
    /// The stream machine and the history up to the last event, or `None` if the run cannot be resumed.
    pub(crate) resumable: Option<(StreamContext, History)>,
    /// The response id of the agent's updates.
    pub(crate) response_id: Option<ResponseId>,
}

impl Read {
    /// Adds the next event of the log to the context, the history and the open state.
    fn handle_event(&mut self, event: &BlockEvent) {
        self.remains.handle_event(event);
        if let BlockEvent::BlockStarted(block) = event
            && block.lane.is_root()
            && self.response_id.is_none()
        {
            self.response_id.clone_from(&block.origin.response_id);
        }
        if let Some((context, history)) = &mut self.resumable {
            context.handle_past(event);
            if !is_log_metadata(event) {
                history.handle_event(event);
            }
        }
    }
}

impl Runs {
    /// Takes over a lapsed run: drives it if its agent can resume, otherwise ends it.
    pub(crate) async fn take_over(&self, run: &RunState) -> Result<(), LogError> {
        // A replica that is shutting down takes no run over: another replica does, or this one after its restart.
        if self.is_draining() {
            return Ok(());
        }
        if is_errand(&run.meta) {
            return self.take_over_errand(run).await;
        }
        let entry = self.setup().agents.known(&run.meta.agent).cloned();
        if let Some(entry) = &entry
            && self.adopt_lapsed(entry, run).await?
        {
            return Ok(());
        }
        let Some(lease) = self.take_lease(&run.meta.run_id, self.now()).await? else { return Ok(()) };
        // The old owner may have stored a checkpoint after `run` was listed.
        let state = self.insist(|| self.run_log().state(&lease.run_id)).await?;
        let mut position = None;
        let read =
            self.read_lapsed(&state, entry.as_deref(), &mut |found| position = Some(found.clone())).await?;
        let checkpoint = state.checkpoint.as_deref().cloned().map(Checkpoint);
        // A run is resumed if the agent is still configured, the log holds all events, and the agent accepts the
        // checkpoint.
        let resumed = entry.zip(read.resumable).zip(checkpoint).filter(|((entry, _), checkpoint)| {
            entry.agent().is_some_and(|agent| agent.can_resume(checkpoint))
        });
        match resumed {
            // This replica is at its run limit. The lease lapses again, and a replica below its limit takes the run over
            // then.
            Some(_) if self.check_room().is_err() => Ok(()),
            Some(((entry, (context, history)), checkpoint)) => {
                let (response_id, opened_at) = (read.response_id, state.meta.opened_at);
                let takeover = Takeover::new(checkpoint, history).with_position(position);
                let taken = TakenOver { context, takeover, response_id, opened_at };
                let record = self.insist(|| Box::pin(self.read_record(&lease.run_id))).await?.map(Arc::new);
                self.drive_lapsed(&state, lease, entry, taken, record);
                Ok(())
            }
            None => self.end_lapsed(&state, &lease, read.remains).await,
        }
    }

    /// Takes the lease of a run whose lease has lapsed by `now`. Returns `None` if another replica took it first, or the
    /// run has ended or was deleted.
    pub(crate) async fn take_lease(&self, run: &RunId, now: Timestamp) -> Result<Option<Lease>, LogError> {
        match self.run_log().take_over(run, now, self.lease_until()).await {
            Ok(lease) => Ok(Some(lease)),
            Err(LogError::Held { .. } | LogError::Closed(_) | LogError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Resumes the agent of a run that was taken over, from its checkpoint.
    fn drive_lapsed(
        &self,
        run: &RunState,
        lease: Lease,
        agent: Arc<AgentEntry>,
        taken: TakenOver,
        record: Option<Arc<Value>>,
    ) {
        let meta = &run.meta;
        tracing::warn!(
            run = meta.run_id.as_str(),
            agent = meta.agent,
            "a run of a lost replica is resumed here"
        );
        let origin = RunOrigin {
            takeover: Some(extension_value(&taken.takeover.checkpoint)),
            ..RunOrigin::new(&meta.agent, &meta.thread_id, "")
        };
        let attached = self.attach(&meta.run_id, &origin);
        self.drive_taken(meta, lease, agent, attached, record, Feed::Takeover(Box::new(taken)));
    }

    /// Drives a run that was taken over. The input has no messages: the source continues after the events that the log
    /// holds.
    pub(crate) fn drive_taken(
        &self,
        meta: &RunMeta,
        lease: Lease,
        agent: Arc<AgentEntry>,
        (handle, extension): (Arc<RunHandle>, Option<Arc<dyn RunExtension>>),
        record: Option<Arc<Value>>,
        feed: Feed,
    ) {
        self.metrics().count_takeover();
        let mut input =
            RunInput::prompt(meta.thread_id.as_bytes().clone(), meta.public_id().as_bytes().clone(), "");
        input.messages.clear();
        input.record = record;
        let mut request = AgentRequest::new(input);
        request.keeps_checkpoints = true;
        request.principal = Principal::from_stored(&meta.owner);
        let drive = Drive {
            runs: self.clone(),
            agent,
            lease,
            handle,
            extension,
            request,
            kept_ids: None,
            shown: None,
            lanes_of: None,
            place: self.keep_place(&meta.owner),
        };
        drive.spawn(feed);
    }

    /// Ends a run that cannot be resumed: appends the ends of its open blocks and lanes, then the failure.
    async fn end_lapsed(&self, run: &RunState, lease: &Lease, remains: Remains) -> Result<(), LogError> {
        let message =
            "the replica that drove the run is gone, and the agent cannot resume its work: run it again";
        let end = remains.end(&run.meta, RunFailure::new(GATEWAY_LOST, message));
        let append = || -> LogFuture<'_, u64> {
            let appended = self.run_log().append(lease, end.clone(), self.now());
            Box::pin(async move { appended.await.map_err(LogError::from) })
        };
        self.insist(append).await?;
        self.metrics().run_ended(&run.meta.agent, GATEWAY_LOST, Duration::ZERO);
        tracing::warn!(
            run = run.meta.run_id.as_str(),
            agent = run.meta.agent,
            "a run of a lost replica cannot be resumed and was ended"
        );
        Ok(())
    }

    /// Reads all events of a lapsed run whose lease was taken, and passes the positions of its source to `on_position`.
    pub(crate) async fn read_lapsed(
        &self,
        run: &RunState,
        entry: Option<&AgentEntry>,
        on_position: &mut (dyn FnMut(&Value) + Send),
    ) -> Result<Read, LogError> {
        let meta = &run.meta;
        let mut info = RunInfo::new(meta.thread_id.as_bytes().clone(), meta.public_id().as_bytes().clone());
        info.agent = Some(meta.agent.as_str().into());
        // A run can only be resumed if all of its events can be read.
        let resumable = entry
            .filter(|_| run.earliest == 1)
            .map(|entry| (StreamContext::resuming(info, entry.options().limits.clone()), History::default()));
        let mut read = Read { remains: Remains::default(), resumable, response_id: None };
        let handle = |event: &BlockEvent| match position_of(event) {
            Some(position) => on_position(position),
            None => read.handle_event(event),
        };
        self.each_taken_event(run, handle).await?;
        Ok(read)
    }
}
