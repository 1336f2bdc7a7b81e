//! The carrier's side: appends the response of a call to a side run of the shared log before it is sent to the
//! supervisor.
//!
//! ```text
//! begin ── Announcement to the owner ──► waiting ── Granted ──► open ── handle ────► pieces in the side run
//!                                           │                    │ an append fails or is too slow:
//!                                           │ Refused, silence   │ lost, further pieces are counted
//!                                           ▼                    ▼
//!                                        no lane              retire ──► the side run ends
//! ```
//!
//! The carrier does not decode the response: the owner does, so that all calls of a task are decoded by one
//! decoder. Invariant: the side run is ended on every path; if its append fails, the lease lapses and another
//! replica ends it.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{ByteString, ContentBlock, RunFailure, RunOutcome, SourceEvent, Update};
use aqueduct_runlog::Control;
use aqueduct_runs::{SideEar, SideRun};
use tokio::sync::watch;

use super::words::{Announcement, PIECE, Piece, TextPieces, Word, value};
use crate::service::Gateway;
use crate::tee::call::LaneCall;
use crate::tee::lane::{PATIENCE, log_too_slow};
use crate::tee::relate::RemoteRun;
use crate::tee::token::RunToken;
use crate::tee::{RunContext, Step};
use crate::telemetry::Metrics;

/// How long the carrier waits for the owner to grant a lane. Messages take milliseconds; an owner that died never
/// responds, and the supervisor waits meanwhile.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// The latest state that the owner has sent.
#[derive(Debug, Clone, Default)]
struct OwnerState {
    /// `Granted` or `Refused`, once the owner has responded.
    granted: Option<Word>,
    /// The task to cancel.
    cancel: Option<String>,
    /// Set if the owner accepts no more, or its messages have ended.
    is_over: bool,
}

/// The lane of one call in a run that another replica drives.
#[derive(Debug)]
pub(crate) struct RemoteLane {
    /// The side run that carries the pieces. Its lease belongs to this replica.
    side: SideRun,
    run_context: RunContext,
    /// What the owner has sent so far. A `watch` channel keeps the latest state, so no message can be missed
    /// between two waits.
    owner: watch::Receiver<OwnerState>,
    /// Bytes of a character whose rest has not arrived: pieces are JSON and therefore text.
    text: TextPieces,
    metrics: Arc<Metrics>,
    /// Set once a piece could not be appended in time. Later pieces are counted as dropped; the call goes on.
    is_lost: bool,
    /// Set if the response was not a stream, so that its task may still work.
    is_whole: bool,
}

impl RemoteLane {
    /// Requests a lane from the owner of the run. Returns `None` if the owner refuses or does not respond. The
    /// call waits for the response of the owner, at most [`ANSWER_WAIT`], because the sub-agent needs the token
    /// of the lane.
    pub(crate) async fn begin(gateway: &Arc<Gateway>, remote: &RemoteRun, call: LaneCall) -> Option<Self> {
        let side = SideRun::open(gateway.runs(), &remote.run).await;
        let side = side.inspect_err(|error| tracing::warn!(%error, "a sub-agent cannot be shown")).ok()?;
        let (sender, owner) = watch::channel(OwnerState::default());
        tokio::spawn(listen(side.ear(), sender));
        let metrics = Arc::clone(gateway.metrics());
        let mut lane = Self {
            side,
            run_context: RunContext::None,
            owner,
            text: TextPieces::default(),
            metrics,
            is_lost: false,
            is_whole: false,
        };
        // The side run exists before the announcement: the owner reads it as soon as it grants the lane.
        let announcement =
            Announcement { side: lane.side.id().to_string(), relation: remote.relation.clone(), call };
        let sent = gateway.log().control(&remote.run, Control::Message(value(&announcement))).await;
        let granted = match sent {
            Ok(()) => lane.granted().await,
            Err(error) => {
                tracing::debug!(run = remote.run.as_str(), %error, "its owner cannot be asked for a lane");
                None
            }
        };
        if let Some(run_context) = granted {
            lane.run_context = run_context;
            return Some(lane);
        }
        lane.close(None).await;
        None
    }

    /// Waits for the owner's response. Returns the values for the sub-agent, or `None` for a refusal, silence
    /// or a dead owner.
    async fn granted(&mut self) -> Option<RunContext> {
        let granted = self.owner.wait_for(|owner| owner.granted.is_some() || owner.is_over);
        let word = if let Ok(owner) = tokio::time::timeout(ANSWER_WAIT, granted).await {
            owner.ok().and_then(|owner| owner.granted.clone())
        } else {
            tracing::warn!("the owner of a run does not answer: a sub-agent is not shown");
            None
        };
        match word {
            Some(Word::Granted { token, trace }) => {
                Some(RunContext::There { token: token.as_deref().map(RunToken::read), trace })
            }
            _ => None,
        }
    }

