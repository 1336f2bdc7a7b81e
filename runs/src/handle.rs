//! [`RunHandle`]: access of other tasks to a run that this engine drives: its watchers, its cancellation, its lanes.
//!
//! ```text
//! lanes:  unused ── RunHandle::lanes ──► open (a channel; the driver takes the receiver) ── the run ends ──► closed
//!            └────────────────────────────────── the run ends ────────────────────────────────────────────┘
//! ```
//!
//! Watchers are counted, so that the driver can cancel a run without watchers. The channel for lanes is created on first
//! use: most runs have no sub-agents that are called through the host.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aqueduct_core::event::RunFailed;
use aqueduct_core::service::{BoxFuture, NumberedEvent};
use aqueduct_core::{BlockEvent, CancelToken, Gated, RunFailure, RunId, RunInfo, SourceEvent};
use aqueduct_runlog::{Follow, LogError, RunMeta};
use futures_util::Stream;
use tokio::sync::futures::Notified;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{Notify, mpsc, watch};

/// Lane events that wait in the channel of a run. Enough to keep sub-agent and driver busy; few enough that back-pressure
/// reaches a sub-agent soon.
pub(crate) const LANE_EVENTS: usize = 64;

/// The receiver of the channel for lanes, which the driver polls. The events are boxed: the channel allocates room for 32
/// of them at once.
pub(crate) type LaneEvents = mpsc::Receiver<Box<SourceEvent>>;

/// A run that this engine drives.
pub struct RunHandle {
    id: RunId,
    cancel: CancelToken,
    ended: CancelToken,
    watchers: AtomicUsize,
    /// Set once the run was handed over to other replicas.
    is_handed_over: AtomicBool,
    /// Notified when the number of watchers changed, the channel for lanes was opened, or the shutdown stage changed. Only
    /// the driver waits for it.
    changed: Notify,
    lanes: Mutex<Lanes>,
    /// The number of positions of the source that the log holds. Created on first use: few sources send
    /// positions, and the sender has a list of waiters in eight parts.
    stored: OnceLock<watch::Sender<u64>>,
}

/// The state of the channel for lanes.
enum Lanes {
    /// No sub-agent was called through the host yet.
    Unused,
    /// Holds the receiver until the driver takes it.
    Open(mpsc::Sender<Box<SourceEvent>>, Option<LaneEvents>),
    /// The run has ended: lane events are refused.
    Closed,
}

aqueduct_core::debug_fields!(RunHandle { id });

impl RunHandle {
    /// Returns the handle of a run without watchers.
    pub fn new(id: RunId) -> Self {
        Self {
            id,
            cancel: CancelToken::new(),
            ended: CancelToken::new(),
            watchers: AtomicUsize::new(0),
            is_handed_over: AtomicBool::new(false),
            changed: Notify::new(),
            lanes: Mutex::new(Lanes::Unused),
            stored: OnceLock::new(),
        }
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the token that cancels the run.
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }

