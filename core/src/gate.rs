//! [`Gate`] and [`Gated`]: a future that is polled only after it was woken.
//!
//! A task that waits for several things polls all of them each time that one of them is ready. Most waits of a run are for
//! events that come once or never (a cancellation, a deadline, the end of the server), and polling each takes a lock or
//! touches memory that no processor has cached. A gate gives them a waker of their own:
//!
//! ```text
//! event ──wakes──► the wait's waker: sets the flag, wakes the task ──► poll: flag set ──► polls the wait
//! another event of the task ────────────────────────────────────────► poll: flag not set ──► pending, the wait is not touched
//! ```
//!
//! The first poll, and a poll from another task than before, always reach the future.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Decides whether futures must be polled.
///
/// # Examples
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// let mut gate = aqueduct_core::Gate::default();
/// let cx = &mut Context::from_waker(Waker::noop());
/// let mut polls = 0;
/// for _ in 0..3 {
///     let _: Poll<()> = gate.poll(cx, |_| {
///         polls += 1;
///         Poll::Pending
///     });
/// }
/// assert_eq!(polls, 1);
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    /// The waker of the futures behind the gate; `None` before the first poll, and after the gate was opened.
    flag: Option<Arc<Flag>>,
}

/// Remembers a wake-up, and passes it on to the task.
#[derive(Debug)]
struct Flag {
    task: Waker,
    is_woken: AtomicBool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A flag that is set already was passed on, and the task has not polled since.
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.task.wake_by_ref();
        }
    }
}

impl Gate {
    /// Polls by `poll` if one of the futures behind the gate was woken since it was last polled. Once `poll` is ready, the
    /// gate stays open, because it may not have reached all of them.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let flag = match self.flag.take().filter(|flag| flag.task.will_wake(cx.waker())) {
            Some(flag) => {
                // Before the poll: a wake-up during the poll must lead to another one.
                if !flag.is_woken.swap(false, Ordering::AcqRel) {
                    self.flag = Some(flag);
                    return Poll::Pending;
                }
                flag
            }
            None => Arc::new(Flag { task: cx.waker().clone(), is_woken: AtomicBool::new(false) }),
        };
        let polled = poll(&mut Context::from_waker(&Waker::from(Arc::clone(&flag))));
        if polled.is_ready() {
            flag.is_woken.store(true, Ordering::Release);
        }
        self.flag = Some(flag);
        polled
    }

    /// Opens the gate: the next poll reaches the futures, because one of them was replaced.
    pub fn open(&mut self) {
        if let Some(flag) = &self.flag {
            flag.is_woken.store(true, Ordering::Release);
        }
    }
}

/// A future behind a [`Gate`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Gated<F> {
    gate: Gate,
    future: F,
}

impl<F> Gated<F> {
    /// Puts a future behind a gate.
    pub fn new(future: F) -> Self {
        Self { gate: Gate::default(), future }
    }
}

impl<F: Future + Unpin> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { gate, future } = &mut *self;
        gate.poll(cx, |cx| Pin::new(future).poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A task that counts its wake-ups.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls the gate in that task. Returns the waker that the futures got, if the gate let the poll through.
    fn poll(gate: &mut Gate, task: &Arc<Task>, polled: Poll<()>) -> Option<Waker> {
        let mut reached = None;
        let waker = Waker::from(Arc::clone(task));
        let result = gate.poll(&mut Context::from_waker(&waker), |cx| {
            reached = Some(cx.waker().clone());
            polled
        });
        assert_eq!(result, if reached.is_some() { polled } else { Poll::Pending });
        reached
    }

    #[test]
    fn a_future_is_polled_first_and_then_after_each_wake() {
        let (mut gate, task) = (Gate::default(), Arc::new(Task::default()));
        let waker = poll(&mut gate, &task, Poll::Pending).unwrap();
        assert!(poll(&mut gate, &task, Poll::Pending).is_none(), "it was not woken");
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 1, "the task is woken once until it polls");
        assert!(poll(&mut gate, &task, Poll::Pending).is_some());
        assert!(poll(&mut gate, &task, Poll::Pending).is_none());
        waker.wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 2);
        assert!(poll(&mut gate, &task, Poll::Pending).is_some());
    }

    #[test]
    fn a_wake_during_the_poll_is_not_lost() {
        let (mut gate, task) = (Gate::default(), Arc::new(Task::default()));
        let waker = Waker::from(Arc::clone(&task));
        let polled: Poll<()> = gate.poll(&mut Context::from_waker(&waker), |cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        assert!(poll(&mut gate, &task, Poll::Pending).is_some());
    }

    #[test]
    fn another_task_and_an_opened_gate_reach_the_future() {
        let (mut gate, task, other) = (Gate::default(), Arc::new(Task::default()), Arc::new(Task::default()));
        let old = poll(&mut gate, &task, Poll::Pending).unwrap();
        let new = poll(&mut gate, &other, Poll::Pending).unwrap();
        assert!(poll(&mut gate, &other, Poll::Pending).is_none());
        gate.open();
        assert!(poll(&mut gate, &other, Poll::Pending).is_some());
        old.wake();
        assert!(poll(&mut gate, &other, Poll::Pending).is_none(), "the future has a new waker");
        new.wake();
        assert!(poll(&mut gate, &other, Poll::Pending).is_some());
        assert_eq!(other.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_gate_stays_open_after_a_ready_poll() {
        let (mut gate, task) = (Gate::default(), Arc::new(Task::default()));
        assert!(poll(&mut gate, &task, Poll::Ready(())).is_some());
        assert!(poll(&mut gate, &task, Poll::Pending).is_some());
        assert!(poll(&mut gate, &task, Poll::Pending).is_none());
    }
}
