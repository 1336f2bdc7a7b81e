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

pub(crate) mod a2a;
mod agui;
pub(crate) mod emit;
mod fan_out;
mod legacy;
mod remembered;
pub mod replay;
pub mod script;
pub(crate) mod upstream;

use std::time::Duration;

pub(crate) use a2a::{A2aSource, GrpcSettings, RawAnswer};
pub(crate) use agui::AguiSource;
pub(crate) use emit::{EventSender, emit};
pub(crate) use fan_out::FanOutSource;
pub(crate) use legacy::{Ask, Legacy, RunSource};
pub(crate) use replay::ReplaySource;
pub(crate) use upstream::Forwarded;

/// Events that a source hands over together: what one read of its socket gave. More would gain little and hold the rest
/// up for longer.
pub(crate) const EVENTS_TOGETHER: usize = 128;

/// How long a source that was cancelled may take to tell its agent.
pub(crate) const GOODBYE: Duration = Duration::from_secs(10);

/// The replica that drove a run is gone, and the run cannot go on.
pub(crate) const GATEWAY_LOST: &str = "gateway_lost";
