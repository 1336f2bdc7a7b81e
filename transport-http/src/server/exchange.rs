//! One request and its response on a connection: the bodies that keep the limits and the counts.
//!
//! * [`RequestBody`] ends with an error when it is too long or takes too long.
//! * [`ResponseBody`] counts as open until it is dropped. The body of a stream over HTTP/1.1 is only lent to the library,
//!   see `handoff`. On HTTP/2 a peer can stop one stream by its window while the
//!   socket moves on, and then nobody polls the body any more: a watcher takes it away when that lasts, so that what it
//!   holds (a run's events) is freed and the stream is reset, not the connection.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Instant, Sleep};

use super::handoff::{Handoff, LentStream};
use super::phase::PhaseWatch;
use crate::config::{Limits, Timeouts};
use crate::counters::{Counters, Gauge, OpenGuard, Total};
use crate::error::StreamError;

type BoxError = Box<dyn Error + Send + Sync>;

/// The body did not come within the limit `body`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the body of the request did not arrive within the limit `body`")]
pub(crate) struct BodyTooSlow;

/// The body is longer than the limit `body_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the body of the request is longer than the limit `body_bytes`")]
pub(crate) struct BodyTooLong;

/// The limits of request bodies, as an extension of every request.
#[derive(Debug, Clone)]
pub(crate) struct BodyLimits {
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
    /// For the rest of a body that no route reads.
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

/// Lifts the limits on the body of one request, as an extension of it: for routes whose callers stream for as long as
/// they like, and which bound each message themselves.
#[derive(Debug, Clone, Default)]
pub struct BodyLimitLift(Arc<AtomicBool>);

impl BodyLimitLift {
    /// From now on this body may be as long, and take as long, as it likes.
    pub fn lift(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_lifted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The body of a request, limited in size and time unless that is lifted.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// There until it is dropped.
    body: Option<Incoming>,
    /// HTTP/2, where an unread body is reset.
    is_multiplexed: bool,
    lift: BodyLimitLift,
    /// Bytes that may still come.
    bytes_left: u64,
    discard: Duration,
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
        is_multiplexed: bool,
    ) -> Self {
        handoff.handle_request();
        let deadline = Instant::now() + limits.timeout;
        let bytes_left = u64::try_from(limits.bytes).unwrap_or(u64::MAX);
        let has_ended = body.is_end_stream();
        let (body, handoff) = (Some(body), Some(handoff));
        let discard = limits.discard;
        let mut body =
            Self { body, is_multiplexed, lift, bytes_left, discard, handoff, deadline, timer: None };
        body.note_end(has_ended);
        body
    }

    fn note_end(&mut self, has_ended: bool) {
        if has_ended && let Some(handoff) = self.handoff.take() {
            handoff.handle_request_end();
        }
    }

    fn count(&mut self, frame: &Frame<Bytes>) -> Result<(), BoxError> {
        let length = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        match self.bytes_left.checked_sub(length) {
            Some(left) => self.bytes_left = left,
            None if self.lift.is_lifted() => {}
            None => return Err(Box::new(BodyTooLong)),
        }
        Ok(())
    }
}

/// An answer that comes before the body was read would be followed by a reset of the stream (HTTP/2), and clients such as
/// curl then report the reset instead of the answer. The rest is therefore read first, within the limits `body_bytes` and
/// `close`, and nothing of it is kept.
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
        // The announced length decides first: a body over the limit is not worth waiting for.
        let is_worth = |body: &Incoming| !body.is_end_stream() && body.size_hint().lower() <= self.bytes_left;
        let unread = self.body.take().filter(|body| self.is_multiplexed && is_worth(body));
        // Without a runtime there is no connection any more either.
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

/// Counts a request as open, in its server and its connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    phase: Arc<PhaseWatch>,
    _open: OpenGuard,
    stream: Option<OpenGuard>,
}

impl Exchange {
    pub(crate) fn open(phase: Arc<PhaseWatch>, counters: &Counters, is_http2: bool) -> Self {
        phase.handle_request(is_http2);
        counters.count(Total::Requests);
        Self { phase, _open: counters.open(Gauge::Requests), stream: None }
    }

