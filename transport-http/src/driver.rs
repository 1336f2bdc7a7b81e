//! Writes the events of one run, or the payloads of a protocol, into one response.
//!
//! ```text
//!              ready events, up to `chunk_bytes`
//! EventStream ─────────────────────────────────► encoder ──┐
//! PayloadStream ───────────────────────────────────────────┴► one chunk ──► socket
//!      ▲ pulled only when the socket is writable              │
//!      └ dropped at once when the peer disconnects            └ the body ends after the terminal event, or the last payload
//! ```
//!
//! The *reader* is the client that receives the response.
//!
//! Invariants: nothing is read ahead, so a stalled reader costs one chunk and the buffers of its socket, and blocks no other
//! reader; a clean end of the body means that the terminal event was sent, in this response or before the reader resumed; if
//! the events end without a terminal event, the body fails and the connection breaks, so that no reader mistakes a lost run
//! for a finished one.
//!
//! The body spawns no task, and uses a timer only while the stream is quiet.

use std::future::Future as _;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::Coalescer;
use aqueduct_core::service::{EventEncoder, EventStream, NumberedEvent, PayloadSink, PayloadStream};
use axum::body::Body as AxumBody;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::config::StreamOptions;
use crate::error::Error;
use crate::position::{EventPosition, escape};
use crate::sse;

/// The most events handled in one poll, after which other tasks may run: events without payloads never fill a chunk.
const EVENTS_PER_POLL: usize = 256;

/// The first estimate of a chunk's size: a text delta with its framing.
const FIRST_CHUNK_BYTES: usize = 512;

/// Returns a response that streams `events`: as server-sent events, or for a binary encoder as consecutive payloads.
///
/// `position` is the position of the reader in the run: the [start](EventPosition::start), or the last position that the reader
/// received before it lost an earlier stream. `events` must come from a watch after [`EventPosition::after`]. The body ends
/// with the terminal event.
pub fn stream_response(
    position: &EventPosition,
    events: EventStream,
    encoder: Box<dyn EventEncoder>,
    options: &StreamOptions,
) -> Response {
    let media_type = encoder.media_type();
    respond(media_type, StreamBody::new(position, events, encoder, options))
}

/// Returns a response that streams `payloads` as server-sent events, in chunks and with keep-alives as
/// [`stream_response`] does. The body ends with the last payload.
pub fn payload_response(payloads: Box<dyn PayloadStream>, options: &StreamOptions) -> Response {
    let media_type = payloads.media_type();
    respond(media_type, StreamBody::of(Feed::Payloads(payloads), false, options))
}

