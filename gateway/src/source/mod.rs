//! The sources of configured agents.
//!
//! ```text
//! AgentSource (configured) ──► Agent::run ──► SourceStream ──► (driver of the run, `aqueduct-runs`)
//!                                   ▲
//!                                   └ CancelToken: cancels the work at the agent, if its protocol can
//! ```
//!
//! Invariants: a source ends its stream with `Finished` or `Failed`, else the run counts as cut; every failure names
//! its cause; a cancelled source cancels the work at its agent (A2A: `CancelTask`) and ends.
//!
//! A source whose agent can be reached again sends a [`Checkpoint`](aqueduct_core::SourceEvent::Checkpoint) once,
//! before the first event of that work. With the checkpoint and the log another replica can take the run over.

mod context;
pub(crate) mod emit;
pub mod replay;
pub mod script;

pub(crate) use context::Forwarded;
pub(crate) use emit::{EventSender, emit};
pub(crate) use replay::ReplaySource;