    /// Its response is a stream of events.
    pub(crate) fn count_stream(&mut self, counters: &Counters) {
        self.stream = Some(counters.open(Gauge::Streams));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.phase.handle_response_end();
    }
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// The socket's own limit is enough.
    Alone { body: AxumBody, _exchange: Exchange },
    /// A stream that can be taken back.
    Lent(LentBody),
    /// One of several streams in a connection.
    Watched { watched: Arc<Mutex<Watched>>, _exchange: Exchange },
}

/// A handle to the stream that a connection has lent. Dropped by the library, it takes the stream with it.
#[derive(Debug)]
pub(crate) struct LentBody(Arc<Handoff>);

impl Drop for LentBody {
    fn drop(&mut self) {
        let stream = self.0.lock().stream.take();
        drop(stream);
    }
}

#[derive(Debug)]
pub(crate) struct Watched {
    body: Option<AxumBody>,
    /// How often it was polled.
    polls: u64,
    /// The last poll gave bytes, so the next one waits for the peer, not for the source.
    waits_for_peer: bool,
}

impl ResponseBody {
    pub(crate) fn alone(body: AxumBody, exchange: Exchange) -> Self {
        Self::Alone { body, _exchange: exchange }
    }

    pub(crate) fn lent(stream: LentStream, handoff: Arc<Handoff>) -> Self {
        handoff.lend_stream(stream);
        Self::Lent(LentBody(handoff))
    }

    /// A body whose stream is reset when the peer takes nothing of it for `limit` (noticed within twice that).
    pub(crate) fn watched(body: AxumBody, exchange: Exchange, limit: Duration, counters: Counters) -> Self {
        if body.is_end_stream() {
            return Self::alone(body, exchange);
        }
        let watched = Arc::new(Mutex::new(Watched { body: Some(body), polls: 0, waits_for_peer: false }));
        tokio::spawn(watch(Arc::downgrade(&watched), limit, counters));
        Self::Watched { watched, _exchange: exchange }
    }
}

/// Takes the body away once it was not polled for `limit` although it had given bytes. Ends with the body.
async fn watch(watched: Weak<Mutex<Watched>>, limit: Duration, counters: Counters) {
    let mut last_polls = None;
    loop {
        tokio::time::sleep(limit).await;
        let Some(watched) = watched.upgrade() else {
            return;
        };
        let mut watched = lock(&watched);
        if watched.waits_for_peer && last_polls == Some(watched.polls) {
            watched.body = None;
            counters.count(Total::WriteStalls);
            return;
        }
        last_polls = Some(watched.polls);
    }
}

/// A poisoned lock means that a poll panicked; the body is dropped soon, and taking it is still right.
fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Alone { body, .. } => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Lent(LentBody(handoff)) => {
                let mut lent = handoff.lock();
                let Some(stream) = &mut lent.stream else {
                    return Poll::Pending; // Taken back; the library is about to be dropped.
                };
                let polled = Pin::new(&mut stream.body).poll_frame(cx).map_err(Into::into);
                lent.handle_body_poll(polled.is_pending());
                polled
            }
            Self::Watched { watched, .. } => lock(watched).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Alone { body, .. } => body.is_end_stream(),
            Self::Lent(LentBody(handoff)) => {
                handoff.lock().stream.as_ref().is_some_and(|stream| stream.body.is_end_stream())
            }
            Self::Watched { watched, .. } => lock(watched).body.as_ref().is_some_and(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Alone { body, .. } => body.size_hint(),
            // Streams have no length; that is why they are sent in chunks.
            Self::Lent(_) => SizeHint::default(),
            Self::Watched { watched, .. } => {
                lock(watched).body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
            }
        }
    }
}

impl Watched {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.polls = self.polls.wrapping_add(1);
        let Some(body) = &mut self.body else {
            return Poll::Ready(Some(Err(StreamError::WriteStall.into())));
        };
        let polled = Pin::new(body).poll_frame(cx).map_err(Into::into);
        self.waits_for_peer = polled.is_ready();
        polled
    }
}