    /// Returns the run context for the sub-agent.
    pub(crate) fn run_context(&self) -> RunContext {
        self.run_context.clone()
    }

    /// Waits until the task is to be cancelled. Returns the task. Cancel-safe. Never returns if the owner has
    /// ended its messages.
    pub(crate) async fn cancel_wanted(&self) -> String {
        let mut owner = self.owner.clone();
        let task =
            owner.wait_for(|owner| owner.cancel.is_some()).await.ok().and_then(|owner| owner.cancel.clone());
        match task {
            Some(task) => task,
            // The owner is gone: no cancel can arrive.
            None => std::future::pending().await,
        }
    }

    /// Appends a step of the response. Returns once it is in the log, or is lost. Bytes of a body that are not UTF-8
    /// are replaced, in the copy only; a character that was cut is appended before the end of the stream.
    pub(crate) async fn handle(&mut self, step: Step) {
        let piece = match step {
            Step::Wait => Piece::Wait,
            Step::Chunk(chunk) => {
                let text = self.text.push(&chunk);
                return self.say_text(text).await;
            }
            Step::Body { status, body } => {
                self.is_whole = true;
                Piece::Body { status, text: String::from_utf8_lossy(&body).into_owned() }
            }
            Step::Notice(text) => Piece::Note { text },
            Step::End => {
                self.flush().await;
                Piece::End
            }
            Step::Failure(failure) => {
                self.flush().await;
                Piece::failure(&failure)
            }
        };
        self.say(piece).await;
    }

    /// Appends bytes that were held back, with the incomplete character replaced.
    async fn flush(&mut self) {
        let rest = self.text.finish();
        self.say_text(rest).await;
    }

    /// Appends text of an event stream, unless it is empty.
    async fn say_text(&mut self, text: String) {
        if !text.is_empty() {
            self.say(Piece::Chunk { text }).await;
        }
    }

    /// Ends the side run. If the task may still work, waits for the owner and returns the task once it is to be
    /// cancelled.
    pub(crate) async fn retire(mut self) -> Option<String> {
        let task = if self.is_whole && !self.is_lost { self.last_wish().await } else { None };
        self.close(self.is_lost.then(log_too_slow)).await;
        task
    }

    /// Returns the task if the run is cancelled before it ends.
    async fn last_wish(&mut self) -> Option<String> {
        let mut owner = self.owner.clone();
        let last = async move {
            let changed = owner.wait_for(|owner| owner.cancel.is_some() || owner.is_over).await;
            changed.ok().and_then(|owner| owner.cancel.clone())
        };
        let mut last = std::pin::pin!(last);
        tokio::select! {
            biased;
            wish = &mut last => wish,
            // An owner that died sends nothing; a living one sends its last message about now.
            () = self.side.other_ended() => tokio::time::timeout(PATIENCE, last).await.ok()?,
        }
    }

    /// Appends a piece, within [`PATIENCE`]. A piece that the owner no longer reads, or the log does not take,
    /// is counted.
    async fn say(&mut self, piece: Piece) {
        if self.is_lost || self.owner.borrow().is_over {
            return self.metrics.lane_event_dropped();
        }
        let block = ContentBlock::custom(ByteString::from_static(PIECE), value(&piece));
        let appended = self.side.append(Update::new(block).into());
        match tokio::time::timeout(PATIENCE, appended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.lose(&error.to_string()),
            Err(_) => self.lose("it is too slow"),
        }
    }

    /// Gives the lane up. Logged once per lane, because `say` returns early afterwards.
    fn lose(&mut self, reason: &str) {
        self.is_lost = true;
        self.metrics.lane_event_dropped();
        tracing::warn!(
            reason,
            "the run log does not accept events in time: the lane of a sub-agent is closed"
        );
    }

    /// Ends the side run.
    async fn close(&mut self, failure: Option<RunFailure>) {
        let end = match failure {
            Some(failure) => SourceEvent::Failed(failure),
            None => SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        };
        // A log that is unavailable may recover; else the lease lapses.
        if let Err(error) = self.side.append(end).await {
            tracing::debug!(%error, "a side run is left to be ended by others");
        }
    }
}

/// Receives messages of the owner until the side run ends. Messages that cannot be read are skipped: a newer
/// version of the gateway may send others.
async fn listen(mut ear: SideEar, owner: watch::Sender<OwnerState>) {
    while let Some(messages) = ear.hear().await {
        for message in messages {
            let Control::Message(message) = message else { continue };
            let Ok(word) = serde_json::from_value::<Word>(message) else { continue };
            owner.send_modify(|owner| match word {
                Word::Granted { .. } | Word::Refused => owner.granted = Some(word),
                Word::Cancel { task } => owner.cancel = Some(task),
                Word::Over => owner.is_over = true,
            });
        }
        if owner.is_closed() {
            return;
        }
    }
    owner.send_modify(|owner| owner.is_over = true);
}
