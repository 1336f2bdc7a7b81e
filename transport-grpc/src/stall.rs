//! Detection of stalled readers.
//!
//! HTTP/2 polls a stream for its next message only when the peer has room. A peer that never makes room leaves the stream
//! unpolled, and its resources held. So a stream records the time of its last message, and one task for all streams
//! periodically looks for streams that were not polled since.
//!
//! ```text
//!            poll: message given              poll
//!   waiting ───────────────────► given(t) ──────────► waiting        now - t > limit: the stream is dropped,
//!                                                                      its next poll returns STALLED
//! ```
//!
//! The task runs only while there are streams.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::Instant;
use tonic::Status;

/// A stream that can be dropped because its reader stalled.
pub(crate) trait Stallable {
    /// Returns the status for a reader that continues.
    fn stalled(&self) -> Status;
}

/// Watches the streams of one server.
#[derive(Debug)]
pub(crate) struct StallWatch {
    limit: Duration,
    watched: Mutex<Watched>,
}

/// The streams of a server, and whether the task runs.
#[derive(Default)]
struct Watched {
    slots: Vec<Weak<dyn Sweep>>,
    is_sweeping: bool,
}

aqueduct_core::debug_fields!(Watched { slots: slots.len() });

/// Checks within the limit: a stalled stream lives at most a quarter longer than the limit.
const LOOKS_PER_LIMIT: u32 = 4;

impl StallWatch {
    /// Returns a watchdog for streams whose client reads nothing for `limit`.
    pub(crate) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { limit, watched: Mutex::default() })
    }

    /// Watches a stream.
    pub(crate) fn watch<S: Stallable + Send + 'static>(self: &Arc<Self>, stream: S) -> WatchedStream<S> {
        let slot = Arc::new(Slot(Mutex::new(Held::Stream { stream: Box::pin(stream), given: None })));
        let weak: Weak<Slot<S>> = Arc::downgrade(&slot);
        let mut watched = locked(&self.watched);
        watched.slots.push(weak);
        if !watched.is_sweeping {
            watched.is_sweeping = true;
            tokio::spawn(Arc::clone(self).sweep());
        }
        WatchedStream { slot }
    }

    /// Drops stalled streams periodically until there are no streams left.
    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.limit / LOOKS_PER_LIMIT).await;
            let slots: Vec<Arc<dyn Sweep>> = {
                let mut watched = locked(&self.watched);
                watched.slots.retain(|slot| slot.strong_count() > 0);
                if watched.slots.is_empty() {
                    watched.is_sweeping = false;
                    return;
                }
                watched.slots.iter().filter_map(Weak::upgrade).collect()
            };
            let now = Instant::now();
            for slot in slots {
                slot.drop_if_given_before(now, self.limit);
            }
        }
    }
}

/// A stream that the watchdog can drop.
trait Sweep: Send + Sync {
    fn drop_if_given_before(&self, now: Instant, limit: Duration);
}

/// The slot of a watched stream, shared with the task.
struct Slot<S>(Mutex<Held<S>>);

/// The state of a slot.
enum Held<S> {
    Stream { stream: Pin<Box<S>>, given: Option<Instant> },
    Dropped(Option<Status>),
}

impl<S: Stallable + Send> Sweep for Slot<S> {
    fn drop_if_given_before(&self, now: Instant, limit: Duration) {
        let mut held = locked(&self.0);
        let Held::Stream { stream, given: Some(given) } = &*held else { return };
        if now.saturating_duration_since(*given) >= limit {
            let dropped = Held::Dropped(Some(stream.stalled()));
            let stream = std::mem::replace(&mut *held, dropped);
            // Dropping a service's stream runs foreign code, which must not hold the lock.
            drop(held);
            drop(stream);
        }
    }
}

/// A stream that is dropped if its reader stalls.
pub(crate) struct WatchedStream<S> {
    slot: Arc<Slot<S>>,
}

impl<S, T> Stream for WatchedStream<S>
where
    S: Stream<Item = Result<T, Status>> + Stallable,
{
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *locked(&self.slot.0) {
            Held::Dropped(status) => Poll::Ready(status.take().map(Err)),
            Held::Stream { stream, given } => {
                let polled = stream.as_mut().poll_next(cx);
                *given = matches!(polled, Poll::Ready(Some(Ok(_)))).then(Instant::now);
                polled
            }
        }
    }
}

/// Ignores poisoning: only a service's own stream can panic under these locks, and it is not polled again.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
