//! [`CancelToken`]: one switch for cancellation, shared by everything that belongs to one run or one server.
//!
//! ```text
//! active ──cancel()──► cancelled      (once, for all clones; there is no way back)
//! ```
//!
//! The token needs no runtime: waiting registers a listener, and [`CancelToken::cancel`] wakes all of them. It does not
//! stop anything by itself; the holder of a clone decides what cancellation means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_listener::Event;

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

    /// Waits until the token is cancelled. Returns at once if it is already.
    pub async fn cancelled(&self) {
        while !self.is_cancelled() {
            // The listener registers before the second check, so that a cancellation between the two is not missed.
            let listener = self.switch.cancelled.listen();
            if self.is_cancelled() {
                return;
            }
            listener.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

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
}
