//! Events of lanes that the host feeds: sub-agents that were called through the host.

use aqueduct_core::{Error, LaneOutcome, Source, SourceEvent};

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

    /// Handles an event of a lane. An error drops the event and does not fail the run.
    fn handle_lane(&mut self, event: SourceEvent) {
        let Some(extension) = &self.drive.extension else { return };
        extension.observe(&event);
        let event = extension.place_lane(event);
        let source = source_of(&event);
        match self.context.handle_event(event) {
            Ok(()) => {}
            Err(Error::Ended) => extension.handle_lane_dropped(),
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
        | SourceEvent::Usage { source, .. } => Some(source.clone()),
        _ => None,
    }
}
