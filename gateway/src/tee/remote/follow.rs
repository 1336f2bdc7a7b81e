//! The owner's side: a lane whose events are read from a side run.
//!
//! ```text
//! Announcement ──► side run already closed? ── yes ──► ignored
//!                    │ no
//!                    ▼
//!               key identifies an agent of this run? ── no ──► Refused
//!                    │ yes
//!                    ▼
//!               lane, Granted ──► feed: pieces ──► Lane ──► run      cancel ──► Cancel { task }
//!                    │ last piece, side run ends, or this run ends
//!                    ▼
//!               retire ──► Over ──► the side run is trimmed
//! ```
//!
//! The order of pieces and the supervisor's own events is kept by [`RemoteCalls::catch_up`]: the run reads what
//! carriers have appended before it handles the supervisor's next event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunFailure, RunId};
use aqueduct_runlog::{Control, Follow, RunLog};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::sync::watch;

use super::words::{Announcement, PIECE, Piece, Word, value};
use crate::tee::Step;
use crate::tee::lane::{LANE_LOST, Lane, PATIENCE};
use crate::tee::run::TeeRun;

/// The calls of a run that other replicas forward. The lock is held for look-ups only, never across an await.
#[derive(Debug, Default)]
pub(crate) struct RemoteCalls(Mutex<Vec<RemoteCall>>);

/// One call, and the position up to which its side run was read.
#[derive(Debug, Clone)]
struct RemoteCall {
    side: RunId,
    /// The number of the last event that reached the lane. Closed when the follower ends.
    read: watch::Receiver<u64>,
}

impl RemoteCalls {
    /// Locks the list. Its operations cannot leave it inconsistent, so poison is ignored.
    fn all(&self) -> MutexGuard<'_, Vec<RemoteCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if other replicas forward no call of the run.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Waits until everything that carriers have appended so far was sent to the lanes, and lanes that ended
    /// are removed. Waits at most [`PATIENCE`]: events that arrive later are shown after the supervisor's next
    /// event.
    pub(crate) async fn catch_up(&self, log: &Arc<dyn RunLog>) {
        let calls = self.all().clone();
        let all = futures_util::future::join_all(calls.into_iter().map(|mut call| async move {
            if let Ok(state) = log.state(&call.side).await {
                // A side run that is no longer read has no more events.
                call.read.wait_for(|read| *read >= state.head).await.ok();
            }
        }));
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("the run log is too slow: sub-agents are shown late");
        }
    }
}

/// Handles a message of another replica to the run. Each announcement is followed by a task of its own, so that
/// a slow side run delays no other call.
pub(crate) fn take_message(run: &Arc<TeeRun>, message: Value) {
    match serde_json::from_value::<Announcement>(message) {
        Ok(announcement) => {
            let follower = Follower { run: Arc::clone(run), side: RunId::from(announcement.side.clone()) };
            tokio::spawn(follower.follow(announcement));
        }
        Err(error) => tracing::warn!(%error, "a message of another replica cannot be read"),
    }
}

/// Reads a side run into a lane.
struct Follower {
    run: Arc<TeeRun>,
    side: RunId,
}

/// The next input of a follower.
enum Next {
    /// An event of the side run; `None` if the side run cannot be read any further.
    Piece(Option<NumberedEvent>),
    /// The run was cancelled while this task works.
    Cancel(String),
    /// The run of the lane has ended.
    RunEnded,
}

