//! [`Signal`]: wakes the watchers and the owner of a run.
//!
//! A list of wakers, each with its condition: an append wakes only the tasks whose condition holds. The owner of a run waits
//! for control messages while it appends; its own events must not wake it.
//!
//! ```text
//! Wait::poll ── condition holds? ── yes ──► Ready
//!                  └ no ──► slot with the waker ──► Pending        drop ──► slot free
//! Signal::advance ── progress = maximum of both ──► wakes the slots whose condition holds now
//! ```
//!
//! No wake-up is missed: `poll` checks the condition and stores its waker under the lock under
//! which `advance` changes the progress. Waits are cancel-safe: a dropped wait frees its slot and has
//! no other effect.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use aqueduct_core::RunId;

use crate::error::LogError;
use crate::log::Lease;

/// The progress of a run. Numbers only grow, so progress that arrives out of order is combined by
/// the maximum of each field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) head: u64,
    pub(crate) closed: bool,
    pub(crate) controls: usize,
    pub(crate) epoch: u64,
}

/// The condition of a wait.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// Events above a number, or the end of the run.
    Events { after: u64 },
    /// More messages than `seen`, or the end of the lease.
    Messages { epoch: u64, seen: usize },
}

impl Want {
    /// Returns `true` if the wait is over. A higher epoch ends the wait for messages: the lease of the
    /// waiter is lost.
    fn is_met(self, now: &Progress) -> bool {
        match self {
            Self::Events { after } => now.head > after || now.closed,
            Self::Messages { epoch, seen } => now.closed || now.epoch > epoch || now.controls > seen,
        }
    }
}

/// Wakes the tasks that wait for a run.
#[derive(Debug)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Debug)]
struct State {
    progress: Progress,
    /// One slot per pending wait; the waker is `None` once it was used.
    waiting: Vec<Option<(Want, Option<Waker>)>>,
    /// Free slots.
    vacant: Vec<usize>,
}

impl Signal {
    /// Returns a signal without waiters.
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Mutex::new(State { progress, waiting: Vec::new(), vacant: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the progress and wakes the waiters whose condition holds. Outdated progress has no effect.
    pub(crate) fn advance(&self, now: Progress) {
        let (first, others) = self.state().advance(now);
        // Outside the lock, because a waker may run any code.
        first.into_iter().chain(others).for_each(Waker::wake);
    }

    /// Sets the progress back, for a log that may have lost events, messages or a takeover: the next progress is the true one.
    #[cfg(feature = "redis")]
    pub(crate) fn rewind(&self) {
        self.state().progress = Progress::default();
    }

    /// Waits for events above `after`, or the end of the run.
    /// Completes at once if the condition already holds. Never fails; the error type is that of the
    /// engines.
    pub(crate) async fn changed(&self, _: &RunId, after: u64) -> Result<(), LogError> {
        self.wait(Want::Events { after }).await;
        Ok(())
    }

    /// Waits for more than `seen` messages, or the end of the lease.
    /// The caller checks the lease afterwards: this wait does not report which of the two happened.
    pub(crate) async fn messages(&self, lease: &Lease, seen: usize) {
        self.wait(Want::Messages { epoch: lease.epoch, seen }).await;
    }

    /// Frees the slots, if none is in use.
    pub(crate) fn shrink(&self) {
        let mut state = self.state();
        if state.waiting.iter().all(Option::is_none) {
            (state.waiting, state.vacant) = (Vec::new(), Vec::new());
        }
    }

    fn wait(&self, want: Want) -> Wait<'_> {
        Wait { signal: self, want, place: None }
    }
}

impl State {
    /// Updates the progress, and returns the wakers to wake. Mostly there is one, which needs no list.
    fn advance(&mut self, now: Progress) -> (Option<Waker>, Vec<Waker>) {
        let known = self.progress;
        self.progress = Progress {
            head: known.head.max(now.head),
            closed: known.closed || now.closed,
            controls: known.controls.max(now.controls),
            epoch: known.epoch.max(now.epoch),
        };
        let progress = &self.progress;
        let met = self.waiting.iter_mut().flatten().filter(|(want, _)| want.is_met(progress));
        let mut wakers = met.filter_map(|(_, waker)| waker.take());
        (wakers.next(), wakers.collect())
    }

    /// Returns a free slot. The list grows to the highest number of simultaneous waits and never
    /// shrinks.
    fn vacant_place(&mut self) -> usize {
        self.vacant.pop().unwrap_or_else(|| {
            if self.waiting.is_empty() {
                // The owner and one watcher, which is what most runs have.
                self.waiting.reserve_exact(2);
            }
            self.waiting.push(None);
            self.waiting.len() - 1
        })
    }