/// Returns the response of a stream, with headers that keep proxies from caching and buffering it.
fn respond(media_type: &str, body: StreamBody) -> Response {
    // An encoder whose media type is not a valid header value has a bug; its payloads are still sent.
    let media_type = HeaderValue::from_str(media_type);
    let media_type = media_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = Response::new(AxumBody::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    // `no-transform` keeps proxies from compressing, which would hold events back.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response.extensions_mut().insert(EventStreamMark);
    response
}

/// Marks a response (as an extension) as an event stream: the server counts it, and takes its socket from hyper while it is
/// quiet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventStreamMark;

/// Where the payloads of a body come from.
enum Feed {
    Events(EventFeed),
    Payloads(Box<dyn PayloadStream>),
    /// All payloads were taken.
    Ended,
}

/// The events of a run.
struct EventFeed {
    events: EventStream,
    encoder: Box<dyn EventEncoder>,
    /// Events that were taken and not written yet; empty between polls of the body.
    waiting: Coalescer,
    merge_bytes: usize,
    /// Set if more events wait for the reader than the last chunk could hold.
    is_behind: bool,
    /// The escaped run id for event ids; `None` if none are written.
    ids: Option<Box<str>>,
    /// The position at which the reader resumed: an event number, and how many payloads of that event the reader has.
    received: (u64, u64),
    /// Set for a reader that resumes, until the first poll is pending or returns an event: if the events end before that, the
    /// reader already has the terminal event.
    is_after_end: bool,
}

/// The body of an event stream.
struct StreamBody {
    feed: Feed,
    /// The bytes of the next chunk.
    chunk: Vec<u8>,
    chunk_bytes: usize,
    /// The size of the last chunk, as an estimate for the next.
    chunk_hint: usize,
    keep_alive: Option<KeepAlive>,
    /// The error that follows the last chunk.
    failure: Option<Error>,
}

impl EventFeed {
    /// Takes one event, and writes it or coalesces it with the waiting ones, which [`write_waiting`](Self::write_waiting)
    /// writes. Returns `false` after the last event.
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        hint: usize,
    ) -> Poll<Result<bool, Error>> {
        let polled = match self.events.as_mut().poll_next(cx) {
            Poll::Pending => {
                self.is_after_end = false;
                return Poll::Pending;
            }
            Poll::Ready(Some(event)) => {
                let is_terminal = event.event.is_terminal();
                self.handle_event(event, out, hint);
                Ok(!is_terminal)
            }
            Poll::Ready(None) if self.is_after_end => Ok(false),
            Poll::Ready(None) => Err(Error::LostRun),
        };
        if !matches!(polled, Ok(true)) {
            self.write_waiting(out, hint);
        }
        Poll::Ready(polled)
    }

    /// Coalesces an event while the reader is behind, otherwise writes it.
    fn handle_event(&mut self, event: NumberedEvent, out: &mut Vec<u8>, hint: usize) {
        self.is_after_end = false;
        // Event `received.0` is not merged, and so nothing is merged into it: the reader has some of its payloads.
        let may_merge = self.is_behind && event.number > self.received.0 + 1;
        let limit = if may_merge { self.merge_bytes } else { 0 };
        if let Some(event) = self.waiting.handle_event(event, limit) {
            self.write_waiting(out, hint);
            self.waiting.handle_event(event, limit);
        }
    }

    /// Writes the coalesced events: merged if the encoder allows it and writes one payload for them, otherwise one by one.
    fn write_waiting(&mut self, out: &mut Vec<u8>, hint: usize) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        if let Some(merged) = waiting.merged().filter(|merged| self.encoder.can_merge(&merged.event)) {
            let start = out.len();
            if self.encode(&merged, out, hint) <= 1 {
                return;
            }
            // Several payloads of a merged event would need ids of positions that do not exist in the run.
            out.truncate(start);
        }
        for event in waiting.parts() {
            self.encode(event, out, hint);
        }
    }

    /// Encodes an event and returns the number of its payloads.
    fn encode(&mut self, event: &NumberedEvent, out: &mut Vec<u8>, hint: usize) -> u64 {
        let (number, payloads) = self.received;
        let mut sink = Sink {
            out,
            hint,
            is_binary: self.encoder.is_binary(),
            ids: self.ids.as_deref(),
            number: event.number,
            payload: 0,
            received: if event.number == number { payloads } else { 0 },
        };
        self.encoder.encode(&event.event, &mut sink);
        sink.payload
    }
}

impl StreamBody {
    /// Returns a body over `feed` before its first chunk.
    fn of(feed: Feed, is_binary: bool, options: &StreamOptions) -> Self {
        Self {
            feed,
            chunk: Vec::new(),
            chunk_bytes: options.chunk_bytes,
            chunk_hint: FIRST_CHUNK_BYTES,
            keep_alive: options.keep_alive.filter(|_| !is_binary).map(KeepAlive::new),
            failure: None,
        }
    }

    /// Returns a body that encodes the events of a run, with event ids from `position` on.
    fn new(
        position: &EventPosition,
        events: EventStream,
        encoder: Box<dyn EventEncoder>,
        options: &StreamOptions,
    ) -> Self {
        let EventPosition { run, number, payloads } = position;
        let is_binary = encoder.is_binary();
        let ids: Option<Box<str>> = (options.ids && !is_binary).then(|| escape(run).into_boxed_str());
        let mut start = Vec::new();
        if *number == 0
            && let Some(run) = &ids
        {
            write_start(run, options.retry, &mut start);
        }
        let feed = EventFeed {
            events,
            encoder,
            waiting: Coalescer::default(),
            merge_bytes: options.merge_bytes,
            is_behind: false,
            ids,
            received: (*number, *payloads),
            is_after_end: *number > 0,
        };
        Self { chunk: start, ..Self::of(Feed::Events(feed), is_binary, options) }
    }

