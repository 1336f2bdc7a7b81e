//! The carrier's side: the answer to a call goes into a side run of the shared log, and the supervisor gets it then.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{ByteString, ContentBlock, RunFailure, RunOutcome, SourceEvent, Update};
use aqueduct_runlog::Control;
use aqueduct_runs::{SideEar, SideRun};
use bytes::Bytes;
use tokio::sync::watch;

use super::words::{Announcement, PIECE, Piece, TextPieces, Word, value};
use crate::service::Gateway;
use crate::tee::Trail;
use crate::tee::call::LaneCall;
use crate::tee::lane::{LANE_LOST, PATIENCE};
use crate::tee::relate::RemoteRun;
use crate::tee::token::RunToken;
use crate::telemetry::Metrics;

/// How long an owner may take to say whether there is a lane. Messages take milliseconds; an owner that died is not heard
/// of any more, and the supervisor waits meanwhile.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// What the owner has said.
#[derive(Debug, Clone, Default)]
struct Told {
    granted: Option<Word>,
    /// The task that is to be cancelled.
    cancel: Option<String>,
    /// The owner wants no more, or nothing more is heard of it.
    is_over: bool,
}

/// One call's lane at another gateway.
#[derive(Debug)]
pub(crate) struct RemoteLane {
    side: SideRun,
    trail: Trail,
    told: watch::Receiver<Told>,
    text: TextPieces,
    metrics: Arc<Metrics>,
    is_lost: bool,
    /// True if the answer was no stream, so that its task may work on.
    is_whole: bool,
}

impl RemoteLane {
    /// Asks the owner of the run for a lane; none if it has none to give.
    pub(crate) async fn begin(gateway: &Arc<Gateway>, remote: &RemoteRun, call: LaneCall) -> Option<Self> {
        let side = SideRun::open(gateway.runs(), &remote.run).await;
        let side = side.inspect_err(|error| tracing::warn!(%error, "a sub-agent cannot be shown")).ok()?;
        let (sender, told) = watch::channel(Told::default());
        tokio::spawn(listen(side.ear(), sender));
        let metrics = Arc::clone(gateway.metrics());
        let mut lane = Self {
            side,
            trail: Trail::None,
            told,
            text: TextPieces::default(),
            metrics,
            is_lost: false,
            is_whole: false,
        };
        let announcement = Announcement { side: lane.side.id().to_string(), clue: remote.clue.clone(), call };
        let sent = gateway.log().control(&remote.run, Control::Message(value(&announcement))).await;
        let granted = match sent {
            Ok(()) => lane.granted().await,
            Err(error) => {
                tracing::debug!(run = remote.run.as_str(), %error, "its owner cannot be asked for a lane");
                None
            }
        };
        if let Some(trail) = granted {
            lane.trail = trail;
            return Some(lane);
        }
        lane.close(None).await;
        None
    }

    async fn granted(&mut self) -> Option<Trail> {
        let heard = self.told.wait_for(|told| told.granted.is_some() || told.is_over);
        let word = if let Ok(told) = tokio::time::timeout(ANSWER_WAIT, heard).await {
            told.ok().and_then(|told| told.granted.clone())
        } else {
            tracing::warn!("the owner of a run does not answer: a sub-agent is not shown");
            None
        };
        match word {
            Some(Word::Granted { token, trace }) => {
                Some(Trail::There { token: token.as_deref().map(RunToken::read), trace })
            }
            _ => None,
        }
    }

    /// What the sub-agent is handed.
    pub(crate) fn trail(&self) -> Trail {
        self.trail.clone()
    }

