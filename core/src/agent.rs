//! [`Agent`]: the seam at which sources enter. An agent answers a request with a stream of source events.
//!
//! ```text
//! AgentRequest ──► Agent::run ──► SourceStream ──► (driver of the run: StreamContext, run log)
//!                       ▲
//!                       └ CancelToken: the agent must stop, and may still send final events
//! ```
//!
//! The driver polls the stream in its own task; there is no channel between source and `StreamContext`. If a stream ends
//! without [`SourceEvent::Finished`] or [`SourceEvent::Failed`], its connection was lost, and the run fails. In-process
//! agents are the exception: a function from [`RunInput`] to a stream is an [`Agent`], and the end of its stream means
//! success, because it has no connection to lose.
//!
//! This module spawns no task and knows no protocol. Forwarded headers, trace context and the run token, which a host adds
//! to the calls of a remote agent, enter as a [`CallContext`].

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;
use serde_json::Value;

use crate::cancel::CancelToken;
use crate::event::BlockEvent;
use crate::history::History;
use crate::id::RunId;
use crate::message::RunInput;
use crate::pipeline::IntoSourceEvent;
use crate::principal::Principal;
use crate::run::RunOutcome;
use crate::source::Source;
use crate::update::SourceEvent;

/// The source events of one run. Dropping the stream closes the connection to the agent.
pub type SourceStream = Pin<Box<dyn Stream<Item = SourceEvent> + Send>>;

/// The place at which the work of a remote agent can be resumed, in a form that only its adapter reads (an A2A task id,
/// say). The run log stores it with the run, so that another replica can resume the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint(pub Value);

/// A request to an agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentRequest {
    /// The input of the run.
    pub input: Arc<RunInput>,
    /// The identity to which the run belongs.
    pub principal: Principal,
    /// Cancelled when the run must stop. The agent then cancels the work of its remote side, if it has one, and ends its
    /// stream with [`SourceEvent::Finished`] and [`RunOutcome::Cancelled`].
    pub cancel: CancelToken,
    /// Headers and tokens that the host adds to calls to remote agents.
    pub context: Arc<dyn CallContext>,
    /// The last run of the thread at this agent, as the run log holds it.
    pub previous: Option<PreviousRun>,
    /// The value that [`Agent::thread_fold`] computed from the earlier runs of the thread.
    pub thread: Option<Arc<dyn Any + Send + Sync>>,
    /// `true` if the host stores the [`Checkpoint`]s of the run. If `false`, an agent need not send any.
    pub keeps_checkpoints: bool,
}

impl AgentRequest {
    /// Returns a request that belongs to no run log and carries no trace context.
    pub fn new(input: RunInput) -> Self {
        Self {
            input: Arc::new(input),
            principal: Principal::anonymous(),
            cancel: CancelToken::new(),
            context: Arc::new(NoContext),
            previous: None,
            thread: None,
            keeps_checkpoints: false,
        }
    }
}

/// The state of an earlier run of the same thread at its agent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PreviousRun {
    /// The id of the earlier run.
    pub run: RunId,
    /// The last checkpoint of that run.
    pub checkpoint: Checkpoint,
    /// `true` if the agent's work on that run waits for a reply to an interrupt.
    pub is_waiting: bool,
}

impl PreviousRun {
    /// Returns the state that `run` left at its agent.
    pub fn new(run: RunId, checkpoint: Checkpoint, is_waiting: bool) -> Self {
        Self { run, checkpoint, is_waiting }
    }
}

/// A run whose owner's lease lapsed, as the run log holds it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Takeover {
    /// The checkpoint at which the agent resumes.
    pub checkpoint: Checkpoint,
    /// The content that the log already holds. The resumed stream must not repeat it.
    pub history: History,
    /// The last [`SourceEvent::Position`] that the log holds, for a source that sends positions. The log holds all content
    /// of the source before the position, and none after it.
    pub position: Option<Value>,
}

impl Takeover {
    /// Returns a takeover at `checkpoint` of a run with this history.
    pub fn new(checkpoint: Checkpoint, history: History) -> Self {
        Self { checkpoint, history, position: None }
    }

    /// Sets the last position of the source that the log holds.
    pub fn with_position(self, position: Option<Value>) -> Self {
        Self { position, ..self }
    }
}

/// A fold over the events of a thread's earlier runs, oldest first, for an agent whose requests depend on them: on message
/// ids by which the source merges its history, or on open interrupts.
pub trait ThreadFold: Send {
    /// Adds the next event of the thread.
    fn handle_event(&mut self, event: &BlockEvent);

    /// Returns the ids under which the thread's messages were emitted. A new run must not emit them again.
    fn message_ids(&self) -> Vec<String>;

