//! What sub-agents say that were called through gateways, as part of the run.

use aqueduct_core::{LaneOutcome, Source, SourceEvent, StreamError};

use super::Machine;
use crate::service::watch::Lanes;
use crate::source::EVENTS_IN_FLIGHT;

impl Machine<'_> {
    /// Before the agent goes on: what it heard from sub-agents through other gateways comes first, as what it heard
    /// through this one does.
    pub(super) async fn catch_up(&mut self, lanes: &mut Option<Lanes>) {
        let drive = self.drive;
        if drive.active.far.is_empty() {
            return;
        }
        let mut reached = std::pin::pin!(drive.active.far.catch_up(&*drive.gateway.log));
        let mut said = Vec::with_capacity(EVENTS_IN_FLIGHT);
        loop {
            tokio::select! {
                biased;
                true = hear_lanes(lanes, &mut said) => said.drain(..).for_each(|event| self.handle_lane(*event)),
                () = &mut reached => break,
            }
        }
        // What came between the two looks.
        let said = lanes.iter_mut().flat_map(|lanes| std::iter::from_fn(|| lanes.try_recv().ok()));
        said.collect::<Vec<_>>().into_iter().for_each(|event| self.handle_lane(*event));
    }

    /// What a sub-agent says that was called through the gateway. It cannot fail the run.
    pub(super) fn handle_lane(&mut self, event: SourceEvent) {
        self.calls.observe(&event);
        let event = match event {
            SourceEvent::LaneOpened(source) => SourceEvent::LaneOpened(self.calls.attribute(source)),
            event => event,
        };
        let source = source_of(&event);
        match self.context.handle_event(event) {
            Ok(()) => {}
            Err(StreamError::Ended) => self.drive.gateway.metrics.lane_event_dropped(),
            Err(error) => {
                self.drive.gateway.metrics.lane_event_dropped();
                tracing::warn!(run = self.drive.lease.run_id.as_str(), %error, "a sub-agent cannot be shown");
                if let Some(source) = source {
                    let outcome = LaneOutcome::Failed((&error).into());
                    self.context.handle_event(SourceEvent::LaneClosed { source, outcome }).ok();
                }
            }
        }
    }
}

/// True if sub-agents said something.
#[expect(clippy::vec_box, reason = "as the channel gives them")]
pub(super) async fn hear_lanes(lanes: &mut Option<Lanes>, batch: &mut Vec<Box<SourceEvent>>) -> bool {
    match lanes {
        Some(lanes) => lanes.recv_many(batch, EVENTS_IN_FLIGHT).await > 0,
        None => std::future::pending().await,
    }
}

/// The lane of an event.
fn source_of(event: &SourceEvent) -> Option<Source> {
    match event {
        SourceEvent::Update(update) => Some(update.source.clone()),
        SourceEvent::LaneOpened(source)
        | SourceEvent::LaneClosed { source, .. }
        | SourceEvent::StepStarted { source, .. }
        | SourceEvent::StepFinished { source, .. }
        | SourceEvent::Usage { source, .. } => Some(source.clone()),
        _ => None,
    }
}
