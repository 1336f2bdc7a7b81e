//! Relays a call and copies the response to a lane.
//!
//! ```text
//! Relay::answer ── spawns ──► run ── ask ──► callee
//!       │                      │ no response within SHOWN_AFTER: the lane shows that the call waits
//!       │                      ├ failure ───────► lane, then caller
//!       │                      ├ whole body ────► lane, then caller; an interrupt may be raised first (`raise`)
//!       │                      ├ stream ────────► each chunk: lane, then caller
//!       │                      └ caller gone ───► lane closes with `caller_gone`; the connection to the callee closes
//!       ▼                      ▼
//!    response            retire the lane ──► a task that still works is cancelled together with the run
//! ```
//!
//! The relay is a spawned task, not part of the request's future: the server drops that future when the caller
//! disconnects, and the relay still has to close its lane.
//!
//! Invariants: the lane receives every chunk before the caller does, so that the run contains what the caller acts
//! upon; the caller receives the callee's bytes unchanged, unless an interrupt was raised; the lane is retired on every
//! path.

use std::time::Duration;

use aqueduct::remote::{describe_refusal, failure_of, is_json};
use aqueduct_core::RunFailure;
use aqueduct_transport_http::Error as HttpError;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::{mpsc, oneshot};

use super::answer::{Answer, AnswerBody, Chunks, encoding};
use super::callee::Callee;
use super::raise::{Question, Raised};
use crate::tee::lane::CALLER_GONE;
use crate::tee::{Step, Tapped};

/// Chunks in flight between agent and caller. One keeps both busy; more would only hide that the caller is slow.
pub(super) const CHUNKS: usize = 1;
/// A call without a response for this long is shown before there is one: a person notices a pause of a second.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// The code for an agent that compressed its response although the request forbids it.
const ANSWER_COMPRESSED: &str = "answer_compressed";

/// One call between a caller and a callee, and the lane that shows the call in the caller's run.
pub(super) struct Relay {
    /// Cloned for cancels, which are sent while the response is still being read.
    pub(super) callee: Callee,
    pub(super) lane: Tapped,
    /// Set if interrupts of the agent are raised to the user of the run.
    pub(super) question: Option<Question>,
    /// The content encoding of the response, which prevents showing it.
    compressed: Option<String>,
}

/// Sends the response head to the request's future. `closed` resolves when the caller disconnects before the response.
type Respond = oneshot::Sender<Result<Answer, RunFailure>>;

impl Relay {
    /// Returns a relay that forwards interrupts of the agent to the caller, as every other event.
    pub(super) fn new(callee: Callee, lane: Tapped) -> Self {
        Self { callee, lane, question: None, compressed: None }
    }

    /// Raises interrupts of the agent to the user of the run, if the lane is configured so.
    ///
    /// `question` is called only in that case, because it copies the request.
    pub(super) fn raising(mut self, question: impl FnOnce() -> Question) -> Self {
        self.question = self.lane.raises().then(question);
        self
    }

    /// Sends the request, and relays the response while the caller or the lane reads it.
    ///
    /// Dropping the future disconnects the caller: the relay then closes the lane and the connection to the callee.
    ///
    /// # Errors
    ///
    /// Returns the failure of the callee, or `UPSTREAM_ENDED` if the process stops before there is a response.
    pub(super) async fn answer(self, request: http::Request<Bytes>) -> Result<Answer, RunFailure> {
        let (sender, answer) = oneshot::channel();
        tokio::spawn(self.run(request, sender));
        match answer.await {
            Ok(answered) => answered,
            // The relay always responds, unless the process ended its task.
            Err(_) => Err(RunFailure::new(RunFailure::UPSTREAM_ENDED, "the gateway is stopping")),
        }
    }

