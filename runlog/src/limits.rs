//! The limits of a log: the same for every engine, checked in one place.
//!
//! Weights are bytes of content, not of memory: heads are shared, and containers are not counted. The engine in memory adds the size of
//! its entries ([`memory`](crate::memory)).

use aqueduct_core::block::ToolOutput;
use aqueduct_core::event::BlockEvent as Event;
use aqueduct_core::{BlockEvent, RunId};
use serde_json::Value;

use crate::error::LogError;
use crate::log::{Control, Lease, Note};

aqueduct_core::with_defaults! {
    /// The limits of a log.
    ///
    /// By default 10,000 runs and one GiB of content in memory, 64 MiB and a million events per run; owners are not
    /// limited.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LogLimits {
        /// Runs, ended ones included. Beyond it the run that ended first is deleted: in memory one of the
        /// same owner, or of an owner that has more runs. If no run has ended, opening fails. An engine
        /// that several replicas share does not count runs.
        pub runs: usize = 10_000,
        /// Bytes that all runs of the engine in memory hold together. Beyond it ended runs are deleted, the
        /// earliest end first: runs of the owner that appends, or of owners that hold more, so that no
        /// owner loses runs to one that holds more. If no such run has ended, appending fails. Other
        /// engines do not hold runs in memory.
        pub bytes: usize = 1024 * 1024 * 1024,
        /// Bytes that the runs of one owner hold together in the engine in memory. Beyond it ended runs of
        /// that owner are deleted; if none has ended, appending fails.
        pub bytes_per_owner: usize = usize::MAX,
        /// Events of one run. A source that never ends is stopped here.
        pub events_per_run: usize = 1_000_000,
        /// Bytes of content of one run, notes included.
        pub bytes_per_run: usize = 64 * 1024 * 1024,
        /// Control messages of one run. The last place is reserved for a cancel, so a full queue contains one; there is
        /// such a place even if the limit is 0. Replicas that share a log need the same limit.
        pub controls_per_run: usize = 256,
        /// Messages between replicas to the owner of one run: one per call of a sub-agent that another replica carries.
        /// They do not count as control messages, so a run with many of them can still be cancelled.
        pub messages_per_run: usize = 4_096,
    }
}

/// The current size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl LogLimits {
    /// Checks whether a batch of size `weight` may be added to a run. The end of a run is always accepted, otherwise the
    /// failure of a run that is too long could not be logged.
    pub(crate) fn check(
        &self,
        lease: &Lease,
        held: Held,
        events: &[BlockEvent],
        weight: u64,
    ) -> Result<(), LogError> {
        if events.iter().rev().skip(1).any(BlockEvent::is_terminal) {
            return Err(LogError::AfterTerminal(lease.run_id.clone()));
        }
        if events.last().is_some_and(BlockEvent::is_terminal) {
            return Ok(());
        }
        let too_long =
            |limit, what, max| LogError::RunTooLong { run: lease.run_id.clone(), limit, what, max };
        if held.events + count(events.len()) > count(self.events_per_run) {
            return Err(too_long("events_per_run", "events", self.events_per_run));
        }
        if held.bytes + weight > count(self.bytes_per_run) {
            return Err(too_long("bytes_per_run", "bytes", self.bytes_per_run));
        }
        Ok(())
    }

    /// Returns the size of a run after a note is added.
    pub(crate) fn check_note(&self, run: &RunId, held: u64, note: &Note) -> Result<u64, LogError> {
        let bytes = held.saturating_add(count(value_weight(note.value())));
        if bytes > count(self.bytes_per_run) {
            let (run, max) = (run.clone(), self.bytes_per_run);
            return Err(LogError::RunTooLong { run, limit: "bytes_per_run", what: "bytes", max });
        }
        Ok(bytes)
    }

    /// Returns the number of messages of all kinds at which one of this kind is refused.
    pub(crate) fn most_controls(&self, message: &Control) -> usize {
        let places = match message {
            Control::Message(_) => 0,
            Control::Reply(_) => self.controls_per_run.saturating_sub(1),
            Control::Cancel => self.controls_per_run.max(1),
        };
        self.messages_per_run.saturating_add(places)
    }

    /// Checks the number of messages before one more is sent. Messages between replicas have a limit of their own.
    pub(crate) fn check_controls(&self, run: &RunId, sent: usize, message: &Control) -> Result<(), LogError> {
        if sent < self.most_controls(message) {
            return Ok(());
        }
        let (limit, max) = match message {
            Control::Message(_) => ("messages_per_run", self.messages_per_run),
            Control::Cancel | Control::Reply(_) => ("controls_per_run", self.controls_per_run),
        };
        Err(LogError::RunTooLong { run: run.clone(), limit, what: "control messages", max })
    }
}

