//! Runs whose gateway is gone: each is taken over, and goes on here or ends.
//!
//! ```text
//!   lapsed ── take over (the old owner is fenced) ──► read the log ──┬ the agent can be found again ──► driven here
//!                                                                    └ it cannot ──► close what is open, and fail
//! ```
//!
//! Read after the fence: nobody adds anything any more. What the agent said since its gateway died comes from the agent
//! itself; headers that the old gateway passed on for its caller are not in the log, and not sent.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, RunFailure, RunInfo, RunInput, StreamContext};
use aqueduct_runlog::{Lease, LogError, Remains, RunState};
use serde_json::Value;

use super::driver::{Drive, limits};
use super::feed::{Feed, TakenUp};
use super::watch::{ActiveRun, is_note};
use super::{AgentEntry, Gateway, now};
use crate::source::{Ask, GATEWAY_LOST, History, Left};

/// Events that are read at once.
const PAGE: usize = 1_000;

/// What the log of a run that was left comes to.
struct Read {
    remains: Remains,
    /// Absent if the run cannot go on, whatever else the log has.
    resumable: Option<(StreamContext, History)>,
    upstream: Option<Value>,
}

impl Read {
    fn handle_event(&mut self, event: &BlockEvent) {
        self.remains.handle_event(event);
        if let Some((context, said)) = &mut self.resumable {
            context.handle_past(event);
            match event {
                // The last word on where to look.
                BlockEvent::Custom(custom) if is_note(event) => self.upstream = Some(custom.value.clone()),
                event => said.handle_event(event),
            }
        }
    }
}

impl Gateway {
    /// Takes over a run that was left.
    pub(super) async fn take_up(self: &Arc<Self>, run: &RunState) -> Result<(), LogError> {
        // Who is about to leave takes nothing up; others will, or this gateway when it is back.
        if self.is_draining() {
            return Ok(());
        }
        let lease = match self.log.take_over(&run.meta.run_id, now(), self.lease_until()).await {
            Ok(lease) => lease,
            // Somebody else was quicker, or it is over.
            Err(LogError::Held { .. } | LogError::Closed(_) | LogError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let agent = self.setup().known(&run.meta.agent).cloned();
        let read = self.read_left(&lease, run, agent.as_deref()).await?;
        let source = agent.as_ref().and_then(|agent| agent.source.as_ref());
        match (source, agent.clone(), read.resumable, read.upstream) {
            (Some(source), Some(agent), Some((context, said)), Some(upstream)) if source.finds(&upstream) => {
                if self.check_room().is_err() {
                    // The lease lapses again, and whoever has room then takes it up.
                    return Ok(());
                }
                self.drive_left(run, lease, agent, context, Left { upstream, said });
                Ok(())
            }
            _ => self.end_left(run, &lease, read.remains).await,
        }
    }

    fn drive_left(
        self: &Arc<Self>,
        run: &RunState,
        lease: Lease,
        agent: Arc<AgentEntry>,
        context: StreamContext,
        left: Left,
    ) {
        let meta = &run.meta;
        tracing::warn!(run = meta.run_id.as_str(), agent = meta.agent, "a run that was left goes on here");
        self.metrics.taken_over();
        let active = Arc::new(ActiveRun::new());
        self.active().insert(meta.run_id.clone(), Arc::clone(&active));
        let mut input =
            RunInput::prompt(meta.thread_id.as_bytes().clone(), meta.run_id.as_bytes().clone(), "");
        input.messages.clear();
        let ask = Ask { is_logged: true, ..Ask::plain(input) };
        let feed = Feed::Left(Box::new(TakenUp { context, left, opened_at: meta.opened_at }));
        let drive = Drive { gateway: Arc::clone(self), agent, lease, active, ask, feed };
        tokio::spawn(drive.run());
    }

    async fn end_left(&self, run: &RunState, lease: &Lease, remains: Remains) -> Result<(), LogError> {
        let message =
            "the gateway that ran this is gone, and its agent cannot be asked to go on: run it again";
        let end = remains.end(&run.meta, RunFailure::new(GATEWAY_LOST, message));
        self.log.append(lease, end, now()).await.map_err(LogError::from)?;
        self.metrics.run_ended(GATEWAY_LOST, Duration::ZERO);
        tracing::warn!(
            run = run.meta.run_id.as_str(),
            agent = run.meta.agent,
            "a run that was left has been ended"
        );
        Ok(())
    }

    async fn read_left(
        &self,
        lease: &Lease,
        run: &RunState,
        agent: Option<&AgentEntry>,
    ) -> Result<Read, LogError> {
        let mut after = self.log.state(&lease.run_id).await?.earliest - 1;
        let meta = &run.meta;
        let info = RunInfo::new(meta.thread_id.as_bytes().clone(), meta.run_id.as_bytes().clone());
        // From half of its events nobody can tell where a run stands.
        let resumable = agent
            .filter(|_| after == 0)
            .map(|agent| (StreamContext::resuming(info, limits(agent)), History::default()));
        let mut read = Read { remains: Remains::default(), resumable, upstream: None };
        loop {
            let page = self.log.read(&lease.run_id, after, PAGE).await?;
            for event in &page.events {
                read.handle_event(&event.event);
            }
            match page.events.last() {
                Some(last) if last.number < page.head => after = last.number,
                _ => return Ok(read),
            }
        }
    }
}