    /// Runs the relay until the response is complete and the lane is retired. A response that is not a stream is sent
    /// to the caller last, after the lane has stored its task.
    async fn run(mut self, request: http::Request<Bytes>, mut to: Respond) {
        let callee = self.callee.clone();
        let whole = match Box::pin(answered(&mut self.lane, callee.ask(request), &mut to)).await {
            None => {
                self.caller_is_gone().await;
                None
            }
            Some(Err(failure)) => {
                self.lane.handle(Step::Failure(failure.clone())).await;
                Some((to, Err(failure)))
            }
            Some(Ok(answer)) => self.hand_over(answer, to).await,
        };
        finish(&self.callee, self.lane, whole).await;
    }

    /// Relays the response if it is a stream; else returns it together with the sender for it.
    ///
    /// Loops once per raised interrupt: the callee's response to a reply takes the place of the response with the
    /// interrupt, and may itself be a stream or another interrupt.
    async fn hand_over(
        &mut self,
        answer: Answer,
        mut to: Respond,
    ) -> Option<(Respond, Result<Answer, RunFailure>)> {
        let mut answer = answer;
        loop {
            let (head, body) = answer.into_parts();
            if let Some(coding) = encoding(&head.headers) {
                self.note_compressed(coding.to_owned()).await;
            }
            let bytes = match body {
                AnswerBody::Stream(stream) => {
                    // The head is sent now, so that the caller can read the chunks while they arrive.
                    let (sender, chunks) = mpsc::channel(CHUNKS);
                    to.send(Ok(Answer::from_parts(head, AnswerBody::Stream(relayed(chunks))))).ok();
                    self.carry(stream, sender).await;
                    return None;
                }
                AnswerBody::Whole(bytes) => bytes,
            };
            self.take_whole(&head, &bytes).await;
            let whole = Answer::from_parts(head, AnswerBody::Whole(bytes));
            if !self.lane.waits_for_reply() {
                return Some((to, Ok(whole)));
            }
            answer = match self.raise_whole(&mut to).await {
                Raised::Replied(answer) => answer,
                Raised::Unanswered => return Some((to, Ok(whole))),
                Raised::Failed(failure) => {
                    self.lane.handle(Step::Failure(failure.clone())).await;
                    return Some((to, Err(failure)));
                }
                Raised::Gone => {
                    self.caller_is_gone().await;
                    return None;
                }
            };
        }
    }

    /// Raises an interrupt of a response that is not a stream. Nothing can be sent to the caller meanwhile: the head of
    /// its response is not decided yet. The caller's own timeout applies.
    async fn raise_whole(&mut self, to: &mut Respond) -> Raised {
        tokio::select! {
            biased;
            () = to.closed() => Raised::Gone,
            raised = self.raise(|| Box::pin(std::future::pending())) => raised,
        }
    }

    /// Notes that the response cannot be shown. The caller still receives the compressed bytes, which only the caller
    /// can decode.
    async fn note_compressed(&mut self, coding: String) {
        tracing::warn!(
            coding,
            "a sub-agent compresses its answers although it was asked not to: it is not shown"
        );
        let note = format!("this agent compresses its answer ({coding}), so nothing of it can be shown here");
        self.lane.handle(Step::Notice(note)).await;
        self.compressed = Some(coding);
    }

    /// Copies a complete response to the lane.
    ///
    /// A response with an error status is copied whatever its media type is: the lane reports the status. A successful
    /// response that is not JSON violates the protocol and fails the lane; the caller receives it unchanged.
    async fn take_whole(&mut self, head: &http::response::Parts, bytes: &Bytes) {
        if self.compressed.is_some() {
            return self.end().await;
        }
        let response = http::Response::from_parts(head.clone(), bytes.clone());
        if is_json(&response) || !head.status.is_success() {
            return self.lane.handle(Step::Body { status: head.status.as_u16(), body: bytes.clone() }).await;
        }
        let words = describe_refusal(&response);
        self.lane.handle(Step::Failure(RunFailure::new(RunFailure::UPSTREAM_INVALID, words))).await;
    }

