//! Who watches a run: counted, so that a run that nobody watches can be stopped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_core::service::NumberedEvent;
use aqueduct_runlog::Follow;
use aqueduct_transport_http::Shutdown;
use futures_util::Stream;
use tokio::sync::watch;

/// A run under way.
#[derive(Debug)]
pub(super) struct ActiveRun {
    /// Turned by whoever wants the run stopped.
    pub(super) stop: Shutdown,
    watchers: watch::Sender<usize>,
}

impl ActiveRun {
    pub(super) fn new() -> Self {
        Self { stop: Shutdown::new(), watchers: watch::Sender::new(0) }
    }

    /// The number of watchers, and its changes.
    pub(super) fn watchers(&self) -> watch::Receiver<usize> {
        self.watchers.subscribe()
    }

    /// One more watcher, until the guard is dropped.
    pub(super) fn watch(self: &Arc<Self>) -> WatchGuard {
        self.watchers.send_modify(|count| *count += 1);
        WatchGuard(Arc::clone(self))
    }
}

/// Counts one watcher.
#[derive(Debug)]
pub(super) struct WatchGuard(Arc<ActiveRun>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.watchers.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// The events of a run for one watcher. A log that fails ends them without a terminal event, which a transport tells
/// as a broken connection.
pub(super) struct Watched {
    follow: Follow,
    _guard: Option<WatchGuard>,
}

impl Watched {
    pub(super) fn new(follow: Follow, guard: Option<WatchGuard>) -> Self {
        Self { follow, _guard: guard }
    }
}

impl Stream for Watched {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        match ready!(Pin::new(&mut self.follow).poll_next(cx)) {
            Some(Ok(event)) => Poll::Ready(Some(event)),
            Some(Err(error)) => {
                tracing::warn!(%error, "a watcher lost its run");
                Poll::Ready(None)
            }
            None => Poll::Ready(None),
        }
    }
}
