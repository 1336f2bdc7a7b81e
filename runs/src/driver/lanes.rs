//! Events of lanes that the host feeds: sub-agents that were called through the host.
//!
//! The host shows a called sub-agent inside the run of its caller (tee): the events of the
//! sub-agent arrive beside those of the agent, and the extension of the run gives them their place.
//! An error in them closes the lane and never fails the run: the agent itself did nothing wrong.

use aqueduct_core::{BlockEvent, LaneOutcome, RunOutcome, Source, SourceEvent};

use super::Machine;
use super::input::Input;

impl Machine<'_> {
    /// Handles lane events that precede the agent's next event and are still on their way to the run.
    pub(super) async fn catch_up(&mut self, input: &mut Input) {
        let extension = self.drive.extension.clone();
        let Some(mut reached) = extension.as_ref().and_then(|extension| extension.catch_up()) else { return };
        loop {
            tokio::select! {
                biased;
                events = input.next_lanes() => self.handle_lanes(events),
                () = &mut reached => break,
            }
        }
        drop(reached);
        // Events that arrived between the two polls.
        let rest = input.ready_lanes();
        self.handle_lanes(rest);
    }

    /// Handles lane events in the form that the extension gives them.
    pub(super) fn handle_lanes(&mut self, events: Vec<SourceEvent>) {
        for event in events {
            self.handle_lane(event);
        }
    }

    /// Returns `true` if the run ends with interrupts that lanes raised.
    pub(super) fn ends_with_raised(&self) -> bool {
        !self.raised.is_empty() && !self.is_stopping && !self.context.is_ended()
    }

    /// Ends the run with the interrupts that lanes raised. The suspension is stored first, so that a reply finds it.
    pub(super) async fn end_with_raised(&mut self) {
        let raised = std::mem::take(&mut self.raised);
        let finished = SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None };
        // Only a context that has ended refuses the event.
        self.context.handle_event(finished).ok();
        self.polled.extend(std::iter::from_fn(|| self.context.poll_event()));
        let pending = match self.polled.last() {
            Some(BlockEvent::RunFinished(end)) => end.pending_calls.clone(),
            _ => Vec::new(),
        };
        self.suspension = Some(self.drive.runs.suspend(self.drive, raised, pending).await);
    }

    /// Handles an event of a lane. It cannot fail the run.
    fn handle_lane(&mut self, event: SourceEvent) {
        let Some(extension) = &self.drive.extension else { return };
        extension.observe(&event);
        let event = extension.place_lane(event);
        let source = source_of(&event);
        let asks = matches!(event, SourceEvent::InterruptRequested { .. }).then(|| event.clone());
        match self.context.handle_event(event) {
            Ok(()) => self.raised.extend(asks),
            Err(aqueduct_core::Error::Ended) => extension.handle_lane_dropped(),
            Err(error) => {
                extension.handle_lane_dropped();
                tracing::warn!(run = self.drive.lease.run_id.as_str(), %error, "a sub-agent cannot be shown");
                if let Some(source) = source {
                    let outcome = LaneOutcome::Failed((&error).into());
                    self.context.handle_event(SourceEvent::LaneClosed { source, outcome }).ok();
                }
            }
        }
    }
}

/// Returns the lane of an event.
fn source_of(event: &SourceEvent) -> Option<Source> {
    match event {
        SourceEvent::Update(update) => Some(update.source.clone()),
        SourceEvent::LaneOpened(source)
        | SourceEvent::LaneClosed { source, .. }
        | SourceEvent::StepStarted { source, .. }
        | SourceEvent::StepFinished { source, .. }
        | SourceEvent::Usage { source, .. }
        | SourceEvent::InterruptRequested { source, .. } => Some(source.clone()),
        _ => None,
    }
}