    /// Forwards a stream to the caller, each chunk after its copy was sent to the lane.
    ///
    /// A cancelled run cancels the task at the callee once; the stream continues until the callee ends it, so that the
    /// caller receives the final state of its task.
    async fn carry(&mut self, mut stream: Chunks, to: mpsc::Sender<Result<Bytes, HttpError>>) {
        if self.question.is_some() && self.compressed.is_none() {
            return self.carry_asking(stream, to).await;
        }
        let mut is_told = false;
        loop {
            tokio::select! {
                biased;
                () = to.closed() => return self.caller_is_gone().await,
                task = self.lane.cancel_wanted(), if !is_told => {
                    is_told = true;
                    self.callee.cancel_later(task);
                }
                chunk = stream.next() => match chunk {
                    Some(Ok(bytes)) => {
                        if self.compressed.is_none() {
                            self.lane.handle(Step::Chunk(bytes.clone())).await;
                        }
                        // A disconnected caller is detected above.
                        to.send(Ok(bytes)).await.ok();
                    }
                    Some(Err(error)) => return self.fail_stream(error, &to).await,
                    None => return self.end().await,
                },
            }
        }
    }

    /// Ends lane and caller's stream with the error of a cut connection.
    pub(super) async fn fail_stream(
        &mut self,
        error: HttpError,
        to: &mpsc::Sender<Result<Bytes, HttpError>>,
    ) {
        self.lane.handle(Step::Failure(failure_of(&error))).await;
        to.send(Err(error)).await.ok();
    }

    /// Ends the lane after a complete response. The lane of a compressed response fails, because it has no content that
    /// could be a result.
    pub(super) async fn end(&mut self) {
        match &self.compressed {
            None => self.lane.handle(Step::End).await,
            Some(coding) => {
                let message = format!("the answer is compressed ({coding}): whoever called has it");
                self.lane.handle(Step::Failure(RunFailure::new(ANSWER_COMPRESSED, message))).await;
            }
        }
    }

    /// Ends the lane of a caller that disconnected. Nothing is cancelled at the callee: the caller may come back to its
    /// task.
    pub(super) async fn caller_is_gone(&mut self) {
        self.lane.handle(Step::Failure(caller_gone())).await;
    }
}

/// Waits for the response to a call. Returns `None` if the caller disconnected before. The lane shows the pending call
/// after [`SHOWN_AFTER`].
pub(super) async fn answered<T>(
    lane: &mut Tapped,
    answering: impl Future<Output = T>,
    to: &mut oneshot::Sender<T>,
) -> Option<T> {
    let mut answering = std::pin::pin!(answering);
    let mut shown = std::pin::pin!(tokio::time::sleep(SHOWN_AFTER));
    let mut is_shown = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut answering => return Some(answer),
            () = to.closed() => return None,
            () = &mut shown, if !is_shown => {
                is_shown = true;
                lane.handle(Step::Wait).await;
            }
        }
    }
}

/// Retires the lane, and sends a response that is not a stream to the caller.
///
/// The lane is retired before the caller has the id of its task: the caller may read the task at once, and that call
/// has to find the lane's state. If the task works without a stream, waits for the end of the run, and cancels the task
/// together with it.
pub(super) async fn finish<T>(callee: &Callee, lane: Tapped, whole: Option<(oneshot::Sender<T>, T)>) {
    let rest = lane.retire();
    if let Some((to, answer)) = whole {
        to.send(answer).ok();
    }
    if let Some(task) = rest.await {
        callee.cancel(task).await;
    }
}

/// Returns the failure of a lane whose caller disconnected.
pub(super) fn caller_gone() -> RunFailure {
    let message = "the agent that called this one went away before it had the whole answer";
    RunFailure::new(CALLER_GONE, message)
}

/// Returns the caller's end of the relay. Dropping it closes the channel, by which the relay detects the disconnect.
pub(super) fn relayed<T: Send + 'static>(chunks: mpsc::Receiver<T>) -> BoxStream<'static, T> {
    futures_util::stream::unfold(chunks, async |mut chunks| Some((chunks.recv().await?, chunks))).boxed()
}