/// Converts a length.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Returns the bytes of content in a batch: the part that grows with the agent's output. Heads are shared and not counted.
pub(crate) fn weight_of(events: &[BlockEvent]) -> u64 {
    count(events.iter().map(weight).sum())
}

/// Returns the bytes of content of one event.
fn weight(event: &BlockEvent) -> usize {
    match event {
        Event::BlockDelta { delta, .. } => delta.len(),
        Event::ThinkingEncrypted { value, .. } => value.len(),
        Event::ToolResult(result) => match &result.output {
            ToolOutput::Text(text) | ToolOutput::Progress(text) => text.len(),
            ToolOutput::Json(value) => value_weight(value),
        },
        Event::Custom(custom) => value_weight(&custom.value),
        Event::StateSnapshot { state, .. } => value_weight(state),
        Event::StateDelta { patch, .. } => patch.iter().map(value_weight).sum(),
        _ => 0,
    }
}

/// Returns the approximate size of a JSON value: its texts, and a constant per member.
pub(crate) fn value_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_weight).sum::<usize>() + items.len(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + value_weight(value) + 1).sum(),
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::block::{ContentBlock, Thinking, ToolResult};
    use aqueduct_core::{RunInfo, Source, SourceEvent, StreamContext, Update};
    use serde_json::json;

    use super::*;

    #[test]
    fn by_default_a_log_holds_a_gib_and_a_run_64_mib() {
        let LogLimits { bytes, bytes_per_run, .. } = LogLimits::default();
        assert_eq!((bytes, bytes_per_run), (1 << 30, 64 << 20));
    }

    #[test]
    fn values_weigh_what_they_say() {
        assert_eq!(value_weight(&json!({"key": ["four", 1]})), 3 + 4 + 8 + 2 + 1);
    }

    /// Returns the weight of the events that a source event causes.
    fn weight_after(event: impl Into<SourceEvent>) -> u64 {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        context.handle_event(event.into()).unwrap();
        weight_of(&std::iter::from_fn(|| context.poll_event()).collect::<Vec<_>>())
    }

    #[test]
    fn events_weigh_their_content_and_nothing_else() {
        let seal = Thinking { encrypted: Some(Box::new("seal".into())), ..Thinking::default() };
        let result = |output| {
            let result = ToolResult { id: Some("c".into()), output, ..ToolResult::default() };
            weight_after(Update::new(ContentBlock::from(result)))
        };
        let source = Source::root;
        assert_eq!(weight_after(Update::text("four")), 4);
        assert_eq!(weight_after(Update::new(ContentBlock::Thinking(seal))), 4);
        assert_eq!(weight_after(Update::new(ContentBlock::custom("note", json!("seven")))), 5);
        let without_content = result(ToolOutput::Text("".into()));
        assert_eq!(result(ToolOutput::Text("four".into())), without_content + 4);
        assert_eq!(result(ToolOutput::Json(json!(["four"]))), without_content + 5);
        assert_eq!(
            weight_after(SourceEvent::StateSnapshot { source: source(), state: json!({ "a": "bc" }) }),
            4
        );
        let patch = vec![json!("four"), json!(1)];
        assert_eq!(weight_after(SourceEvent::StateDelta { source: source(), patch }), 12);
        assert_eq!(weight_after(SourceEvent::LaneOpened(source().child("other"))), 0);
    }

    #[test]
    fn a_limit_is_reached_before_it_is_exceeded() {
        let limits = LogLimits { events_per_run: 3, bytes_per_run: 10, ..LogLimits::default() };
        let lease = Lease { run_id: "a".into(), epoch: 1 };
        let all = crate::testing::events(1);
        let one = &all[..1];
        let check = |events, bytes, weight| limits.check(&lease, Held { events, bytes }, one, weight);
        assert_eq!(check(2, 8, 2), Ok(()));
        assert!(matches!(check(3, 0, 0), Err(LogError::RunTooLong { limit: "events_per_run", .. })));
        assert!(matches!(check(0, 8, 3), Err(LogError::RunTooLong { limit: "bytes_per_run", .. })));
        assert_eq!(limits.check(&lease, Held { events: 9, bytes: 99 }, &all, 9), Ok(()), "the end fits");
        let note = |text: &str| limits.check_note(&lease.run_id, 6, &Note::Checkpoint(json!(text).into()));
        assert_eq!(note("four"), Ok(10));
        assert!(note("seven").is_err());
    }
}
