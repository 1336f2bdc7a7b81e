//! Where the events of a run come from, and how the run begins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{Agent, ResponseId, SourceEvent, SourceStream, StreamContext, Takeover, Timestamp};
use futures_util::stream;
use tokio::sync::mpsc;

/// Events of a publisher on their way to its run. Enough to keep both sides busy; few enough that a publisher is held
/// back soon.
const PUBLISHED_EVENTS: usize = 64;

/// The publisher's end of the way to a run.
pub(crate) type FeedSender = mpsc::Sender<SourceEvent>;

/// The agent panicked: a fault of its program, not of the run.
const AGENT_PANICKED: &str = "agent_panicked";

/// Where the events of a run come from.
pub(crate) enum Feed {
    /// The agent is asked.
    Agent,
    /// A framework publishes them.
    Published(SourceStream),
    /// Another replica began the run: its agent is taken over where the log ends.
    Takeover(Box<TakenOver>),
}

/// A run that another replica began, as far as it came.
pub(crate) struct TakenOver {
    pub(crate) context: StreamContext,
    pub(crate) takeover: Takeover,
    /// The response id of the turn.
    pub(crate) response_id: Option<ResponseId>,
    pub(crate) opened_at: Timestamp,
}

/// How a run begins here.
pub(crate) enum Begin {
    /// With its first event.
    New,
    /// Where another replica stopped.
    Takeover { context: Box<StreamContext>, response_id: Option<ResponseId>, opened_at: Timestamp },
}

impl Feed {
    /// Returns a feed for a publisher, and the publisher's end of it.
    pub(crate) fn published() -> (FeedSender, Self) {
        let (sender, mut events) = mpsc::channel(PUBLISHED_EVENTS);
        let events = stream::poll_fn(move |cx| events.poll_recv(cx));
        (sender, Self::Published(Box::pin(events)))
    }

    /// Starts the stream of source events. A run without an agent has none.
    pub(crate) fn connect(
        self,
        agent: Option<&Arc<dyn Agent>>,
        request: &AgentRequest,
    ) -> (SourceStream, Begin) {
        let request = request.clone();
        let nothing = || -> SourceStream { Box::pin(stream::empty()) };
        match self {
            Self::Published(events) => (events, Begin::New),
            Self::Agent => (agent.map_or_else(nothing, |agent| guarded(|| agent.run(request))), Begin::New),
            Self::Takeover(taken) => {
                let TakenOver { context, takeover, response_id, opened_at } = *taken;
                let events = agent.map_or_else(nothing, |agent| guarded(|| agent.resume(request, takeover)));
                (events, Begin::Takeover { context: Box::new(context), response_id, opened_at })
            }
        }
    }
}

/// Returns the stream of an agent; one that fails if the agent panics.
fn guarded(start: impl FnOnce() -> SourceStream) -> SourceStream {
    let started = catch_unwind(AssertUnwindSafe(start));
    started.unwrap_or_else(|_| Box::pin(stream::iter([panicked()])))
}

/// Returns the failure of a run whose agent panicked.
pub(crate) fn panicked() -> SourceEvent {
    let message = "the agent panicked: its program has a fault, see the log of the process";
    SourceEvent::failed(AGENT_PANICKED, message)
}