    /// Writes all ready events, up to the size of a chunk. Returns `true` if more may be ready.
    fn take_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let more = self.take(cx);
        if let Feed::Events(feed) = &mut self.feed {
            feed.write_waiting(&mut self.chunk, self.chunk_hint);
            feed.is_behind = more;
        }
        more
    }

    /// Returns the size of the chunk including the events that are not written yet.
    fn taken_bytes(&self) -> usize {
        let waiting = match &self.feed {
            Feed::Events(feed) => feed.waiting.waiting_bytes(),
            Feed::Payloads(_) | Feed::Ended => 0,
        };
        self.chunk.len() + waiting
    }

    /// Takes events or payloads until the chunk is full or the feed is pending. Returns `true` if more may be ready.
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..EVENTS_PER_POLL {
            if self.taken_bytes() >= self.chunk_bytes {
                return !matches!(self.feed, Feed::Ended);
            }
            let hint = self.chunk_hint;
            let taken = match &mut self.feed {
                Feed::Ended => return false,
                Feed::Events(feed) => feed.poll_event(cx, &mut self.chunk, hint),
                Feed::Payloads(payloads) => {
                    let mut sink = Sink::of_payloads(&mut self.chunk, hint);
                    payloads.poll_payload(cx, &mut sink).map(Ok)
                }
            };
            match taken {
                Poll::Pending => return false,
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => self.feed = Feed::Ended,
                Poll::Ready(Err(failure)) => {
                    self.feed = Feed::Ended;
                    self.failure = Some(failure);
                }
            }
        }
        true
    }

    /// Takes the chunk. Its size is the first capacity of the next one.
    fn take_chunk(&mut self) -> Bytes {
        self.chunk_hint = self.chunk.len().clamp(FIRST_CHUNK_BYTES, self.chunk_bytes.max(FIRST_CHUNK_BYTES));
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.handle_write();
        }
        Bytes::from(std::mem::take(&mut self.chunk))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let more = self.take_ready(cx);
        if !self.chunk.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.take_chunk()))));
        }
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if matches!(self.feed, Feed::Ended) {
            return Poll::Ready(None);
        }
        if more {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.keep_alive.as_mut().is_some_and(|keep_alive| keep_alive.poll_due(cx)) {
            sse::encode_comment("keep-alive", &mut self.chunk);
            return Poll::Ready(Some(Ok(Frame::data(self.take_chunk()))));
        }
        Poll::Pending
    }

    /// Returns `true` as soon as the last chunk is taken, so that hyper sends the chunk and the end of the body in one write.
    fn is_end_stream(&self) -> bool {
        matches!(self.feed, Feed::Ended) && self.chunk.is_empty() && self.failure.is_none()
    }
}

/// Writes an initial event with an id, so that a stream that is cut before its first event can be resumed.
fn write_start(run: &str, retry: Duration, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail, here and below.
    writeln!(out, "id: {run}.0").ok();
    sse::encode_retry(u64::try_from(retry.as_millis()).unwrap_or(u64::MAX), out);
    out.push(b'\n');
}

/// Adds the framing to payloads.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    /// The size to allocate for an empty buffer: a quiet stream holds none.
    hint: usize,
    is_binary: bool,
    /// The escaped run id for event ids; `None` if none are written.
    ids: Option<&'a str>,
    /// The number of the event.
    number: u64,
    /// The number of payloads of the event so far.
    payload: u64,
    /// The number of payloads of the event that the reader already has, which are not written.
    received: u64,
}

impl<'a> Sink<'a> {
    /// Returns a sink without event ids, for payloads that are already encoded.
    fn of_payloads(out: &'a mut Vec<u8>, hint: usize) -> Self {
        Self { out, hint, is_binary: false, ids: None, number: 0, payload: 0, received: 0 }
    }

    /// Writes the id of the payload. Without `core::fmt`, which costs more than the rest of the framing.
    fn write_id(&mut self, run: &str) {
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(b"id: ");
        self.out.extend_from_slice(run.as_bytes());
        for number in [self.number, self.payload] {
            self.out.push(b'.');
            self.out.extend_from_slice(digits.format(number).as_bytes());
        }
        self.out.push(b'\n');
    }
}

impl PayloadSink for Sink<'_> {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.payload += 1;
        if self.payload <= self.received {
            return;
        }
        if self.out.capacity() == 0 {
            self.out.reserve(self.hint);
        }
        if self.is_binary {
            write(self.out);
            return;
        }
        if let Some(run) = self.ids {
            self.write_id(run);
        }
        sse::encode_data_with(self.out, write);
    }

    fn push_named(&mut self, name: &str, write: &mut dyn FnMut(&mut Vec<u8>)) {
        // An invalid name is omitted; the payload is written.
        if !self.is_binary && self.payload >= self.received {
            sse::encode_name(name, self.out).ok();
        }
        self.push(write);
    }
}

/// The timer of keep-alive comments. A write only records its time; a timer that fires before the interval since the last write
/// is over is set again, so a busy stream does not touch the timer.
struct KeepAlive {
    every: Duration,
    last_write: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    /// Returns a timer that starts now.
    fn new(every: Duration) -> Self {
        Self { every, last_write: Instant::now(), timer: None }
    }

    /// Restarts the interval after a write.
    fn handle_write(&mut self) {
        self.last_write = Instant::now();
    }

    /// Returns `true` if nothing was written for the interval; registers the waker otherwise.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.last_write + self.every;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= due {
                return true;
            }
            timer.as_mut().reset(due);
        }
        false
    }
}
