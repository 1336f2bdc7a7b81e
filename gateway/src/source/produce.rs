//! [`produce`]: the events of a stream written as a function that sends them, for agents that are played, not called.
//!
//! ```text
//! poll_next ──► an event that was sent? ──► returned
//!                  └ none: the work is polled ── sends ──► slot (one event; the work waits until it is taken)
//! ```
//!
//! Work and stream are polled in the same task: the slot is no queue between tasks.

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{CancelToken, RunFailure, RunOutcome, SourceEvent, SourceStream};
use futures_core::Stream;
use tokio::sync::mpsc;

/// Takes the events of the work.
#[derive(Debug, Clone)]
pub(crate) struct Producer(mpsc::Sender<SourceEvent>);

impl Producer {
    /// Sends an event, once the one before it was taken. Returns `false` if the stream was dropped.
    pub(crate) async fn send(&self, event: impl Into<SourceEvent>) -> bool {
        self.0.send(event.into()).await.is_ok()
    }

    pub(crate) async fn fail(&self, failure: RunFailure) {
        self.send(SourceEvent::Failed(failure)).await;
    }

    pub(crate) async fn finish(&self, outcome: RunOutcome) {
        self.send(SourceEvent::Finished { outcome, result: None }).await;
    }
}

/// Returns the events that `work` sends. Cancellation drops the work, and the run ends as cancelled.
pub(crate) fn produce<F>(cancel: CancelToken, work: impl FnOnce(Producer) -> F) -> SourceStream
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = mpsc::channel(1);
    let out = Producer(sender);
    let work = work(out.clone());
    let work = async move {
        tokio::select! {
            biased;
            () = cancel.cancelled() => out.finish(RunOutcome::Cancelled).await,
            () = work => {}
        }
    };
    Box::pin(Produced { work: Some(Box::pin(work)), events })
}

struct Produced {
    /// `None` once it is done.
    work: Option<BoxFuture<'static, ()>>,
    events: mpsc::Receiver<SourceEvent>,
}

impl Stream for Produced {
    type Item = SourceEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        loop {
            if let Poll::Ready(event) = self.events.poll_recv(cx) {
                return Poll::Ready(event);
            }
            let is_done = self.work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready());
            if !is_done {
                return self.events.poll_recv(cx);
            }
            self.work = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use aqueduct_core::Update;
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    #[test]
    fn events_come_in_order_and_the_end_of_the_work_is_the_end() {
        let events = produce(CancelToken::new(), async |out: Producer| {
            for word in ["a", "b", "c"] {
                out.send(Update::text(word)).await;
            }
        });
        let events: Vec<SourceEvent> = events.collect().now_or_never().unwrap();
        assert_eq!(events, ["a", "b", "c"].map(|word| SourceEvent::from(Update::text(word))));
    }

    #[test]
    fn cancellation_ends_the_work() {
        let cancel = CancelToken::new();
        let mut events = produce(cancel.clone(), async |out: Producer| {
            out.send(Update::text("a")).await;
            pending::<()>().await;
        });
        assert!(events.next().now_or_never().flatten().is_some());
        assert_eq!(events.next().now_or_never(), None);
        cancel.cancel();
        let rest: Vec<SourceEvent> = events.collect().now_or_never().unwrap();
        assert_eq!(rest, [SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }]);
    }
}
