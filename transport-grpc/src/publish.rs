//! The server side of one publisher: passes payloads to its [`Ingest`], and returns acknowledgements and replies.
//!
//! ```text
//!   open ──► Opened ──► payload… ──accept──► Acknowledged (the highest; one for all since the last was sent)
//!                        │  human ──reply──► Reply
//!                        ├─ finish ──► Finished, OK
//!                        └─ end without finish ──► ABORTED: a lost connection for the service
//! ```
//!
//! The work is one future, polled by the stream of answers, and puts its answers into an [`Outbox`]. So an acknowledgement is
//! sent while the next payload is still being accepted, and a publisher that does not read its answers is not served: HTTP/2
//! does not poll, no request is read, its window fills.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use aqueduct_core::service::{BoxFuture, Ingest, ServiceError};
use aqueduct_transport_http::{Gauge, OpenGuard, Total};
use futures_core::Stream;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use crate::call::{Bounds, until};
use crate::convert::{reply_to_proto, to_bytes};
use crate::driver::Shared;
use crate::proto;
use crate::stall::Stallable;
use crate::status::malformed;
use proto::publish_request::Request;
use proto::publish_response::Response;

/// Answers that may wait. Acknowledgements merge, so these are replies to interrupts, which are rare.
const MOST_ANSWERS: usize = 16;

/// The answers to a publisher.
pub(crate) struct Answers {
    work: Option<BoxFuture<'static, Result<(), Status>>>,
    failure: Option<Box<Status>>,
    outbox: Outbox,
    shared: Arc<Shared>,
}

impl Answers {
    /// Returns the driver of one publication: reads payloads, and queues responses.
    pub(crate) fn new(
        ingest: Box<dyn Ingest>,
        requests: Streaming<proto::PublishRequest>,
        bounds: Bounds,
        shared: Arc<Shared>,
    ) -> Self {
        let outbox = Outbox::default();
        let open = shared.counters.open(Gauge::Publishers);
        let work = Work {
            ingest,
            requests,
            bounds,
            shared: Arc::clone(&shared),
            outbox: outbox.clone(),
            _open: open,
        };
        Self { work: Some(Box::pin(work.run())), failure: None, outbox, shared }
    }
}

impl Stream for Answers {
    type Item = Result<proto::PublishResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(ended) = work.as_mut().poll(cx)
        {
            self.work = None;
            self.failure = ended.err().map(Box::new);
        }
        if let Some(response) = self.outbox.pop() {
            return Poll::Ready(Some(Ok(proto::PublishResponse { response: Some(response) })));
        }
        if self.work.is_some() {
            return Poll::Pending;
        }
        Poll::Ready(self.failure.take().map(|status| Err(*status)))
    }
}

impl Stallable for Answers {
    fn stalled(&self) -> Status {
        self.shared.counters.count(Total::WriteStalls);
        self.shared.statuses.stalled(None)
    }
}

/// The queue of answers between the work and the stream that polls it.
#[derive(Debug, Clone, Default)]
struct Outbox(Arc<Mutex<VecDeque<Response>>>);

impl Outbox {
    /// Queues a response. An acknowledgement replaces one that was not sent yet, so the queue stays short.
    fn push(&self, response: Response) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!((&response, waiting.back()), (Response::Acknowledged(_), Some(Response::Acknowledged(_))))
        {
            waiting.pop_back();
        }
        waiting.push_back(response);
    }

    /// Takes the oldest response.
    fn pop(&self) -> Option<Response> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for room. No wake-up is needed: while answers wait, the stream is polled again.
    async fn room(&self) {
        poll_fn(|_| {
            let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
            if waiting < MOST_ANSWERS { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The work of one publisher.
struct Work {
    ingest: Box<dyn Ingest>,
    requests: Streaming<proto::PublishRequest>,
    bounds: Bounds,
    shared: Arc<Shared>,
    outbox: Outbox,
    _open: OpenGuard,
}

/// The next step of a publisher.
enum Next {
    Reply(aqueduct_core::InterruptReply),
    Request(Option<proto::PublishRequest>),
    Heartbeat,
}

impl Work {
    /// Handles requests and replies until the publication ends.
    async fn run(mut self) -> Result<(), Status> {
        self.outbox.push(Response::Opened(proto::PublishOpened {
            run_id: to_bytes(self.ingest.run_id().as_bytes()),
            acknowledged: self.ingest.acknowledged(),
            window: self.shared.limits.window_payloads,
        }));
        let mut in_a_row = 0;
        loop {
            self.outbox.room().await;
            let request = match self.next().await? {
                Next::Reply(reply) => {
                    self.outbox.push(Response::Reply(reply_to_proto(&reply)));
                    continue;
                }
                Next::Heartbeat => {
                    self.outbox.push(acknowledged(self.ingest.acknowledged()));
                    continue;
                }
                Next::Request(request) => request.ok_or_else(|| self.shared.statuses.cut())?,
            };
            match request.request {
                Some(Request::Payload(payload)) => self.accept(payload).await?,
                Some(Request::Finish(_)) => return self.finish().await,
                Some(Request::Open(_)) => return Err(malformed("`open` came twice")),
                None => return Err(malformed("a publish request has nothing in it")),
            }
            // Payloads that are always ready must not starve other tasks of this thread, nor their acknowledgement.
            in_a_row = (in_a_row + 1) % self.shared.limits.window_payloads.max(1);
            if in_a_row == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits for the next request or the next reply.
    async fn next(&mut self) -> Result<Next, Status> {
        let heartbeat = self.shared.timeouts.heartbeat.map(|pause| Instant::now() + pause);
        let Self { ingest, requests, shared, bounds, .. } = self;
        tokio::select! {
            biased;
            reply = ingest.reply() => Ok(Next::Reply(reply)),
            request = bounds.within(shared.statuses, requests.message()) => Ok(Next::Request(request??)),
            () = until(heartbeat) => Ok(Next::Heartbeat),
        }
    }

    /// Passes a payload to the ingest and queues its acknowledgement.
    async fn accept(&mut self, payload: proto::PublishPayload) -> Result<(), Status> {
        self.shared.counters.count(Total::Payloads);
        let Self { ingest, shared, bounds, .. } = self;
        let accepted = bounds.within(shared.statuses, ingest.accept(payload.number, payload.data)).await?;
        let number = accepted.map_err(|refusal| self.refused(refusal))?;
        self.outbox.push(acknowledged(number));
        Ok(())
    }

    /// Ends the publication, and queues the final acknowledgement.
    async fn finish(&mut self) -> Result<(), Status> {
        let Self { ingest, shared, bounds, .. } = self;
        let finished = bounds.within(shared.statuses, ingest.finish()).await?;
        finished.map_err(|refusal| self.refused(refusal))?;
        let acknowledged = self.ingest.acknowledged();
        self.outbox.push(Response::Finished(proto::PublishFinished { acknowledged }));
        Ok(())
    }

    /// Converts a refusal of the service into a status.
    fn refused(&self, refusal: ServiceError) -> Status {
        self.shared.statuses.refused(refusal)
    }
}

/// Returns the acknowledgement of all payloads up to `number`.
fn acknowledged(number: u64) -> Response {
    Response::Acknowledged(proto::PublishAcknowledged { number })
}