    /// Frees a slot for the next wait.
    fn vacate(&mut self, place: usize) {
        if let Some(held) = self.waiting.get_mut(place) {
            *held = None;
            self.vacant.push(place);
        }
    }
}

/// One wait. It has a slot from its first poll until it is dropped.
struct Wait<'s> {
    signal: &'s Signal,
    want: Want,
    place: Option<usize>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.state();
        if self.want.is_met(&state.progress) {
            return Poll::Ready(());
        }
        // The slot of an earlier poll is used again, with the waker of this poll: a task may be polled by
        // another one.
        let place = self.place.unwrap_or_else(|| state.vacant_place());
        if let Some(held) = state.waiting.get_mut(place) {
            let is_known =
                matches!(held, Some((_, Some(waker))) if self.place.is_some() && waker.will_wake(cx.waker()));
            if !is_known {
                *held = Some((self.want, Some(cx.waker().clone())));
            }
        }
        drop(state);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.signal.state().vacate(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A wait, and how often it was woken.
    struct Waiter<'s>(Wait<'s>, Arc<Count>);

    impl<'s> Waiter<'s> {
        fn of(signal: &'s Signal, want: Want) -> Self {
            let mut waiter = Self(signal.wait(want), Arc::default());
            assert!(!waiter.is_over());
            waiter
        }

        fn is_over(&mut self) -> bool {
            let waker = Waker::from(Arc::clone(&self.1));
            Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker)).is_ready()
        }

        fn woken(&self) -> usize {
            self.1.0.load(Ordering::Relaxed)
        }
    }

    fn at(head: u64) -> Progress {
        Progress { head, epoch: 1, ..Progress::default() }
    }

    #[test]
    fn only_those_are_woken_whose_wait_is_over() {
        let signal = Signal::new(at(0));
        let mut near = Waiter::of(&signal, Want::Events { after: 0 });
        let mut far = Waiter::of(&signal, Want::Events { after: 5 });
        let mut owner = Waiter::of(&signal, Want::Messages { epoch: 1, seen: 0 });
        signal.advance(at(3));
        assert_eq!([near.woken(), far.woken(), owner.woken()], [1, 0, 0]);
        assert!(near.is_over() && !far.is_over() && !owner.is_over());
        signal.advance(Progress { controls: 1, ..at(3) });
        assert_eq!([near.woken(), far.woken(), owner.woken()], [1, 0, 1]);
        signal.advance(Progress { closed: true, controls: 1, ..at(4) });
        assert!(far.woken() == 1 && far.is_over() && owner.is_over());
    }

    #[test]
    fn a_new_lease_ends_the_wait_of_the_old_one() {
        let signal = Signal::new(at(0));
        let mut owner = Waiter::of(&signal, Want::Messages { epoch: 1, seen: 0 });
        signal.advance(Progress { epoch: 2, ..at(0) });
        assert!(owner.woken() == 1 && owner.is_over());
    }

    #[test]
    fn what_arrives_late_tells_nothing() {
        let signal = Signal::new(at(4));
        let mut waiter = Waiter::of(&signal, Want::Events { after: 4 });
        signal.advance(at(2));
        assert!(waiter.woken() == 0 && !waiter.is_over());
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_rewound_signal_takes_a_lower_head() {
        let signal = Signal::new(at(4));
        signal.rewind();
        let mut waiter = Waiter::of(&signal, Want::Events { after: 2 });
        signal.advance(at(3));
        assert!(waiter.woken() == 1 && waiter.is_over());
    }

    #[test]
    fn waits_that_are_dropped_leave_their_place_to_others() {
        let signal = Signal::new(at(0));
        for _ in 0..100 {
            let _first = Waiter::of(&signal, Want::Events { after: 1 });
            let _second = Waiter::of(&signal, Want::Events { after: 1 });
        }
        assert_eq!(signal.state().waiting.len(), 2);
        signal.advance(at(2));
    }

    #[test]
    fn slots_are_freed_only_without_waiters() {
        let signal = Signal::new(at(0));
        let mut waiter = Waiter::of(&signal, Want::Events { after: 0 });
        signal.shrink();
        signal.advance(at(1));
        assert!(waiter.woken() == 1 && waiter.is_over());
        drop(waiter);
        signal.shrink();
        assert_eq!(signal.state().waiting.capacity(), 0);
        let waiter = Waiter::of(&signal, Want::Events { after: 1 });
        signal.advance(at(2));
        assert_eq!(waiter.woken(), 1);
    }

    #[test]
    fn a_waiter_that_is_polled_again_is_woken_once_by_its_last_waker() {
        let signal = Signal::new(at(0));
        let mut waiter = Waiter::of(&signal, Want::Events { after: 0 });
        let first = std::mem::take(&mut waiter.1);
        assert!(!waiter.is_over());
        signal.advance(at(1));
        assert_eq!((first.0.load(Ordering::Relaxed), waiter.woken()), (0, 1));
    }
}
