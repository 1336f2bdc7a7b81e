//! A call of which a lane gets a copy. It is a task of its own, so that it can close its lane when the caller goes.

use std::time::Duration;

use aqueduct::remote::{describe_refusal, failure_of, is_json};
use aqueduct_core::RunFailure;
use aqueduct_transport_http::ClientError;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};

use super::answer::{Answer, AnswerBody, Chunks, encoding};
use super::callee::Callee;
use super::raise::{Question, Raised};
use crate::tee::Tapped;
use crate::tee::lane::CALLER_GONE;

/// Chunks between agent and caller. One in flight keeps both busy; more would only hide that the caller is slow.
pub(super) const CHUNKS: usize = 1;
/// A call that is not answered for so long is shown before there is an answer: a person looks twice within a second.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// The agent compressed its answer, although it was asked not to.
const ANSWER_COMPRESSED: &str = "answer_compressed";

/// Carries one call.
pub(super) struct Relay {
    pub(super) callee: Callee,
    pub(super) lane: Tapped,
    /// Set if what the agent asks is for the user of the run.
    pub(super) question: Option<Question>,
    /// How the answer is compressed, so that nothing of it can be shown.
    compressed: Option<String>,
}

type Respond = oneshot::Sender<Result<Answer, RunFailure>>;

impl Relay {
    pub(super) fn new(callee: Callee, lane: Tapped) -> Self {
        Self { callee, lane, question: None, compressed: None }
    }

    /// Raises what the agent asks to the user of the run, where the lane wants that.
    pub(super) fn raising(mut self, question: impl FnOnce() -> Question) -> Self {
        self.question = self.lane.raises().then(question);
        self
    }

    /// Sends the request, and relays the answer while the caller or the lane reads it.
    pub(super) async fn answer(self, request: http::Request<Bytes>) -> Result<Answer, RunFailure> {
        let (sender, answer) = oneshot::channel();
        tokio::spawn(self.run(request, sender));
        match answer.await {
            Ok(answered) => answered,
            // The relay always answers; without it, its task was ended with the process.
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
        // The caller may look at its task as soon as it knows of it.
        if let Some((to, answer)) = whole {
            to.send(answer).ok();
        }
        if let Some(task) = rest.await {
            self.callee.cancel(task).await;
        }
    }

    /// The answer; none if the caller went away before there was one.
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
                answer = &mut asked => return Some(answer),
                () = to.closed() => return None,
                () = &mut shown, if !is_shown => {
                    is_shown = true;
                    self.lane.handle_wait().await;
                }
            }
        }
    }

    /// Carries the answer, if it is a stream; else gives it back.
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

    /// Carries a stream to the caller, after its copy went to the lane.
    async fn carry(&mut self, mut stream: Chunks, to: mpsc::Sender<Result<Bytes, ClientError>>) {
        if self.question.is_some() && self.compressed.is_none() {
            return self.carry_asking(stream, to).await;
        }
        let mut is_told = false;
        loop {
            tokio::select! {
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
                        // A caller that has gone is seen above.
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
        error: ClientError,
        to: &mpsc::Sender<Result<Bytes, ClientError>>,
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

/// The end of a lane whose caller went away.
pub(super) fn caller_gone() -> RunFailure {
    let message = "the agent that called this one went away before it had the whole answer";
    RunFailure::new(CALLER_GONE, message)
}

fn relayed(chunks: mpsc::Receiver<Result<Bytes, ClientError>>) -> Chunks {
    futures_util::stream::unfold(chunks, async |mut chunks| Some((chunks.recv().await?, chunks))).boxed()
}
