//! Takeover of a run at an AG-UI agent that can resume: another replica reads the stream of the run from its start, and
//! drops what the log holds.
//!
//! ```text
//!   checkpoint: the run is announced ──► posted ──► first event id ──► checkpoint: the agent knows the run
//!   each read ──► events, then the id of the last one as position ──► one append
//!   takeover ──► stream from the start ──► decode and drop up to the position ──► new events
//! ```
//!
//! Invariants: the decoder sees the whole stream, so its state is that of the lost owner; content is neither compared nor
//! guessed, because the log stores a position together with the events before it; a stream that skips the position ends
//! the run.

use std::sync::Arc;

use aqueduct_core::agent::{AgentRequest, Checkpoint, Takeover};
use aqueduct_core::{RunFailure, RunId, SourceEvent, SourceStream};
use aqueduct_transport_http::EventPosition;
use aqueduct_transport_http::sse::Event;
use serde_json::{Value, json};

use super::resume::Position;
use super::{Reopening, Shared, State, Turn};

/// The member of a checkpoint with the run at the agent.
const RUN: &str = "run";
/// The member that is set once the agent has sent an event of the run.
const KNOWN: &str = "known";

/// The checkpoint of a run: its id at the agent.
pub(super) struct RemoteRun {
    pub(super) run: RunId,
    /// Set if the agent has sent an event of the run.
    pub(super) is_known: bool,
}

impl RemoteRun {
    /// Returns the run before it is posted.
    pub(super) fn announced(run: RunId) -> Self {
        Self { run, is_known: false }
    }

    /// Returns a run that the agent knows.
    pub(super) fn known(run: RunId) -> Self {
        Self { run, is_known: true }
    }

    /// Reads a checkpoint. Returns `None` for one of another kind of agent.
    pub(super) fn of(checkpoint: &Checkpoint) -> Option<Self> {
        let stored = checkpoint.0.get("agui")?;
        let run = RunId::from(stored.get(RUN)?.as_str()?.to_owned());
        Some(Self { run, is_known: stored.get(KNOWN).and_then(Value::as_bool) == Some(true) })
    }

    /// Returns the checkpoint, and for a run that was not posted yet the position before its first event.
    pub(super) fn to_checkpoint(&self) -> impl Iterator<Item = SourceEvent> + use<> {
        let value = json!({ "agui": { RUN: self.run.as_str(), KNOWN: self.is_known } });
        let start = (!self.is_known).then_some(SourceEvent::Position(Value::Null));
        [SourceEvent::Checkpoint(Checkpoint(value))].into_iter().chain(start)
    }
}

/// The part of a stream that the log holds.
#[derive(Debug)]
pub(super) struct Replay {
    until: EventPosition,
}

impl Replay {
    /// Handles an event that was decoded and dropped. Returns `true` if it is the last one that the log holds.
    ///
    /// # Errors
    ///
    /// Returns a failure if the stream passed the position, or ended before it.
    pub(super) fn handle_event(&self, event: &Event, is_end: bool) -> Result<bool, Box<RunFailure>> {
        let at = event.id.as_deref().and_then(EventPosition::parse);
        let place = |at: &EventPosition| (at.number, at.payloads);
        if at.as_ref().is_some_and(|at| *at == self.until) {
            return Ok(true);
        }
        if is_end || at.as_ref().is_some_and(|at| place(at) > place(&self.until)) {
            let message = format!("its stream does not contain the event {}", self.until);
            return Err(Box::new(RunFailure::new(RunFailure::UPSTREAM_ENDED, message)));
        }
        Ok(false)
    }
}

impl Shared {
    /// Returns the state for resuming a run of this request.
    pub(super) fn reopening(self: &Arc<Self>, request: &AgentRequest, position: Position) -> Reopening {
        Reopening {
            shared: Arc::clone(self),
            context: Arc::clone(&request.context),
            run: position.run().clone(),
            position,
            keeps_checkpoints: request.keeps_checkpoints,
            is_known: false,
        }
    }

    /// Reads the stream of a run that another replica started, and returns what the log lacks.
    pub(super) fn take_over(self: &Arc<Self>, request: &AgentRequest, takeover: &Takeover) -> SourceStream {
        let run = RemoteRun::of(&takeover.checkpoint).map(|remote| remote.run);
        let run = run.unwrap_or_else(|| request.input.run_id.detached());
        let until = takeover.position.as_ref().and_then(Value::as_str).and_then(EventPosition::parse);
        let mut reopening = self.reopening(request, Position::at_start(run.clone()));
        let first = reopening.position.next_attempt().unwrap_or_default();
        let opening = Arc::clone(self).reopen(Arc::clone(&request.context), run, first);
        let cancel = request.cancel.clone();
        Box::pin(Turn {
            events: [SourceEvent::Position(Value::Null)].into(),
            state: State::Reopening(Box::pin(opening), Box::default()),
            cancelled: Box::pin(async move { cancel.cancelled().await }),
            reopening: Some(reopening),
            replay: until.map(|until| Replay { until }),
            is_taken_over: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> Event {
        Event { event: None, id: Some(id.into()), data: "{}".into(), terminated: true }
    }

    #[test]
    fn a_replay_ends_at_its_position_and_never_behind_it() {
        let replay = Replay { until: EventPosition::parse("r.7.2").unwrap() };
        let read =
            |id: &str, is_end: bool| replay.handle_event(&event(id), is_end).map_err(|error| error.code);
        assert_eq!(read("r.6.3", false), Ok(false));
        assert_eq!(read("r.7.1", false), Ok(false));
        assert_eq!(read("r.7.2", false), Ok(true));
        for (id, is_end) in [("r.8.1", false), ("r.7.1", true)] {
            assert_eq!(read(id, is_end).unwrap_err(), RunFailure::UPSTREAM_ENDED, "{id}");
        }
    }

    #[test]
    fn a_checkpoint_names_the_run_and_whether_the_agent_has_it() {
        for remote in [RemoteRun::announced("r".into()), RemoteRun::known("r".into())] {
            let events: Vec<_> = remote.to_checkpoint().collect();
            let SourceEvent::Checkpoint(checkpoint) = &events[0] else { panic!("{events:?}") };
            let read = RemoteRun::of(checkpoint).unwrap();
            assert_eq!((read.run.as_str(), read.is_known), ("r", remote.is_known));
            assert_eq!(events.len(), if remote.is_known { 1 } else { 2 });
        }
        assert!(RemoteRun::of(&Checkpoint(json!({ "taskId": "t" }))).is_none());
    }
}