impl Follower {
    /// Follows one call from its announcement to the end of its side run.
    async fn follow(self, announcement: Announcement) {
        // The replica that took the run over receives all earlier messages to the run, including those of ended calls.
        if self.run.tee.log().state(&self.side).await.is_ok_and(|side| side.closed_at.is_some()) {
            return;
        }
        // An earlier call of the task may have come through another replica; its lane must have left its state
        // first.
        if announcement.call.goes_on() {
            self.run.remote.catch_up(self.run.tee.log()).await;
        }
        // A relation key that identifies no agent of this run gets no lane.
        let caller = self.run.tee.anchor_of(&self.run, &announcement.relation);
        let lane = caller.and_then(|caller| Lane::begin(&caller, &announcement.call, self.run.tee.metrics()));
        let Some(mut lane) = lane else { return self.tell(&Word::Refused).await };
        // Registered before the lane is granted, so that `catch_up` waits for every later event.
        let (sender, read) = watch::channel(0);
        self.run.remote.all().push(RemoteCall { side: self.side.clone(), read });
        let run_context = lane.run_context();
        let [token, trace] = [run_context.token(), run_context.trace()].map(|text| text.map(str::to_owned));
        // A run context holds a reference to the anchor, which must not outlive the lane.
        drop(run_context);
        self.tell(&Word::Granted { token, trace }).await;
        let has_ended = self.feed(&mut lane, &sender).await;
        let rest = has_ended.then(|| lane.retire());
        self.run.remote.all().retain(|call| call.side != self.side);
        drop(sender);
        if let Some(rest) = rest
            && let Some(task) = rest.await
        {
            self.tell(&Word::Cancel { task }).await;
        }
        self.tell(&Word::Over).await;
        // The run contains all of it, and no replica reads it again.
        self.run.tee.log().trim(&self.side, u64::MAX).await.ok();
    }

    /// Reads the side run into the lane until its end. Returns `false` if the run ended before. Pieces come
    /// first in the biased select: a cancel or the end of the run must not overtake content that the log
    /// contains.
    async fn feed(&self, lane: &mut Lane, read: &watch::Sender<u64>) -> bool {
        let log = Arc::clone(self.run.tee.log());
        let mut events = Follow::new(log, self.side.clone(), 0);
        let (mut is_over, mut is_told) = (false, false);
        while !is_over {
            let next = tokio::select! {
                biased;
                event = events.next() => Next::Piece(event.and_then(Result::ok)),
                task = lane.cancel_wanted(), if !is_told => Next::Cancel(task),
                () = self.run.handle.ended() => Next::RunEnded,
            };
            match next {
                Next::Piece(Some(event)) => {
                    is_over = handle(lane, event.event).await;
                    // The last event counts as read once the next call of the task can continue.
                    if !is_over {
                        read.send_replace(event.number);
                    }
                }
                Next::Piece(None) => {
                    lane.handle(Step::Failure(lost())).await;
                    is_over = true;
                }
                Next::Cancel(task) => {
                    is_told = true;
                    self.tell(&Word::Cancel { task }).await;
                }
                Next::RunEnded => return false,
            }
        }
        true
    }

    /// Sends a message to the carrier.
    async fn tell(&self, word: &Word) {
        // A carrier that has ended its side run needs no more messages.
        self.run.tee.log().control(&self.side, Control::Message(value(word))).await.ok();
    }
}

/// Returns the failure of a lane whose side run cannot be read.
fn lost() -> RunFailure {
    RunFailure::new(
        LANE_LOST,
        "events of this agent are missing, because the run log could not be read; the agent itself continues",
    )
}

/// Applies an event of a side run to the lane. Returns `true` if it was the last one with content. A side run
/// that another replica ended (its carrier died) ends with `RunFailed`, which fails the lane. A piece that
/// cannot be read is skipped and logged.
async fn handle(lane: &mut Lane, event: BlockEvent) -> bool {
    let custom = match event {
        BlockEvent::Custom(custom) if custom.name == PIECE => custom,
        BlockEvent::RunFailed(end) => {
            lane.handle(Step::Failure(end.failure)).await;
            return true;
        }
        event => return event.is_terminal(),
    };
    let (step, is_last) = match serde_json::from_value(custom.value) {
        Ok(Piece::Wait) => (Step::Wait, false),
        Ok(Piece::Chunk { text }) => (Step::Chunk(text.into()), false),
        Ok(Piece::Note { text }) => (Step::Notice(text), false),
        Ok(Piece::Body { status, text }) => (Step::Body { status, body: text.into() }, true),
        Ok(Piece::End) => (Step::End, true),
        Ok(Piece::Failure { code, message }) => (Step::Failure(RunFailure::new(code, message)), true),
        Err(error) => {
            tracing::warn!(%error, "a piece of another replica cannot be read");
            return false;
        }
    };
    lane.handle(step).await;
    is_last
}
