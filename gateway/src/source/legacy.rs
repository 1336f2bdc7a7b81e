//! [`Legacy`]: sources that are written as futures over an [`Ask`], as agents.

use std::sync::Arc;

use aqueduct_core::agent::{AgentRequest, CallContext, NoContext, PreviousRun};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{Agent, CancelToken, Checkpoint, RunInput, SourceStream, Takeover};

use super::upstream::Forwarded;
use super::{EventSender, emit};

/// What a source is asked.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) input: Arc<RunInput>,
    pub(crate) forwarded: Forwarded,
    pub(crate) context: Arc<dyn CallContext>,
    pub(crate) cancel: CancelToken,
    pub(crate) keeps_checkpoints: bool,
    pub(crate) previous: Option<PreviousRun>,
}

impl Ask {
    /// A request that belongs to no run log and carries no trace context.
    pub(crate) fn plain(input: RunInput) -> Self {
        Self {
            input: Arc::new(input),
            forwarded: Forwarded::default(),
            context: Arc::new(NoContext),
            cancel: CancelToken::new(),
            keeps_checkpoints: false,
            previous: None,
        }
    }

    fn of(request: AgentRequest) -> Self {
        Self {
            forwarded: Forwarded::from_pairs(request.context.headers()),
            input: request.input,
            context: request.context,
            cancel: request.cancel,
            keeps_checkpoints: request.keeps_checkpoints,
            previous: request.previous,
        }
    }
}

/// An agent that can be asked.
pub(crate) trait RunSource: Send + Sync + 'static {
    /// Asks it. The future ends when the agent has sent all, was cancelled, or the stream is gone.
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()>;

    /// True if runs of a thread go on with what earlier ones left at the agent.
    fn has_threads(&self) -> bool {
        false
    }

    /// True if the agent's work can be found again there.
    fn finds(&self, _checkpoint: &Checkpoint) -> bool {
        false
    }

    /// Goes on with what another replica asked, where it [`finds`](Self::finds) the agent's work.
    fn go_on(&self, ask: Ask, takeover: Takeover, out: EventSender) -> BoxFuture<'_, ()> {
        drop((ask, takeover, out));
        Box::pin(std::future::ready(()))
    }
}

/// A source as an agent.
#[derive(Debug)]
pub(crate) struct Legacy<S>(pub(crate) Arc<S>);

impl<S: RunSource> Agent for Legacy<S> {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let source = Arc::clone(&self.0);
        emit(|out| async move { source.run(Ask::of(request), out).await })
    }

    fn keeps_threads(&self) -> bool {
        self.0.has_threads()
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        self.0.finds(checkpoint)
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        let source = Arc::clone(&self.0);
        emit(|out| async move { source.go_on(Ask::of(request), takeover, out).await })
    }
}
