//! Streams from an upstream. Both are pulled: what nobody reads stays in the network, which is the back-pressure.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::Response;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::{reason, timeout};
use crate::error::ClientError;
use crate::sse::{DecodeLimits, Decoder, Event};

/// The bytes of a response as they arrive. Ends with an error if the connection breaks or stays silent for too long,
/// without one only if the upstream ended the response properly. Dropping it ends the request.
#[derive(Debug)]
pub struct ByteStream {
    body: Option<Incoming>,
    upstream: String,
    idle: Duration,
    /// Touched only when nothing is there to read; see `quiet_since`.
    timer: Option<Pin<Box<Sleep>>>,
    quiet_since: Instant,
}

impl ByteStream {
    pub(crate) fn new(body: Incoming, upstream: String, idle: Duration) -> Self {
        Self { body: Some(body), upstream, idle, timer: None, quiet_since: Instant::now() }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<ClientError> {
        let due = self.quiet_since + self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(timeout(&self.upstream, "idle", self.idle));
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.quiet_since = Instant::now();
                    // Trailers carry nothing for us.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    this.body = None;
                    let (upstream, reason) = (this.upstream.clone(), reason(&error));
                    return Poll::Ready(Some(Err(ClientError::Cut { upstream, reason })));
                }
                Poll::Ready(None) => {
                    this.body = None;
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    let error = ready!(this.poll_idle(cx));
                    this.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// The events of a response. An event that was cut off by the end comes with
/// [`terminated`](Event::terminated) false. Dropping it ends the request.
#[derive(Debug)]
pub struct SseStream {
    head: Response<()>,
    bytes: Option<ByteStream>,
    decoder: Decoder,
    upstream: String,
}

impl SseStream {
    pub(crate) fn new(head: Response<()>, bytes: ByteStream, limits: DecodeLimits) -> Self {
        let upstream = bytes.upstream.clone();
        Self { head, bytes: Some(bytes), decoder: Decoder::new(limits), upstream }
    }

    /// Status and headers of the response.
    pub fn head(&self) -> &Response<()> {
        &self.head
    }

    /// The decoder, for what it knows beside the events: the last id, when to come back.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

impl Stream for SseStream {
    type Item = Result<Event, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.decoder.poll_event() {
                Some(Ok(event)) => return Poll::Ready(Some(Ok(event))),
                Some(Err(source)) => {
                    this.bytes = None;
                    let upstream = this.upstream.clone();
                    return Poll::Ready(Some(Err(ClientError::Events { upstream, source })));
                }
                None => {}
            }
            let Some(bytes) = &mut this.bytes else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(bytes).poll_next(cx)) {
                Some(Ok(chunk)) => this.decoder.handle_chunk(chunk),
                // What is half read is dropped with the connection: it was cut, and the error says so.
                Some(Err(error)) => {
                    this.bytes = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.bytes = None;
                    this.decoder.handle_eof();
                }
            }
        }
    }
}
