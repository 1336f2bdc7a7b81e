//! Tools for tests of this and other crates (feature `testing`): an invariant checker over balanced events, an audit
//! of content against the input, readable traces for golden files, and generators of arbitrary source events.
//!
//! Nothing here is used outside tests, and nothing here decides what is right but the checker's rules.

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

/// Runs source events through a fresh [`StreamContext`] to its end and gives all events; an input that ends without
/// saying so ends as a failure, as in life. A refused input fails the run.
pub fn run_to_end(events: impl IntoIterator<Item = SourceEvent>) -> Vec<BlockEvent> {
    run_context(StreamContext::new(RunInfo::new("thread", "run")), events)
}

/// The same with a context of the caller's making.
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