    /// Returns `true` once this engine no longer drives the run: the run has ended, or another replica drives it.
    pub fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until [`is_ended`](Self::is_ended) returns `true`.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until the run is cancelled or this engine no longer drives it. Returns `true` if the run was cancelled.
    pub async fn was_cancelled(&self) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => true,
            () = self.ended() => self.cancel.is_cancelled(),
        }
    }

    /// Returns a sender of lane events into the run. Returns `None` if the run has ended.
    pub fn lanes(&self) -> Option<LaneSender> {
        let mut lanes = self.lock_lanes();
        if let Lanes::Unused = &*lanes {
            let (sender, receiver) = mpsc::channel(LANE_EVENTS);
            *lanes = Lanes::Open(sender, Some(receiver));
            self.changed.notify_one();
        }
        match &*lanes {
            Lanes::Open(sender, _) => Some(LaneSender(sender.clone())),
            _ => None,
        }
    }

    /// Locks the state of the channel. A panic of another holder leaves the state valid.
    fn lock_lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the receiver of the channel for lanes. Returns `None` if the channel is not open or its receiver was taken.
    pub(crate) fn take_lanes(&self) -> Option<LaneEvents> {
        match &mut *self.lock_lanes() {
            Lanes::Open(_, receiver) => receiver.take(),
            _ => None,
        }
    }

    /// Adds to the number of positions of the source that the log holds.
    pub(crate) fn add_stored(&self, positions: u64) {
        self.stored_positions().send_modify(|stored| *stored += positions);
    }

    /// Waits until the log holds this many positions of the source.
    pub(crate) async fn stored(&self, positions: u64) {
        // The sender lives in `self`.
        self.stored_positions().subscribe().wait_for(|stored| *stored >= positions).await.ok();
    }

    fn stored_positions(&self) -> &watch::Sender<u64> {
        self.stored.get_or_init(watch::Sender::default)
    }

    /// Marks the run as ended: lane events are no longer accepted.
    pub(crate) fn end(&self) {
        *self.lock_lanes() = Lanes::Closed;
        self.ended.cancel();
    }

    /// Returns the number of watchers at this replica.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::SeqCst)
    }

    /// Returns `true` if the run has no watchers at this replica.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.watchers() == 0
    }

    /// Marks the run as handed over: its watchers at this replica get a resumable end.
    pub(crate) fn mark_handed_over(&self) {
        self.is_handed_over.store(true, Ordering::SeqCst);
    }

    /// Returns `true` once the run was handed over.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::SeqCst)
    }

    /// Wakes the driver, which then checks the shutdown stage.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns `true` while a [`LaneSender`] exists: a sub-agent may send events into the run.
    pub(crate) fn has_lane_senders(&self) -> bool {
        matches!(&*self.lock_lanes(), Lanes::Open(sender, _) if sender.strong_count() > 1)
    }

    /// Returns a future that completes at the next notification of `changed`, or at once if one was missed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Counts one more watcher, until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> WatchGuard {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
        WatchGuard(Arc::clone(self))
    }
}

/// Sends lane events into a run.
#[derive(Debug, Clone)]
pub struct LaneSender(mpsc::Sender<Box<SourceEvent>>);

/// Why a run did not accept a lane event.
#[derive(Debug)]
pub enum LaneRefused {
    /// The run has ended.
    Ended,
    /// The run accepted no event in time; contains the event.
    Slow(Box<SourceEvent>),
}

impl LaneSender {
    /// Sends an event. If the channel is full, waits for at most `patience`.
    ///
    /// # Errors
    ///
    /// Returns [`LaneRefused::Ended`] if the run has ended, and [`LaneRefused::Slow`] if it accepted no event in time.
    pub async fn send(&self, event: SourceEvent, patience: Duration) -> Result<(), LaneRefused> {
        self.0.send_timeout(Box::new(event), patience).await.map_err(|error| match error {
            SendTimeoutError::Closed(_) => LaneRefused::Ended,
            SendTimeoutError::Timeout(event) => LaneRefused::Slow(event),
        })
    }

    /// Sends an event and waits for room without limit. Returns `false` if the run has ended.
    pub async fn send_slowly(&self, event: SourceEvent) -> bool {
        self.0.send(Box::new(event)).await.is_ok()
    }
}

