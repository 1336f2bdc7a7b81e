//! Relays a call and copies the response to a lane. The relay is a task of its own, so that it can close its lane when
//! the caller disconnects.

use std::time::Duration;

use aqueduct::remote::{describe_refusal, failure_of, is_json};
use aqueduct_core::RunFailure;
use aqueduct_transport_http::Error as HttpError;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};

use super::answer::{Answer, AnswerBody, Chunks, encoding};
use super::callee::Callee;
use super::raise::{Question, Raised};
use crate::tee::Tapped;
use crate::tee::lane::CALLER_GONE;

/// Chunks in flight between agent and caller. One keeps both busy; more would only hide that the caller is slow.
pub(super) const CHUNKS: usize = 1;
/// A call without a response for this long is shown before there is one: a person notices a pause of a second.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// The code for an agent that compressed its response although the request forbids it.
const ANSWER_COMPRESSED: &str = "answer_compressed";

/// Relays one call.
pub(super) struct Relay {
    pub(super) callee: Callee,
    pub(super) lane: Tapped,
    /// Set if interrupts of the agent are raised to the user of the run.
    pub(super) question: Option<Question>,
    /// The content encoding of the response, which prevents showing it.
    compressed: Option<String>,
}

type Respond = oneshot::Sender<Result<Answer, RunFailure>>;

impl Relay {
    pub(super) fn new(callee: Callee, lane: Tapped) -> Self {
        Self { callee, lane, question: None, compressed: None }
    }

    /// Raises interrupts of the agent to the user of the run, if the lane is configured so.
    pub(super) fn raising(mut self, question: impl FnOnce() -> Question) -> Self {
        self.question = self.lane.raises().then(question);
        self
    }

    /// Sends the request, and relays the response while the caller or the lane reads it.
    pub(super) async fn answer(self, request: http::Request<Bytes>) -> Result<Answer, RunFailure> {
        let (sender, answer) = oneshot::channel();
        tokio::spawn(self.run(request, sender));
        match answer.await {
            Ok(answered) => answered,
            // The relay always responds, unless the process ended its task.
            Err(_) => Err(RunFailure::new(RunFailure::UPSTREAM_ENDED, "the gateway is stopping")),
        }
    }

    async fn run(mut self, request: http::Request<Bytes>, mut to: Respond) {
        let whole = match self.ask(request, &mut to).await {
            None => {
                self.caller_is_gone().await;
                None
            }
            Some(Err(failure)) => {
                self.lane.handle_failure(failure.clone()).await;
                Some((to, Err(failure)))
            }
            Some(Ok(answer)) => self.hand_over(answer, to).await,
        };
        let rest = self.lane.retire();
        // The caller may read its task as soon as it knows the id.
        if let Some((to, answer)) = whole {
            to.send(answer).ok();
        }
        if let Some(task) = rest.await {
            self.callee.cancel(task).await;
        }
    }

    /// Returns the response, or `None` if the caller disconnected before.
    async fn ask(
        &mut self,
        request: http::Request<Bytes>,
        to: &mut Respond,
    ) -> Option<Result<Answer, RunFailure>> {
        let callee = self.callee.clone();
        let mut asked = std::pin::pin!(callee.ask(request));
        let mut shown = std::pin::pin!(tokio::time::sleep(SHOWN_AFTER));
        let mut is_shown = false;
        loop {
            tokio::select! {
                biased;
                answer = &mut asked => return Some(answer),
                () = to.closed() => return None,
                () = &mut shown, if !is_shown => {
                    is_shown = true;
                    self.lane.handle_wait().await;
                }
            }
        }
    }

    /// Relays the response if it is a stream; else returns it.
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
                    let (sender, chunks) = mpsc::channel(CHUNKS);
                    to.send(Ok(Answer::from_parts(head, AnswerBody::Stream(relayed(chunks))))).ok();
                    self.carry(stream, sender).await;
                    return None;
                }
                AnswerBody::Whole(bytes) => bytes,
            };
            self.take_whole(&head, &bytes).await;
            let whole = Answer::from_parts(head, AnswerBody::Whole(bytes));
            if !self.lane.asks() {
                return Some((to, Ok(whole)));
            }
            answer = match self.raise_whole(&mut to).await {
                Raised::Replied(answer) => answer,
                Raised::Unanswered => return Some((to, Ok(whole))),
                Raised::Failed(failure) => {
                    self.lane.handle_failure(failure.clone()).await;
                    return Some((to, Err(failure)));
                }
                Raised::Gone => {
                    self.caller_is_gone().await;
                    return None;
                }
            };
        }
    }

    async fn raise_whole(&mut self, to: &mut Respond) -> Raised {
        tokio::select! {
            biased;
            () = to.closed() => Raised::Gone,
            raised = self.raise(|| Box::pin(std::future::pending())) => raised,
        }
    }

    async fn note_compressed(&mut self, coding: String) {
        tracing::warn!(
            coding,
            "a sub-agent compresses its answers although it was asked not to: it is not shown"
        );
        let note = format!("this agent compresses its answer ({coding}), so nothing of it can be shown here");
        self.lane.handle_note(&note).await;
        self.compressed = Some(coding);
    }

    async fn take_whole(&mut self, head: &http::response::Parts, bytes: &Bytes) {
        if self.compressed.is_some() {
            return self.end().await;
        }
        let response = http::Response::from_parts(head.clone(), bytes.clone());
        if is_json(&response) || !head.status.is_success() {
            return self.lane.handle_body(head.status.as_u16(), bytes).await;
        }
        let words = describe_refusal(&response);
        self.lane.handle_failure(RunFailure::new(RunFailure::UPSTREAM_INVALID, words)).await;
    }

    /// Forwards a stream to the caller, each chunk after its copy was sent to the lane.
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
                    self.cancel_task(task);
                }
                chunk = stream.next() => match chunk {
                    Some(Ok(bytes)) => {
                        if self.compressed.is_none() {
                            self.lane.handle_chunk(bytes.clone()).await;
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

    pub(super) fn cancel_task(&self, task: String) {
        let callee = self.callee.clone();
        tokio::spawn(async move { callee.cancel(task).await });
    }

    pub(super) async fn fail_stream(
        &mut self,
        error: HttpError,
        to: &mpsc::Sender<Result<Bytes, HttpError>>,
    ) {
        self.lane.handle_failure(failure_of(&error)).await;
        to.send(Err(error)).await.ok();
    }

    pub(super) async fn end(&mut self) {
        match &self.compressed {
            None => self.lane.handle_end().await,
            Some(coding) => {
                let message = format!("the answer is compressed ({coding}): whoever called has it");
                self.lane.handle_failure(RunFailure::new(ANSWER_COMPRESSED, message)).await;
            }
        }
    }

    pub(super) async fn caller_is_gone(&mut self) {
        self.lane.handle_failure(caller_gone()).await;
    }
}

/// Returns the failure of a lane whose caller disconnected.
pub(super) fn caller_gone() -> RunFailure {
    let message = "the agent that called this one went away before it had the whole answer";
    RunFailure::new(CALLER_GONE, message)
}

fn relayed(chunks: mpsc::Receiver<Result<Bytes, HttpError>>) -> Chunks {
    futures_util::stream::unfold(chunks, async |mut chunks| Some((chunks.recv().await?, chunks))).boxed()
}
