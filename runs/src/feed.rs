//! The source of a run's events, and the state in which its driver starts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{Agent, ResponseId, SourceEvent, SourceStream, StreamContext, Takeover, Timestamp};
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

/// Payloads that wait between a publisher and its run, each with its events. Enough to keep both busy; few enough that
/// back-pressure reaches the publisher soon.
const PUBLISHED_PAYLOADS: usize = 64;

/// The publisher's end of the channel to a run.
pub(crate) type FeedSender = mpsc::Sender<Vec<SourceEvent>>;

/// The code of a run whose agent panicked: a bug of the agent.
const AGENT_PANICKED: &str = "agent_panicked";

/// The source of a run's events.
pub(crate) enum Feed {
    /// The engine calls the agent.
    Agent,
    /// A publisher sends them.
    Published(SourceStream),
    /// A publisher continues a run that another replica started.
    TakenPublished(SourceStream, Begin),
    /// Another replica started the run: the agent resumes after the logged events.
    Takeover(Box<TakenOver>),
}

/// A run that another replica started, as the log holds it.
pub(crate) struct TakenOver {
    pub(crate) context: StreamContext,
    pub(crate) takeover: Takeover,
    /// The response id of the turn.
    pub(crate) response_id: Option<ResponseId>,
    pub(crate) opened_at: Timestamp,
}

/// The state in which a driver starts.
pub(crate) enum Begin {
    /// Before the first event.
    New,
    /// After the events that another replica logged.
    Takeover {
        context: Box<StreamContext>,
        response_id: Option<ResponseId>,
        opened_at: Timestamp,
        /// `true` if the run can be left to another replica on purpose.
        can_hand_over: bool,
    },
}

impl Feed {
    /// Returns the feed of a published run, and the publisher's end of it.
    pub(crate) fn published() -> (FeedSender, Self) {
        let (sender, events) = published_events();
        (sender, Self::Published(events))
    }

    /// Returns the feed of a published run that another replica started, and the publisher's end of it.
    pub(crate) fn taken_published(begin: Begin) -> (FeedSender, Self) {
        let (sender, events) = published_events();
        (sender, Self::TakenPublished(events, begin))
    }

    /// Starts the stream of source events. Returns `None` for a run without agent.
    pub(crate) fn connect(
        self,
        agent: Option<&Arc<dyn Agent>>,
        request: &AgentRequest,
    ) -> (SourceStream, Begin) {
        let request = request.clone();
        let nothing = || -> SourceStream { Box::pin(stream::empty()) };
        match self {
            Self::Published(events) => (events, Begin::New),
            Self::TakenPublished(events, begin) => (events, begin),
            Self::Agent => (agent.map_or_else(nothing, |agent| guarded(|| agent.run(request))), Begin::New),
            Self::Takeover(taken) => {
                let TakenOver { context, takeover, response_id, opened_at } = *taken;
                let can_hand_over = agent.is_some_and(|agent| agent.can_hand_over(&takeover.checkpoint));
                let events = agent.map_or_else(nothing, |agent| guarded(|| agent.resume(request, takeover)));
                let context = Box::new(context);
                (events, Begin::Takeover { context, response_id, opened_at, can_hand_over })
            }
        }
    }
}

/// Returns a channel for the events of payloads. The events of one payload are ready together.
fn published_events() -> (FeedSender, SourceStream) {
    let (sender, mut payloads) = mpsc::channel::<Vec<SourceEvent>>(PUBLISHED_PAYLOADS);
    let payloads = stream::poll_fn(move |cx| payloads.poll_recv(cx));
    (sender, Box::pin(payloads.flat_map(stream::iter)))
}

/// Returns the stream of an agent. A panic of the agent becomes a failure of the run.
fn guarded(start: impl FnOnce() -> SourceStream) -> SourceStream {
    let started = catch_unwind(AssertUnwindSafe(start));
    started.unwrap_or_else(|_| Box::pin(stream::iter([panicked()])))
}

/// Returns the failure of a run whose agent panicked.
pub(crate) fn panicked() -> SourceEvent {
    let message = "the agent panicked: its program has a fault, see the log of the process";
    SourceEvent::failed(AGENT_PANICKED, message)
}
