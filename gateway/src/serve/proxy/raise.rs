//! Calls of agents whose interrupts are answered by the user of the run: the response is held at the interrupt, and
//! continues with the reply.
//!
//! ```text
//! agent ── working, input required ─┐                     ┌─ working, completed ── agent
//!                                   ▼                     │
//! caller ◄── working ── (held, kept alive) ── the user's reply, as the caller's own call ── working, completed ──► caller
//! ```
//!
//! An interrupt without a reply is forwarded to the caller unchanged. Invariant: a caller whose stream is held receives
//! comments, so that neither the caller nor a proxy times out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct::remote::is_json;
use aqueduct_adapter_a2a::relay::{continue_event, reply_body};
use aqueduct_adapter_a2a::wire::Dialect;
use aqueduct_core::{InterruptReply, RunFailure};
use aqueduct_transport_http::Error as HttpError;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

use super::answer::{Answer, AnswerBody, Chunks, encoding};
use super::events::{by_event, cut, data_of, event};
use super::relay::Relay;
use crate::tee::Step;

/// The interval of comments on a held stream. Shorter than default read timeouts of HTTP clients: httpx has five
/// seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// The bytes of one comment: server-sent events ignore it.
const COMMENT: &[u8] = b":\n\n";

/// Numbers the messages of replies, for ids that are unique within the process. The id also contains the task.
static NEXT_REPLY: AtomicU64 = AtomicU64::new(1);

/// The state that is needed to continue a call with a reply: the caller's request, in which the reply replaces the
/// message.
pub(super) struct Question {
    request: http::Request<Bytes>,
    dialect: Dialect,
    /// The largest event that is decoded, in bytes.
    frame: usize,
}

/// The result of raising an interrupt.
pub(super) enum Raised {
    /// The agent received the reply and responded with this.
    Replied(Answer),
    /// The reply could not be sent to the agent.
    Failed(RunFailure),
    /// The user did not reply: the caller receives the interrupt.
    Unanswered,
    /// The caller has disconnected.
    Gone,
}

impl Question {
    /// `request` is the request as it was sent to the callee: with the callee's ids and headers.
    pub(super) fn new(request: http::Request<Bytes>, dialect: Dialect, frame: usize) -> Self {
        Self { request, dialect, frame }
    }
}

impl Relay {
    /// Raises the interrupt of the agent to the run, and sends the reply to the agent.
    ///
    /// `idle` runs repeatedly while the user has not replied, and returns `true` if the caller has disconnected. There
    /// is no timeout here: the run limits the wait by the reply timeout of its agent.
    pub(super) async fn raise(&mut self, mut idle: impl FnMut() -> BoxFuture<'static, bool>) -> Raised {
        let replies = {
            let mut raised = std::pin::pin!(self.lane.raise());
            loop {
                tokio::select! {
                    biased;
                    replies = &mut raised => break replies,
                    is_gone = idle() => if is_gone { return Raised::Gone },
                }
            }
        };
        match replies.and_then(|replies| self.reply_request(&replies)) {
            None => Raised::Unanswered,
            Some(request) => match self.callee.clone().ask(request).await {
                Ok(answer) => Raised::Replied(answer),
                Err(failure) => Raised::Failed(failure),
            },
        }
    }

    /// Returns the caller's request with the reply as its message, and lets the lane continue with it.
    ///
    /// Returns `None` if the call contains no message, or if the agent has named no task yet; the caller then receives
    /// the interrupt.
    fn reply_request(&mut self, replies: &[InterruptReply]) -> Option<http::Request<Bytes>> {
        let (question, task) = (self.question.as_ref()?, self.lane.task()?);
        let number = NEXT_REPLY.fetch_add(1, Ordering::Relaxed);
        let message = format!("{}-reply-{number}", task.task_id);
        let body = std::str::from_utf8(question.request.body()).ok()?;
        let body = reply_body(body, question.dialect, (&task, &message), replies)?;
        let mut request = question.request.clone();
        request.headers_mut().remove(http::header::CONTENT_LENGTH);
        *request.body_mut() = Bytes::from(body);
        self.lane.continue_with_reply(&message);
        Some(request)
    }

