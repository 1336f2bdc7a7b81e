//! Tools for tests of this and other crates (feature `testing`): an invariant checker over balanced events, an audit
//! of content against the input, readable traces for golden files, and generators of arbitrary source events.
//!
//! Only tests use this module.

mod audit;
mod check;
mod generate;
mod scenarios;
mod trace;

pub use audit::audit_content;
pub use check::{InvariantChecker, Violation};
pub use generate::{arb_ending, arb_source_events};
pub use scenarios::scenarios;
pub use trace::{trace, trace_line};

use crate::event::BlockEvent;
use crate::run::RunInfo;
use crate::stream::StreamContext;
use crate::update::SourceEvent;

/// Passes source events through a new [`StreamContext`] and returns all events. Input without an end of the run ends as a
/// failure. An input that the context rejects fails the run.
pub fn run_to_end(events: impl IntoIterator<Item = SourceEvent>) -> Vec<BlockEvent> {
    run_context(StreamContext::new(RunInfo::new("thread", "run")), events)
}

/// Like [`run_to_end`], with a context of the caller.
pub fn run_context(
    mut context: StreamContext,
    events: impl IntoIterator<Item = SourceEvent>,
) -> Vec<BlockEvent> {
    for event in events {
        if context.is_ended() {
            break;
        }
        if let Err(error) = context.handle_event(event) {
            context.handle_failure((&error).into());
        }
    }
    context.handle_eof();
    std::iter::from_fn(|| context.poll_event()).collect()
}