    /// Returns the value of [`AgentRequest::thread`].
    fn finish(self: Box<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Headers, tokens and trace context that a host adds to the calls of an agent to its remote side.
pub trait CallContext: fmt::Debug + Send + Sync + 'static {
    /// Returns headers for outgoing requests: names in lower case, in order.
    fn headers(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the token by which the host relates calls of the remote side to the run. Returns `None` if the host relates
    /// no calls.
    fn run_token(&self) -> Option<&str> {
        None
    }

    /// Records the conversation id that the remote side uses.
    fn learn_conversation(&self, _id: &str) {}

    /// Returns the context for a sub-agent in the lane of `source`. Returns `None` if this context applies to it, too.
    fn for_lane(&self, _source: &Source) -> Option<Arc<dyn CallContext>> {
        None
    }
}

/// A [`CallContext`] that adds nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoContext;

impl CallContext for NoContext {}

/// Produces the events of runs.
///
/// Every `Fn(RunInput) -> impl Stream` whose items are updates, source events or results of either is an agent; the
/// end of its stream is success, and an `Err` item fails the run.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{Agent, AgentRequest, RunInput, SourceEvent, Update};
/// use futures_util::{FutureExt, StreamExt, stream};
///
/// let agent = |input: RunInput| stream::iter([Update::text(input.text())]);
/// let events = agent.run(AgentRequest::new(RunInput::prompt("thread", "run", "hello")));
/// let events: Vec<SourceEvent> = events.collect().now_or_never().unwrap();
/// assert_eq!(events, [Update::text("hello").into(), SourceEvent::finished()]);
/// ```
pub trait Agent: Send + Sync + 'static {
    /// Starts a run and returns its source events.
    fn run(&self, request: AgentRequest) -> SourceStream;

    /// Returns `true` if a run continues the state that the previous run of the thread left at the agent
    /// ([`AgentRequest::previous`]).
    fn keeps_threads(&self) -> bool {
        false
    }

    /// Returns a fold over the earlier runs of a thread, whose result the agent finds in [`AgentRequest::thread`]. Returns
    /// `None` if the agent needs no history. The runs of an agent with a fold emit the message ids of their source wherever
    /// these are unique in the thread.
    fn thread_fold(&self) -> Option<Box<dyn ThreadFold>> {
        None
    }

    /// Returns `true` if the agent can resume its work at `checkpoint`.
    fn can_resume(&self, _checkpoint: &Checkpoint) -> bool {
        false
    }

    /// Returns `true` if a stopping owner may hand a run with this checkpoint over to another replica. Returns `false` for
    /// a checkpoint that was stored before a request to the remote side was confirmed: the request may not have arrived, so
    /// resuming can fail. Such a checkpoint is used only if the owner crashed.
    fn can_hand_over(&self, checkpoint: &Checkpoint) -> bool {
        self.can_resume(checkpoint)
    }

    /// Continues a run that another replica started. Called only if [`can_resume`](Self::can_resume) returns `true` for the
    /// checkpoint. The stream must omit content that the history of the takeover holds. The default starts the run again.
    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        drop(takeover);
        self.run(request)
    }
}

impl<F, S> Agent for F
where
    F: Fn(RunInput) -> S + Send + Sync + 'static,
    S: Stream + Send + 'static,
    S::Item: IntoSourceEvent,
{
    fn run(&self, request: AgentRequest) -> SourceStream {
        let input = Arc::unwrap_or_clone(request.input);
        Box::pin(InProcess { updates: self(input), is_ended: false })
    }
}

pin_project! {
    /// The stream of an in-process agent. Its end becomes [`SourceEvent::Finished`].
    struct InProcess<S> {
        #[pin]
        updates: S,
        is_ended: bool,
    }
}

impl<S: Stream> Stream for InProcess<S>
where
    S::Item: IntoSourceEvent,
{
    type Item = SourceEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        let this = self.project();
        if *this.is_ended {
            return Poll::Ready(None);
        }
        let event = match ready!(this.updates.poll_next(cx)) {
            Some(item) => item.into_source_event(),
            None => SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        };
        *this.is_ended = matches!(event, SourceEvent::Finished { .. } | SourceEvent::Failed(_));
        Poll::Ready(Some(event))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;
    use crate::update::Update;

    fn events(agent: &impl Agent) -> Vec<SourceEvent> {
        let events = agent.run(AgentRequest::new(RunInput::prompt("t", "r", "hi")));
        events.collect::<Vec<_>>().now_or_never().unwrap()
    }

    #[test]
    fn the_end_of_an_in_process_stream_is_success() {
        let agent = |_: RunInput| stream::iter([Update::text("a")]);
        assert_eq!(events(&agent), [Update::text("a").into(), SourceEvent::finished()]);
    }

    #[test]
    fn an_error_fails_the_run_and_nothing_follows() {
        let agent = |_: RunInput| {
            stream::iter([
                Ok(Update::text("a")),
                Err(std::io::Error::other("out of words")),
                Ok(Update::text("b")),
            ])
        };
        let events = events(&agent);
        assert_eq!(events.len(), 2);
        assert!(matches!(&events[1], SourceEvent::Failed(failure) if failure.message == "out of words"));
    }

    #[test]
    fn an_end_of_its_own_is_the_end() {
        let cancelled = SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None };
        let given = cancelled.clone();
        let agent = move |_: RunInput| stream::iter([given.clone()]);
        assert_eq!(events(&agent), [cancelled]);
    }
}
