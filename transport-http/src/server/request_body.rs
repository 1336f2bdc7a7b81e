//! The body of a request under its limits: it ends with an error when it is too long, takes too long or is more than its
//! caller may have in flight, and what no route reads of it is discarded.

use std::error::Error;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Instant, Sleep};

use super::handoff::Handoff;
use crate::config::{Limits, Timeouts};
use crate::quota::BodyCharge;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body did not arrive within the limit `body`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the body of the request did not arrive within the limit `body`: send it faster, or raise the limit")]
pub(crate) struct BodyTooSlow;

/// The body is longer than the limit `body_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the body of the request is longer than the limit `body_bytes`: send less, or raise the limit")]
pub(crate) struct BodyTooLong;

/// The limits of request bodies, as an extension of every request.
#[derive(Debug, Clone)]
pub(crate) struct BodyLimits {
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
    /// The time limit for the rest of a body that no route reads.
    pub(crate) discard: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self::new(&Limits::default(), &Timeouts::default())
    }
}

impl BodyLimits {
    pub(crate) fn new(limits: &Limits, timeouts: &Timeouts) -> Self {
        Self { bytes: limits.body_bytes, timeout: timeouts.body, discard: timeouts.close }
    }
}

/// Lifts the limits of the body of one request, as an extension of it: for routes whose callers stream without limit, and
/// which limit each message themselves.
#[derive(Debug, Clone, Default)]
pub struct BodyLimitLift(Arc<AtomicBool>);

impl BodyLimitLift {
    /// Lifts the limits of size and time from now on.
    pub fn lift(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_lifted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The body of a request, limited in size and time unless the limits are lifted.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// `None` once it was dropped.
    body: Option<Incoming>,
    /// Set for HTTP/2, where an unread body is reset.
    is_multiplexed: bool,
    lift: BodyLimitLift,
    /// Bytes that may still arrive.
    bytes_left: u64,
    discard: Duration,
    /// What it holds, charged to its caller.
    charge: BodyCharge,
    handoff: Option<Arc<Handoff>>,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(
        body: Incoming,
        handoff: Arc<Handoff>,
        limits: &BodyLimits,
        lift: BodyLimitLift,
        charge: BodyCharge,
        is_multiplexed: bool,
    ) -> Self {
        handoff.handle_request();
        let deadline = Instant::now() + limits.timeout;
        let bytes_left = u64::try_from(limits.bytes).unwrap_or(u64::MAX);
        let has_ended = body.is_end_stream();
        let (body, handoff) = (Some(body), Some(handoff));
        let discard = limits.discard;
        let mut body =
            Self { body, is_multiplexed, lift, bytes_left, discard, charge, handoff, deadline, timer: None };
        body.note_end(has_ended);
        body
    }

    fn note_end(&mut self, has_ended: bool) {
        if has_ended && let Some(handoff) = self.handoff.take() {
            handoff.handle_request_end();
        }
    }

    fn count(&mut self, frame: &Frame<Bytes>) -> Result<(), BoxError> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let length = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self.bytes_left.checked_sub(length) {
            Some(left) => self.bytes_left = left,
            None if self.lift.is_lifted() => {}
            None => return Err(Box::new(BodyTooLong)),
        }
        Ok(self.charge.add(bytes)?)
    }
}

/// Reads and drops the rest of a body. A response before the end of the body would be followed by a reset of the stream
/// (HTTP/2), which clients such as curl report instead of the response. So the rest is read first, within the limits
/// `body_bytes` and `close`.
async fn discard(mut body: Incoming, mut left: u64, limit: Duration) {
    let reading = std::future::poll_fn(|cx| {
        loop {
            let Some(Ok(frame)) = ready!(Pin::new(&mut body).poll_frame(cx)) else { return Poll::Ready(()) };
            let length = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return Poll::Ready(()),
            }
        }
    });
    tokio::time::timeout(limit, reading).await.ok();
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        // The announced length is checked first: a body over the limit is not read.
        let is_worth = |body: &Incoming| !body.is_end_stream() && body.size_hint().lower() <= self.bytes_left;
        let unread = self.body.take().filter(|body| self.is_multiplexed && is_worth(body));
        // Without a runtime the connection is gone as well.
        if let (Some(body), Ok(runtime)) = (unread, tokio::runtime::Handle::try_current()) {
            runtime.spawn(discard(body, self.bytes_left, self.discard));
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            let has_ended = frame.is_none() || body.is_end_stream();
            self.note_end(has_ended);
            let frame = frame.map(|frame| {
                let frame = frame?;
                self.count(&frame)?;
                Ok(frame)
            });
            return Poll::Ready(frame);
        }
        if self.lift.is_lifted() {
            self.timer = None;
            return Poll::Pending;
        }
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(Box::new(BodyTooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}
