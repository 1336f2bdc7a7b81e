//! An [`Agent`] as a [`RunSource`]: its stream is polled in the source's task, and what one poll brings leaves together.

use std::pin::pin;
use std::sync::Arc;

use aqueduct_core::agent::PreviousRun;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{
    Agent, AgentRequest, ByteString, CancelToken, Checkpoint, ContentBlock, SourceEvent, SourceStream,
    Takeover, Update, wellknown,
};
use aqueduct_transport_http::Shutdown;
use futures_util::StreamExt as _;

use super::context::RunContext;
use super::{Ask, EVENTS_TOGETHER, EventSender, Left, RunSource};

/// An agent whose stream is driven by a task of its own.
pub(crate) struct Bridge(pub(crate) Arc<dyn Agent>);

impl RunSource for Bridge {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let request = request(&ask);
            let cancel = request.cancel.clone();
            forward(&ask.stop, &cancel, self.0.run(request), out).await;
        })
    }

    fn has_threads(&self) -> bool {
        self.0.keeps_threads()
    }

    fn finds(&self, upstream: &serde_json::Value) -> bool {
        self.0.can_resume(&Checkpoint(upstream.clone()))
    }

    fn go_on(&self, ask: Ask, left: Left, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let request = request(&ask);
            let cancel = request.cancel.clone();
            let takeover = Takeover::new(Checkpoint(left.upstream), left.said);
            forward(&ask.stop, &cancel, self.0.resume(request, takeover), out).await;
        })
    }
}

fn request(ask: &Ask) -> AgentRequest {
    let mut request = AgentRequest::new((*ask.input).clone());
    request.input = Arc::clone(&ask.input);
    request.principal = ask.principal.clone();
    request.context = Arc::new(RunContext { forwarded: ask.forwarded.clone(), trail: ask.trail.clone() });
    request.previous = ask.earlier.as_ref().map(|earlier| {
        PreviousRun::new(earlier.run.clone(), Checkpoint(earlier.upstream.clone()), earlier.waits)
    });
    request.keeps_checkpoints = ask.is_logged;
    request
}

/// Polls the stream to its end, also when the run has ended: the agent may still have to be asked to stop.
async fn forward(stop: &Shutdown, cancel: &CancelToken, events: SourceStream, out: EventSender) {
    let forwarded = async {
        let mut batches = events.map(noted).ready_chunks(EVENTS_TOGETHER);
        let mut is_heard = true;
        while let Some(batch) = batches.next().await {
            is_heard = is_heard && out.send_all(batch).await;
        }
    };
    let mut forwarded = pin!(forwarded);
    tokio::select! {
        biased;
        () = stop.triggered() => cancel.cancel(),
        () = &mut forwarded => return,
    }
    forwarded.await;
}

/// The log keeps a checkpoint as content that no protocol shows.
fn noted(event: SourceEvent) -> SourceEvent {
    match event {
        SourceEvent::Checkpoint(Checkpoint(at)) => {
            Update::new(ContentBlock::custom(ByteString::from_static(wellknown::UPSTREAM), at)).into()
        }
        event => event,
    }
}
