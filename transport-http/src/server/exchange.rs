//! One request and its response on a connection: the counts, and the body of the response.
//!
//! A [`ResponseBody`] counts as open until it is dropped. hyper holds the body of an HTTP/1.1 stream only by a handle, see
//! `handoff`. On HTTP/2 a peer can stop one stream by its window while the socket makes progress, and the body is no longer
//! polled: a watcher then takes the body away, so that its resources (a run's events) are freed and the stream is reset, not
//! the connection.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::handoff::{Handoff, LentStream};
use super::phase::PhaseWatch;
use crate::counters::{Counters, Gauge, OpenGuard, Total};
use crate::error::Error;

type BoxError = Box<dyn StdError + Send + Sync>;

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

    /// Counts the response as an event stream.
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
    /// A body for which the limit of the socket suffices.
    Alone { body: AxumBody, _exchange: Exchange },
    /// A stream that can be taken back.
    Lent(LentBody),
    /// One of several streams in a connection.
    Watched { watched: Arc<Mutex<Watched>>, _exchange: Exchange },
}

/// A handle to the stream of a connection. When hyper drops the handle, the stream is dropped.
#[derive(Debug)]
pub(crate) struct LentBody(Arc<Handoff>);

impl Drop for LentBody {
    fn drop(&mut self) {
        let stream = self.0.lock().stream.take();
        drop(stream);
    }
}

/// The body of an HTTP/2 stream, shared with its watcher task.
#[derive(Debug)]
pub(crate) struct Watched {
    body: Option<AxumBody>,
    /// The number of polls.
    polls: u64,
    /// Set if the last poll returned bytes, so that the next one waits for the peer and not for the source.
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

    /// Returns a body whose stream is reset when the peer accepts none of it for `limit` (detected within twice that).
    pub(crate) fn watched(body: AxumBody, exchange: Exchange, limit: Duration, counters: Counters) -> Self {
        if body.is_end_stream() {
            return Self::alone(body, exchange);
        }
        let watched = Arc::new(Mutex::new(Watched { body: Some(body), polls: 0, waits_for_peer: false }));
        tokio::spawn(watch(Arc::downgrade(&watched), limit, counters));
        Self::Watched { watched, _exchange: exchange }
    }
}

/// Takes the body away once it was not polled for `limit` although it had returned bytes. Ends with the body.
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

/// Ignores poisoning: after a panic in a poll the body is dropped soon, and taking it is still correct.
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
            // Streams have no length and are therefore sent in chunks.
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
            return Poll::Ready(Some(Err(Error::WriteStall.into())));
        };
        let polled = Pin::new(body).poll_frame(cx).map_err(Into::into);
        self.waits_for_peer = polled.is_ready();
        polled
    }
}
