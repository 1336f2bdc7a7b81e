//! Who watches a run: counted, so that a run that nobody watches can be stopped.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use aqueduct_core::CancelToken;
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, SourceEvent, wellknown};
use aqueduct_runlog::Follow;
use futures_util::Stream;
use tokio::sync::{Notify, mpsc};

use crate::source::EVENTS_IN_FLIGHT;
use crate::tee::far::FarCalls;
use crate::tee::lane::Tasks;

/// What sub-agents of a run say.
pub(super) type Lanes = mpsc::Receiver<Box<SourceEvent>>;

/// A run under way.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    /// Turned by whoever wants the run stopped.
    pub(crate) stop: CancelToken,
    watchers: AtomicUsize,
    /// Turned whenever the number of watchers is another; the driver alone waits for it.
    watchers_changed: Notify,
    /// The way of sub-agents into the run, closed when it has ended. In boxes: most runs never hear any, and the channel
    /// holds room for thirty-two from the start.
    pub(crate) lanes: mpsc::Sender<Box<SourceEvent>>,
    heard: Mutex<Option<Lanes>>,
    /// What calls of sub-agents left for the next ones.
    pub(crate) tasks: Tasks,
    next_lane: AtomicU64,
    /// Calls of sub-agents that other gateways carry.
    pub(crate) far: FarCalls,
}

impl ActiveRun {
    pub(crate) fn new() -> Self {
        let (lanes, heard) = mpsc::channel(EVENTS_IN_FLIGHT);
        Self {
            stop: CancelToken::new(),
            watchers: AtomicUsize::new(0),
            watchers_changed: Notify::new(),
            lanes,
            heard: Mutex::new(Some(heard)),
            tasks: Tasks::default(),
            next_lane: AtomicU64::new(1),
            far: FarCalls::default(),
        }
    }

    /// What sub-agents say, for the one who drives the run.
    pub(super) fn take_lanes(&self) -> Option<Lanes> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A number that no lane of the run has yet.
    pub(crate) fn next_lane(&self) -> u64 {
        self.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    /// True if the run was stopped; false if it came to its end by itself.
    pub(crate) async fn was_stopped_before_its_end(&self) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => true,
            () = self.lanes.closed() => self.stop.is_cancelled(),
        }
    }

    /// True if nobody watches the run here.
    pub(super) fn is_alone(&self) -> bool {
        self.watchers.load(Ordering::SeqCst) == 0
    }

    /// Waits until the number of watchers is another than when this was last waited for.
    pub(super) async fn watchers_changed(&self) {
        self.watchers_changed.notified().await;
    }

    /// One more watcher, until the guard is dropped.
    pub(super) fn watch(self: &Arc<Self>) -> WatchGuard {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        self.watchers_changed.notify_one();
        WatchGuard(Arc::clone(self))
    }
}

/// Counts one watcher.
#[derive(Debug)]
pub(super) struct WatchGuard(Arc<ActiveRun>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::SeqCst);
        self.0.watchers_changed.notify_one();
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

/// True for what one gateway notes for another: nobody watches that.
pub(crate) fn is_note(event: &BlockEvent) -> bool {
    matches!(event, BlockEvent::Custom(custom) if custom.name == wellknown::UPSTREAM)
}

impl Stream for Watched {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        loop {
            match ready!(Pin::new(&mut self.follow).poll_next(cx)) {
                Some(Ok(event)) if is_note(&event.event) => {}
                Some(Ok(event)) => return Poll::Ready(Some(event)),
                Some(Err(error)) => {
                    tracing::warn!(%error, "a watcher lost its run");
                    return Poll::Ready(None);
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
