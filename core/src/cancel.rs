//! [`CancelToken`]: one switch for cancellation, shared by everything that belongs to one run or one server.
//!
//! ```text
//! active ──cancel()──► cancelled      (once, for all clones; there is no way back)
//! ```
//!
//! The token needs no runtime: waiting registers a listener, and [`CancelToken::cancel`] wakes all of them. It does not
//! stop anything by itself; the holder of a clone decides what cancellation means.
//!
//! A task polls its wait each time it is woken, and one token is shared by all connections of a server. So a wait registers
//! once: polling it again from the same task reads the flag and takes no lock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use event_listener::{Event, EventListener};

/// A cancellation flag that is set once. Clones share the flag.
///
/// # Examples
///
/// ```
/// let token = aqueduct_core::CancelToken::new();
/// let clone = token.clone();
/// token.cancel();
/// assert!(clone.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    switch: Arc<Switch>,
}

/// The shared flag. Small, because every run holds several: the event allocates on the first wait.
#[derive(Debug, Default)]
struct Switch {
    is_cancelled: AtomicBool,
    cancelled: Event,
}

impl CancelToken {
    /// Returns a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the token and wakes all waiters. Cancelling again has no effect.
    pub fn cancel(&self) {
        self.switch.is_cancelled.store(true, Ordering::SeqCst);
        self.switch.cancelled.notify(usize::MAX);
    }

    /// Returns `true` once the token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.switch.is_cancelled.load(Ordering::SeqCst)
    }

    /// Returns a future that completes once the token is cancelled; at once if it is already.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), registered: None }
    }
}

/// A wait for the cancellation of a token. Returned by [`CancelToken::cancelled`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Cancelled {
    token: CancelToken,
    /// The listener, and the waker that it wakes.
    registered: Option<(EventListener, Waker)>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { token, registered } = &mut *self;
        if token.is_cancelled() {
            return Poll::Ready(());
        }
        if registered.as_ref().is_some_and(|(_, waker)| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let mut listener = match registered.take() {
            Some((listener, _)) => listener,
            None => token.switch.cancelled.listen(),
        };
        // The token sets its flag before it notifies, and the listener is registered before the flag is read again: a
        // cancellation is seen here, or wakes the listener.
        if Pin::new(&mut listener).poll(cx).is_ready() || token.is_cancelled() {
            return Poll::Ready(());
        }
        *registered = Some((listener, cx.waker().clone()));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[test]
    fn every_waiter_is_woken_and_later_ones_do_not_wait() {
        let token = CancelToken::new();
        let (first, second) = (token.clone(), token.clone());
        let (mut first, mut second) = (pin!(first.cancelled()), pin!(second.cancelled()));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(first.as_mut().poll(&mut cx), Poll::Pending);
        assert_eq!(second.as_mut().poll(&mut cx), Poll::Pending);
        token.cancel();
        assert_eq!(first.as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(pin!(token.cancelled()).poll(&mut cx), Poll::Ready(()));
    }

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_wait_wakes_the_task_that_polled_it_last() {
        let (token, earlier, later) =
            (CancelToken::new(), Arc::new(Count::default()), Arc::new(Count::default()));
        let mut wait = pin!(token.cancelled());
        for task in [&earlier, &earlier, &later, &later] {
            let waker = Waker::from(Arc::clone(task));
            assert_eq!(wait.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        token.cancel();
        assert_eq!((earlier.0.load(Ordering::SeqCst), later.0.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }

    #[test]
    fn a_dropped_wait_is_not_woken() {
        let (token, task) = (CancelToken::new(), Arc::new(Count::default()));
        let mut wait = token.cancelled();
        let waker = Waker::from(Arc::clone(&task));
        assert_eq!(Pin::new(&mut wait).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        drop(wait);
        token.cancel();
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
    }

    /// Unparks its thread.
    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    #[test]
    fn no_wait_misses_a_cancellation_by_another_thread() {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        for _ in 0..1000 {
            let token = CancelToken::new();
            let mut wait = pin!(token.cancelled());
            std::thread::scope(|scope| {
                scope.spawn(|| token.cancel());
                while wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    std::thread::park();
                }
            });
        }
    }
}