    /// Forwards a stream whose interrupts are raised, event by event.
    ///
    /// An event goes to the lane first, which decides: an interrupt is raised and not forwarded; an event after which
    /// only the next one shows whether the agent waits for a reply is not forwarded; every other event is forwarded. After
    /// a reply the loop continues with the stream of the agent's response to it.
    pub(super) async fn carry_asking(&mut self, stream: Chunks, to: mpsc::Sender<Result<Bytes, HttpError>>) {
        let frame = self.question.as_ref().map_or(0, |question| question.frame);
        let (mut stream, mut is_told, mut is_reply) = (by_event(stream, frame), false, false);
        loop {
            let next = tokio::select! {
                biased;
                () = to.closed() => return self.caller_is_gone().await,
                task = self.lane.cancel_wanted(), if !is_told => {
                    is_told = true;
                    self.callee.cancel_later(task);
                    continue;
                }
                next = stream.next() => next,
            };
            let piece = match next {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => return self.fail_stream(error, &to).await,
                None => Bytes::new(),
            };
            // The end of the stream is an empty piece, so that an interrupt which only the end reveals is raised too.
            let is_over = piece.is_empty();
            if is_over {
                self.end().await;
            } else {
                self.lane.handle(Step::Chunk(piece.clone())).await;
            }
            // An unanswered interrupt falls through: its event is forwarded below.
            if self.lane.waits_for_reply() {
                match self.raise(|| idle(&to)).await {
                    Raised::Replied(answer) => {
                        (stream, is_reply) = (by_event(chunks_of(answer), frame), true);
                        continue;
                    }
                    Raised::Failed(failure) => {
                        self.lane.handle(Step::Failure(failure.clone())).await;
                        to.send(Err(cut(failure.message.to_string()))).await.ok();
                        return;
                    }
                    Raised::Gone => return self.caller_is_gone().await,
                    Raised::Unanswered => {}
                }
            } else if self.lane.restates() {
                // The next events show whether the agent waits for a reply again.
                continue;
            }
            for piece in as_rest(piece, is_reply) {
                to.send(Ok(piece)).await.ok();
            }
            if is_over {
                return;
            }
        }
    }
}

/// Waits for [`KEEP_ALIVE`], then sends a comment to the caller. Returns `true` if the caller has disconnected.
fn idle(to: &mpsc::Sender<Result<Bytes, HttpError>>) -> BoxFuture<'static, bool> {
    let to = to.clone();
    Box::pin(async move {
        tokio::select! {
            biased;
            () = to.closed() => true,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                // A caller with a full queue needs no comment.
                to.try_send(Ok(Bytes::from_static(COMMENT))).ok();
                false
            }
        }
    })
}

/// Returns a response as a stream of events. A compressed one cannot be appended to the caller's stream.
///
/// A refusal is an error, because the caller's stream has the status of the first response. A JSON-RPC response is an
/// event whatever its status is: its body contains the error.
fn chunks_of(answer: Answer) -> Chunks {
    let (head, body) = answer.into_parts();
    if let Some(coding) = encoding(&head.headers) {
        let error = cut(format!("the agent compresses its answer to the reply ({coding})"));
        return futures_util::stream::iter([Err(error)]).boxed();
    }
    let bytes = match body {
        AnswerBody::Stream(chunks) if head.status.is_success() => return chunks,
        AnswerBody::Stream(_) => Bytes::new(),
        AnswerBody::Whole(bytes) => bytes,
    };
    let response = http::Response::from_parts(head, bytes);
    let is_result = response.status().is_success() && is_json(&response);
    let piece = if is_result || is_rpc(response.body()) {
        Ok(event(&String::from_utf8_lossy(response.body())))
    } else {
        Err(HttpError::NotAStream(Box::new(response)))
    };
    futures_util::stream::iter([piece]).boxed()
}

/// Returns `true` for a JSON-RPC response.
fn is_rpc(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|value| value.get("jsonrpc").is_some())
}

/// Returns a piece for the caller. The pieces of a response to a reply continue the stream that the caller already
/// reads.
fn as_rest(piece: Bytes, is_reply: bool) -> Vec<Bytes> {
    if piece.is_empty() {
        return Vec::new();
    }
    let Some(data) = is_reply.then(|| data_of(&piece)).flatten() else { return vec![piece] };
    match continue_event(&data).as_slice() {
        [same] if *same == data => vec![piece],
        changed => changed.iter().map(|data| event(data)).collect(),
    }
}
