//! [`Entry`]: a run with waiters in this process: its progress, and its last events.
//!
//! ```text
//! new ──► subscribed and state read ──► ready ◄── notifications, own appends, states
//!                                        └ connection lost: events and progress are forgotten until the next state
//! ```
//!
//! Invariant: the events are contiguous, and none of them is above the head of the log, as far as the entry knows it. Events that
//! the entry does not hold are read from the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_core::{BlockEvent, RunId};
use bytes::Bytes;
use tokio::sync::Notify;

use super::reply::Notification;
use crate::codec::Decoder;
use crate::limits::count;
use crate::log::{Page, RunState};
use crate::signal::{Progress, Signal};
use crate::tail::Tail;

/// A run with waiters in this process.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) run: RunId,
    pub(super) signal: Signal,
    /// Set once the listener has subscribed to the channel and the state of the run was read; `readied` wakes what waits for it.
    ready: AtomicBool,
    readied: Notify,
    /// Notified when the connection was lost.
    pub(super) rewound: Notify,
    body: Mutex<Body>,
    /// Set if the entry was used since the last check.
    pub(super) touched: AtomicBool,
}

/// The last events of the run that a notification delivered or this process appended, without gaps.
#[derive(Debug, Default)]
struct Body {
    tail: Tail,
    decoder: Decoder,
    /// Set once the tail ends with the terminal event, or the state that was read is closed.
    closed: bool,
}

impl Body {
    /// Prepares the tail for events up to `last`, and returns how many of them it already contains. Events after a gap start a
    /// new tail, because the events of a tail are contiguous: those in the gap are read from the log.
    fn follow(&mut self, last: u64, events: usize) -> usize {
        let first = (last + 1).saturating_sub(count(events));
        if first > self.tail.head() + 1 {
            self.tail = Tail::after(first - 1);
        }
        usize::try_from((self.tail.head() + 1).saturating_sub(first)).unwrap_or(usize::MAX)
    }
}

impl Entry {
    /// Returns an entry that is not ready: its channel is not subscribed yet.
    pub(super) fn new(run: RunId) -> Self {
        let signal = Signal::new(Progress::default());
        Self {
            run,
            signal,
            ready: AtomicBool::new(false),
            readied: Notify::new(),
            rewound: Notify::new(),
            body: Mutex::default(),
            touched: AtomicBool::new(true),
        }
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
        self.readied.notify_waiters();
    }

    /// Waits until the entry is ready. Waiters wake in the order in which they began to wait, other than those of a `watch`
    /// channel: a simulation repeats that order.
    pub(super) async fn wait_until_ready(&self) {
        loop {
            let readied = self.readied.notified();
            if self.is_ready() {
                return;
            }
            readied.await;
        }
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the events that follow the tail, and wakes waiters. `last` is the number of the last event that the log holds.
    fn take(&self, body: &mut Body, last: u64, closed: bool, events: impl Iterator<Item = BlockEvent>) {
        for (number, event) in (body.tail.head() + 1..).zip(events) {
            body.tail.push(number, event);
        }
        body.closed |= closed && body.tail.head() == last;
        self.signal.advance(Progress { head: last, closed, ..Progress::default() });
    }

    /// Adds events that this process appended.
    pub(super) fn appended(&self, last: u64, closed: bool, events: &[BlockEvent]) {
        let mut body = self.body();
        let skip = body.follow(last, events.len());
        self.take(&mut body, last, closed, events.iter().skip(skip).cloned());
    }

    /// Handles a notification. An invalid one is ignored: the next refresh reads the state of the run.
    pub(super) fn handle_notification(&self, message: &[u8]) {
        match Notification::read(message) {
            Some(Notification::Events { last, closed, payloads }) => {
                self.handle_events(last, closed, &payloads);
            }
            Some(Notification::Head { head, closed }) => {
                self.signal.advance(Progress { head, closed, ..Progress::default() });
            }
            Some(Notification::Epoch { epoch, head }) => self.handle_takeover(epoch, head),
            Some(Notification::Controls(controls)) => {
                self.signal.advance(Progress { controls, ..Progress::default() });
            }
            None => {}
        }
    }

    /// Adds the events of a notification to the tail. If they do not follow the tail, they start a new one.
    fn handle_events(&self, last: u64, closed: bool, payloads: &[&[u8]]) {
        let mut body = self.body();
        let skip = body.follow(last, payloads.len());
        let mut decoder = std::mem::take(&mut body.decoder);
        let read = payloads.iter().skip(skip).map(|bytes| decoder.decode(Bytes::copy_from_slice(bytes)));
        // The tail ends before an event that cannot be decoded: a watcher then reads the event from the log, which returns
        // the error.
        let events: Vec<BlockEvent> = read.map_while(Result::ok).collect();
        body.decoder = decoder;
        self.take(&mut body, last, closed, events.into_iter());
    }

    /// Handles a takeover of the run at `head`. Events above it, which the server lost, are not part of the log any more.
    pub(super) fn handle_takeover(&self, epoch: u64, head: Option<u64>) {
        let mut body = self.body();
        if let Some(head) = head.filter(|head| *head < body.tail.head()) {
            body.tail = Tail::after(head);
        }
        drop(body);
        self.signal.advance(Progress { epoch, ..Progress::default() });
    }

    /// Handles a lost connection: the server may come back without its last events and messages, so the progress of the run is
    /// read again. The entry is not ready until then.
    pub(super) fn handle_reconnect(&self) {
        self.ready.store(false, Ordering::Release);
        let mut body = self.body();
        (body.tail, body.closed) = (Tail::default(), false);
        drop(body);
        self.signal.rewind();
        self.rewound.notify_waiters();
    }

    /// Handles the state of the run, as it was read from the server.
    pub(super) fn handle_state(&self, state: &RunState, controls: usize) {
        let mut body = self.body();
        if body.tail.head() < state.head {
            body.tail = Tail::after(state.head);
        }
        body.closed |= state.closed_at.is_some();
        let (head, epoch, closed) = (state.head, state.epoch, state.closed_at.is_some());
        self.signal.advance(Progress { head, closed, controls, epoch });
        drop(body);
        self.set_ready();
    }

    /// Handles a run that does not exist: wakes all waiters, whose next read returns [`LogError::NotFound`].
    pub(super) fn handle_deleted(&self) {
        self.signal.advance(Progress { closed: true, ..Progress::default() });
        self.set_ready();
    }

    /// Returns a page from the tail. Returns `None` if the tail has no events after `after`.
    pub(super) fn read(&self, after: u64, max: usize) -> Option<Page> {
        if !self.is_ready() {
            return None;
        }
        let body = self.body();
        let head = body.tail.head();
        let events = body.tail.read(after, max).filter(|events| !events.is_empty())?;
        Some(Page { events, head, closed: body.closed })
    }
}
