//! [`emit`]: the stream of a source that is written as a future which sends events.
//!
//! ```text
//! poll_next ──► events sent? ── yes ──► the next one
//!                    └ no ──► poll the future (it may send) ──► events sent, or pending, or the end
//! ```
//!
//! Nothing is spawned: polling the stream polls the future. The channel between them is bounded; a future that sends
//! more waits until the stream is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{RunFailure, RunOutcome, SourceEvent, SourceStream};
use futures_util::Stream;
use tokio::sync::mpsc;

/// Batches that were sent and not yet read. Both ends are in one task, so more would not make either faster.
const BATCHES: usize = 4;

/// Returns the events that a future sends, until the future ends.
pub(crate) fn emit<W, F>(work: W) -> SourceStream
where
    W: FnOnce(EventSender) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = mpsc::channel(BATCHES);
    let work = Some(Box::pin(work(EventSender(sender))) as BoxFuture<'static, ()>);
    Box::pin(Emitted { work, events, batch: Vec::new().into_iter() })
}

/// The stream: polls the future, and yields what it sent. Cancel-safe: dropping the stream drops the future with it.
struct Emitted {
    /// The future, or `None` once it has ended.
    work: Option<BoxFuture<'static, ()>>,
    events: mpsc::Receiver<Vec<SourceEvent>>,
    /// The batch that is being yielded.
    batch: std::vec::IntoIter<SourceEvent>,
}

impl Stream for Emitted {
    type Item = SourceEvent;

    /// Yields everything that was sent before it polls the future again.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        loop {
            if let Some(event) = self.batch.next() {
                return Poll::Ready(Some(event));
            }
            if let Ok(batch) = self.events.try_recv() {
                self.batch = batch.into_iter();
                continue;
            }
            // The end of the future drops its sender, so the channel ends after the last batch.
            if self.work.as_mut().is_some_and(|work| work.as_mut().poll(cx).is_ready()) {
                self.work = None;
            }
            match self.events.poll_recv(cx) {
                Poll::Ready(Some(batch)) => self.batch = batch.into_iter(),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// The sender with which the future emits events.
#[derive(Debug, Clone)]
pub(crate) struct EventSender(mpsc::Sender<Vec<SourceEvent>>);

impl EventSender {
    /// Sends an event. Returns `false` if the stream was dropped.
    pub(crate) async fn send(&self, event: impl Into<SourceEvent>) -> bool {
        self.0.send(vec![event.into()]).await.is_ok()
    }

    /// Sends events as one batch. Returns `false` if the stream was dropped.
    pub(crate) async fn send_all(&self, events: Vec<SourceEvent>) -> bool {
        events.is_empty() || self.0.send(events).await.is_ok()
    }

    /// Sends the terminal event of a failed run. Nothing may be sent after it.
    pub(crate) async fn fail(&self, failure: RunFailure) {
        self.send(SourceEvent::Failed(failure)).await;
    }

    /// Sends the terminal event of a run with that outcome. Nothing may be sent after it.
    pub(crate) async fn finish(&self, outcome: RunOutcome) {
        self.send(SourceEvent::Finished { outcome, result: None }).await;
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::Update;
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    #[test]
    fn all_that_is_sent_comes_in_order_without_a_task() {
        let events = emit(|out| async move {
            for n in 0..100 {
                out.send(Update::text(n.to_string())).await;
            }
            out.send_all(vec![Update::text("a").into(), Update::text("b").into()]).await;
            out.finish(RunOutcome::Success).await;
        });
        let events: Vec<SourceEvent> = events.collect().now_or_never().expect("nothing is waited for");
        assert_eq!(events.len(), 103);
        assert_eq!(events[7], Update::text("7").into());
        assert_eq!(events.last(), Some(&SourceEvent::finished()));
    }
}