/// Counts one watcher until it is dropped.
#[derive(Debug)]
pub(crate) struct WatchGuard(Arc<RunHandle>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

/// The code of a run that the log has lost.
const LOG_LOST: &str = "log_lost";

/// The events of a run for one watcher.
///
/// If the log is unavailable for a time, or the run is handed over, the stream ends without a terminal event, which a
/// transport reports as a resumable end. If the log has lost the run, the stream ends with a failure that no log holds:
/// the log accepts no further event of the run.
pub(crate) struct Watched {
    run: RunId,
    follow: Follow,
    /// The number of the last event that the watcher has, from this stream or from before it resumed.
    last: u64,
    _guard: Option<WatchGuard>,
    /// Completes when the watcher must stop before the end of the run.
    halted: Gated<BoxFuture<'static, ()>>,
    /// Set once the stream was polled.
    was_polled: bool,
    /// Set once the stream has ended.
    is_over: bool,
}

impl Watched {
    /// Returns the events of `run` for one watcher that has the events up to `after`, after which `follow` starts. `halted`
    /// completes when the watcher must stop early.
    pub(crate) fn new(
        run: &RunId,
        follow: Follow,
        after: u64,
        guard: Option<WatchGuard>,
        halted: BoxFuture<'static, ()>,
    ) -> Self {
        let halted = Gated::new(halted);
        Self {
            run: run.clone(),
            follow,
            last: after,
            _guard: guard,
            halted,
            was_polled: false,
            is_over: false,
        }
    }

    /// Decides how the stream ends after an error of the log: with a failure if the log has lost the run, otherwise resumable.
    fn handle_error(&mut self, error: &LogError) -> Option<NumberedEvent> {
        self.is_over = true;
        tracing::warn!(run = self.run.as_str(), %error, "a watcher stops: the run log cannot be read");
        let is_lost =
            matches!(error, LogError::NotFound(_) | LogError::Lost { .. } | LogError::Unreadable { .. });
        is_lost.then(|| {
            let message = match error {
                LogError::NotFound(_) => format!("{error}: start the run again"),
                // These errors say so themselves.
                error => error.to_string(),
            };
            let failure = RunFailure::new(LOG_LOST, message);
            let run = Arc::new(RunInfo::new("", RunMeta::id_in(&self.run).as_bytes().clone()));
            let event = BlockEvent::RunFailed(Box::new(RunFailed::new(run, failure)));
            NumberedEvent { number: self.last + 1, event }
        })
    }
}

impl Stream for Watched {
    type Item = NumberedEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<NumberedEvent>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = Pin::new(&mut self.follow).poll_next(cx) else {
            if !std::mem::replace(&mut self.was_polled, true) {
                // A watcher takes a stream that ends without any event for a run that has ended, so the first poll never
                // ends it.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(Pin::new(&mut self.halted).poll(cx));
            self.is_over = true;
            return Poll::Ready(None);
        };
        self.was_polled = true;
        Poll::Ready(match next {
            Some(Ok(event)) => {
                self.last = event.number;
                Some(event)
            }
            Some(Err(error)) => self.handle_error(&error),
            None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_runlog::MemoryLog;
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_lost_run_fails_with_the_number_after_those_that_the_watcher_has() {
        let run = RunId::from("lost");
        for after in [0, 7] {
            let follow = Follow::new(Arc::new(MemoryLog::default()), run.clone(), after);
            let mut watched = Watched::new(&run, follow, after, None, Box::pin(std::future::pending()));
            let failed = watched.next().await.unwrap();
            assert_eq!(failed.number, after + 1);
            assert!(matches!(failed.event, BlockEvent::RunFailed(_)));
            assert_eq!(watched.next().await, None);
        }
    }

    #[tokio::test]
    async fn a_lost_run_says_once_to_start_it_again() {
        let run = RunId::from("lost");
        let unreadable = LogError::Unreadable { run: run.clone(), what: "its segment is gone".to_owned() };
        let lost = LogError::Lost { run: run.clone(), from: 3 };
        for error in [LogError::NotFound(run.clone()), unreadable, lost] {
            let follow = Follow::new(Arc::new(MemoryLog::default()), run.clone(), 0);
            let mut watched = Watched::new(&run, follow, 0, None, Box::pin(std::future::pending()));
            let Some(BlockEvent::RunFailed(failed)) = watched.handle_error(&error).map(|event| event.event)
            else {
                panic!("{error}")
            };
            let message = failed.failure.message.to_string();
            assert_eq!(message.matches("start the run again").count(), 1, "{message}");
        }
    }

    #[tokio::test]
    async fn lanes_are_made_on_first_use_and_closed_with_the_run() {
        let run = RunHandle::new("r".into());
        assert!(run.take_lanes().is_none(), "no channel before it is used");
        let sender = run.lanes().unwrap();
        let mut events = run.take_lanes().unwrap();
        sender.send(SourceEvent::finished(), Duration::ZERO).await.unwrap();
        assert_eq!(*events.recv().await.unwrap(), SourceEvent::finished());
        run.end();
        drop(events);
        assert!(run.lanes().is_none() && run.is_ended());
        let refused = sender.send(SourceEvent::finished(), Duration::ZERO).await;
        assert!(matches!(refused, Err(LaneRefused::Ended)));
    }
}
