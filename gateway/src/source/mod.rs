//! Where runs come from: one task per run that talks to an agent and says what it says.
//!
//! ```text
//! AgentSource (configured) ──► run ──► SourceEvents ──► (the run's driver)
//!                               ▲
//!                               └ stop: the agent is told, where its protocol can say so
//! ```
//!
//! Invariants: a source ends what it says with `Finished` or `Failed`, or it was cut; every failure names its cause;
//! a source that was stopped tells its agent (A2A: `CancelTask`) and ends. The channel to the driver is bounded, so a
//! log that cannot take more holds the agent back.
//!
//! A source whose agent can be found again says where, once ([`wellknown::UPSTREAM`](aqueduct_core::wellknown::UPSTREAM),
//! first of what it says of that work): from that and the log another gateway goes on.

mod bridge;
mod context;
mod produce;
pub mod replay;
pub mod script;

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{Principal, RunId, RunInput, SourceEvent};
use aqueduct_transport_http::Shutdown;
use tokio::sync::mpsc;

use crate::tee::Trail;

pub(crate) use aqueduct_core::History;
pub(crate) use bridge::Bridge;
pub(crate) use context::Forwarded;
pub(crate) use produce::{Producer, produce};
pub(crate) use replay::ReplaySource;

/// Events that a source hands over together: what one read of its socket gave, so that a burst costs one hand-over per
/// batch, not per event. More would gain little and hold the rest up for longer.
pub(crate) const EVENTS_TOGETHER: usize = 128;

/// Batches on the way from a source to its run. Enough to keep both busy; few enough that an agent is held back soon.
pub(crate) const BATCHES_IN_FLIGHT: usize = 4;

/// Events on the way from sub-agents to the run of their supervisor, for the same reasons.
pub(crate) const EVENTS_IN_FLIGHT: usize = 64;

/// How long a source that was stopped may take to tell its agent.
pub(crate) const GOODBYE: Duration = Duration::from_secs(10);

/// The gateway that drove a run is gone, and the run cannot go on.
pub(crate) const GATEWAY_LOST: &str = "gateway_lost";

/// What a source is asked.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) input: Arc<RunInput>,
    /// The identity to which the run belongs.
    pub(crate) principal: Principal,
    pub(crate) forwarded: Forwarded,
    /// What the agent is handed so that calls of its own can be related to the run.
    pub(crate) trail: Trail,
    pub(crate) stop: Shutdown,
    /// True if there is a log that keeps where the agent's work is found again.
    pub(crate) is_logged: bool,
    /// What the last run of the thread left at the agent, as the log tells it.
    pub(crate) earlier: Option<Earlier>,
}

/// What an earlier run of a thread left at its agent.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    /// The run.
    pub(crate) run: RunId,
    /// Where the agent's work on it is found again.
    pub(crate) upstream: serde_json::Value,
    /// True if that work waits for an answer.
    pub(crate) waits: bool,
}

/// A run that another gateway began.
#[derive(Debug)]
pub(crate) struct Left {
    /// Where the agent's work is found again.
    pub(crate) upstream: serde_json::Value,
    /// What the log has of it.
    pub(crate) said: History,
}

impl Ask {
    /// A question of nobody else, whose answer leads nowhere else.
    pub(crate) fn plain(input: RunInput) -> Self {
        Self {
            input: Arc::new(input),
            principal: Principal::anonymous(),
            forwarded: Forwarded::default(),
            trail: Trail::default(),
            stop: Shutdown::new(),
            is_logged: false,
            earlier: None,
        }
    }
}

/// An agent that can be asked.
pub(crate) trait RunSource: Send + Sync {
    /// Asks it. The future ends when the agent has said all, was stopped, or nobody listens any more.
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()>;

    /// True if runs of a thread go on with what earlier ones left at the agent.
    fn has_threads(&self) -> bool {
        false
    }

    /// True if the agent's work can be found again there.
    fn finds(&self, _upstream: &serde_json::Value) -> bool {
        false
    }

    /// Goes on with what another gateway asked, where it [`finds`](Self::finds) the agent's work. What the log has is
    /// not said again.
    fn go_on(&self, ask: Ask, left: Left, out: EventSender) -> BoxFuture<'_, ()> {
        drop((ask, left, out));
        Box::pin(std::future::ready(()))
    }
}

/// What a source says, for the one who drives its run. A batch is never empty.
pub(crate) type Events = mpsc::Receiver<Vec<SourceEvent>>;

/// The way to the run.
#[derive(Debug, Clone)]
pub(crate) struct EventSender(mpsc::Sender<Vec<SourceEvent>>);

impl EventSender {
    pub(crate) fn channel() -> (Self, Events) {
        let (sender, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        (Self(sender), receiver)
    }

    /// Sends what was said together, at most about [`EVENTS_TOGETHER`]. False if nobody listens any more.
    pub(crate) async fn send_all(&self, events: Vec<SourceEvent>) -> bool {
        events.is_empty() || self.0.send(events).await.is_ok()
    }

    /// Waits for room, so that what is sent then cannot be lost; none if nobody listens any more.
    pub(crate) async fn reserve(&self) -> Option<mpsc::Permit<'_, Vec<SourceEvent>>> {
        self.0.reserve().await.ok()
    }
}
