//! Pumps one publisher against its [`Ingest`]: payloads in, acknowledgements and replies out.
//!
//! ```text
//!   open ──► Opened ──► payload… ──accept──► Acknowledged (one for all that were ready)
//!                        │  human ──reply──► Reply
//!                        ├─ finish ──► Finished, OK
//!                        └─ end without finish ──► ABORTED: the service sees a cut
//! ```
//!
//! Back-pressure: the next payload is read only when the one before was accepted and there is room for the answer, so
//! what a publisher sends beyond waits in HTTP/2's window and then at the publisher.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{Ingest, ServiceError};
use futures_core::Stream;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use crate::convert::{reply_to_proto, to_bytes};
use crate::counters::Open;
use crate::driver::Shared;
use crate::proto;
use crate::stall::Stallable;
use proto::publish_request::Request;
use proto::publish_response::Response;

/// One publisher.
struct Publishing {
    ingest: Box<dyn Ingest>,
    requests: Streaming<proto::PublishRequest>,
    deadline: Option<Instant>,
    shared: Arc<Shared>,
    state: State,
    _open: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// `Opened` is to be sent.
    Fresh,
    Feeding,
    /// `finish` came behind payloads whose acknowledgement goes first.
    Finishing,
    Done,
}

/// The answers to a publisher.
pub(crate) fn answers(
    ingest: Box<dyn Ingest>,
    requests: Streaming<proto::PublishRequest>,
    deadline: Option<Instant>,
    shared: Arc<Shared>,
) -> Answers<impl Stream<Item = Result<proto::PublishResponse, Status>>> {
    let also = Arc::clone(&shared);
    let open = shared.counters.open_publisher();
    let publishing = Publishing { ingest, requests, deadline, shared, state: State::Fresh, _open: open };
    let stream = unfold(publishing, |mut publishing| async move {
        let answer = publishing.next().await?;
        if answer.is_err() {
            publishing.state = State::Done;
        }
        let answer = answer.map(|response| proto::PublishResponse { response: Some(response) });
        Some((answer, publishing))
    });
    Answers { stream: Box::pin(stream), shared: also }
}

impl Publishing {
    async fn next(&mut self) -> Option<Result<Response, Status>> {
        match self.state {
            State::Fresh => {
                self.state = State::Feeding;
                Some(Ok(Response::Opened(proto::PublishOpened {
                    run_id: to_bytes(self.ingest.run_id().as_bytes()),
                    acknowledged: self.ingest.acknowledged(),
                    window: self.shared.limits.window_payloads,
                })))
            }
            State::Feeding => Some(self.feed().await),
            State::Finishing => Some(self.finish().await),
            State::Done => None,
        }
    }

    /// The next answer: a human's reply, an acknowledgement, or a sign of life.
    async fn feed(&mut self) -> Result<Response, Status> {
        let heartbeat = self.shared.timeouts.heartbeat;
        let request = {
            let Self { ingest, requests, shared, deadline, .. } = self;
            tokio::select! {
                biased;
                reply = ingest.reply() => return Ok(Response::Reply(reply_to_proto(&reply))),
                request = guarded(shared, *deadline, requests.message()) => request??,
                () = pause(heartbeat) => return Ok(acknowledged(ingest.acknowledged())),
            }
        };
        match request.map(|request| request.request) {
            None => Err(self.shared.statuses.cut()),
            Some(Some(Request::Payload(payload))) => self.take_payloads(payload).await,
            Some(Some(Request::Finish(_))) => self.finish().await,
            Some(Some(Request::Open(_))) => Err(self.shared.statuses.malformed("`open` came twice")),
            Some(None) => Err(self.shared.statuses.malformed("a publish request has nothing in it")),
        }
    }

    /// Takes the payload and all that have arrived behind it, up to a window, and acknowledges them at once.
    async fn take_payloads(&mut self, first: proto::PublishPayload) -> Result<Response, Status> {
        let mut highest = self.accept(first).await?;
        for _ in 1..self.shared.limits.window_payloads {
            // `message` keeps what it has read if it is not done, so it may be asked and left.
            match self.requests.message().now_or_never() {
                Some(Ok(Some(proto::PublishRequest { request: Some(Request::Payload(payload)) }))) => {
                    highest = self.accept(payload).await?;
                }
                Some(Ok(Some(proto::PublishRequest { request: Some(Request::Finish(_)) }))) => {
                    self.state = State::Finishing;
                    break;
                }
                Some(Ok(Some(_))) => return Err(self.shared.statuses.malformed("only payloads may follow")),
                Some(Ok(None)) => return Err(self.shared.statuses.cut()),
                Some(Err(status)) => return Err(status),
                None => break,
            }
        }
        Ok(acknowledged(highest))
    }

    async fn accept(&mut self, payload: proto::PublishPayload) -> Result<u64, Status> {
        self.shared.counters.payload();
        let Self { ingest, shared, deadline, .. } = self;
        let accepted = guarded(shared, *deadline, ingest.accept(payload.number, payload.data)).await?;
        accepted.map_err(|refusal| self.refused(refusal))
    }

    async fn finish(&mut self) -> Result<Response, Status> {
        let Self { ingest, shared, deadline, .. } = self;
        let finished = guarded(shared, *deadline, ingest.finish()).await?;
        finished.map_err(|refusal| self.refused(refusal))?;
        self.state = State::Done;
        Ok(Response::Finished(proto::PublishFinished { acknowledged: self.ingest.acknowledged() }))
    }

    fn refused(&self, refusal: ServiceError) -> Status {
        self.shared.statuses.refused(refusal)
    }
}

/// Waits for something, but not past the deadline or the end of the server.
async fn guarded<T>(
    shared: &Shared,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Result<T, Status> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = shared.stop.cancelled() => Err(shared.statuses.stopping(None)),
        () = until(deadline) => Err(shared.statuses.deadline()),
    }
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn pause(time: Option<Duration>) {
    until(time.map(|time| Instant::now() + time)).await;
}

fn acknowledged(number: u64) -> Response {
    Response::Acknowledged(proto::PublishAcknowledged { number })
}

/// The stream of [`answers`].
pub(crate) struct Answers<S> {
    stream: std::pin::Pin<Box<S>>,
    shared: Arc<Shared>,
}

impl<S: Stream> Stream for Answers<S> {
    type Item = S::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(cx)
    }
}

impl<S> Stallable for Answers<S> {
    fn stalled(&self) -> Status {
        self.shared.counters.stalled();
        self.shared.statuses.stalled(None)
    }
}