    /// Waits until the task is to be cancelled, and names it.
    pub(crate) async fn cancel_wanted(&self) -> String {
        let mut told = self.told.clone();
        let task =
            told.wait_for(|told| told.cancel.is_some()).await.ok().and_then(|told| told.cancel.clone());
        match task {
            Some(task) => task,
            // Nobody is left who could want it.
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn handle_wait(&mut self) {
        self.say(Piece::Wait).await;
    }

    pub(crate) async fn handle_chunk(&mut self, chunk: &Bytes) {
        let text = self.text.push(chunk);
        if !text.is_empty() {
            self.say(Piece::Chunk { text }).await;
        }
    }

    pub(crate) async fn handle_body(&mut self, status: u16, body: &Bytes) {
        self.is_whole = true;
        self.say(Piece::Body { status, text: String::from_utf8_lossy(body).into_owned() }).await;
    }

    pub(crate) async fn handle_end(&mut self) {
        self.flush().await;
        self.say(Piece::End).await;
    }

    pub(crate) async fn handle_failure(&mut self, failure: &RunFailure) {
        self.flush().await;
        self.say(Piece::failure(failure)).await;
    }

    pub(crate) async fn handle_note(&mut self, text: &str) {
        self.say(Piece::Note { text: text.to_owned() }).await;
    }

    async fn flush(&mut self) {
        let text = self.text.finish();
        if !text.is_empty() {
            self.say(Piece::Chunk { text }).await;
        }
    }

    /// Ends the side run; the owner is waited for if it may want the task cancelled, and the task is given then.
    pub(crate) async fn retire(mut self) -> Option<String> {
        let task = if self.is_whole && !self.is_lost { self.last_wish().await } else { None };
        let failure = self.is_lost.then(|| {
            let message =
                "the run's log was too slow to show any more of this agent's work; the agent goes on";
            RunFailure::new(LANE_LOST, message)
        });
        self.close(failure).await;
        task
    }

    /// The task, if the run is stopped before it ends.
    async fn last_wish(&mut self) -> Option<String> {
        let mut told = self.told.clone();
        let last = async move {
            let said = told.wait_for(|told| told.cancel.is_some() || told.is_over).await;
            said.ok().and_then(|told| told.cancel.clone())
        };
        let mut last = std::pin::pin!(last);
        tokio::select! {
            wish = &mut last => wish,
            // An owner that died says nothing; one that lives says it about now.
            () = self.side.other_ended() => tokio::time::timeout(PATIENCE, last).await.ok()?,
        }
    }

    async fn say(&mut self, piece: Piece) {
        if self.is_lost || self.told.borrow().is_over {
            return self.metrics.lane_event_dropped();
        }
        let block = ContentBlock::custom(ByteString::from_static(PIECE), value(&piece));
        let said = self.side.append(Update::new(block).into());
        match tokio::time::timeout(PATIENCE, said).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.lose(&error.to_string()),
            Err(_) => self.lose("it is too slow"),
        }
    }

    fn lose(&mut self, reason: &str) {
        self.is_lost = true;
        self.metrics.lane_event_dropped();
        tracing::warn!(reason, "the run log takes no events: a sub-agent is not shown any further");
    }

    async fn close(&mut self, failure: Option<RunFailure>) {
        let end = match failure {
            Some(failure) => SourceEvent::Failed(failure),
            None => SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
        };
        // A log that cannot be used now may be usable in a while; if not, the lease lapses.
        if let Err(error) = self.side.append(end).await {
            tracing::debug!(%error, "a side run is left to be ended by others");
        }
    }
}

/// Hears what the owner says, to the end of the side run.
async fn listen(mut ear: SideEar, told: watch::Sender<Told>) {
    while let Some(messages) = ear.hear().await {
        for message in messages {
            let Control::Message(message) = message else { continue };
            let Ok(word) = serde_json::from_value::<Word>(message) else { continue };
            told.send_modify(|told| match word {
                Word::Granted { .. } | Word::Refused => told.granted = Some(word),
                Word::Cancel { task } => told.cancel = Some(task),
                Word::Over => told.is_over = true,
            });
        }
        if told.is_closed() {
            return;
        }
    }
    told.send_modify(|told| told.is_over = true);
}
