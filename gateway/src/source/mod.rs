//! The agents of a configuration: where their runs' events come from.
//!
//! ```text
//! AgentSource (configured) ──► Agent::run ──► SourceStream ──► (driver of the run, `aqueduct-runs`)
//!                                   ▲
//!                                   └ CancelToken: the agent is told, where its protocol can say so
//! ```
//!
//! Invariants: a source ends its stream with `Finished` or `Failed`, or it was cut; every failure names its cause; a
//! source that was cancelled tells its agent (A2A: `CancelTask`) and ends.
//!
//! A source whose agent can be found again sends a [`Checkpoint`](aqueduct_core::SourceEvent::Checkpoint) once, before
//! the first event of that work: from that and the log another replica goes on.

mod context;
pub(crate) mod emit;
pub mod replay;
pub mod script;

pub(crate) use context::Forwarded;
pub(crate) use emit::{EventSender, emit};
pub(crate) use replay::ReplaySource;
