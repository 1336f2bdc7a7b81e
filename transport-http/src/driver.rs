//! Pumps the events of one run into one response.
//!
//! ```text
//!              ready events, up to `chunk_bytes`
//! EventStream ─────────────────────────────────► encoder ──► one chunk ──► socket
//!      ▲ pulled only when the socket wants data                │
//!      └ dropped at once when the peer goes away               └ after the terminal event: end of the body
//! ```
//!
//! Invariants: nothing is read ahead, so a reader that stalls costs one chunk and what its socket holds, and holds up
//! nobody else; a clean end of the body means that the terminal event was sent, now or before the reader came back; events that end without one break the
//! connection instead, so that no reader takes a lost run for a finished one.
//!
//! It spawns nothing, and touches its timer only when the stream has been quiet.

use std::future::Future as _;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::Coalescer;
use aqueduct_core::service::{EventEncoder, EventStream, NumberedEvent, PayloadSink};
use axum::body::Body as AxumBody;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::config::StreamOptions;
use crate::error::StreamError;
use crate::position::{EventPosition, escape};
use crate::sse;

/// Events taken in one go at most, for encoders that write nothing for most of them: others want the thread too.
const EVENTS_PER_POLL: usize = 256;

/// The first guess of a chunk's size: a text delta with its framing.
const FIRST_CHUNK_BYTES: usize = 512;

/// A response that streams `events`: server-sent events, or for a binary encoder its payloads one after the other.
///
/// `position` says of which run they are, and where the reader is in it: at its
/// [start](EventPosition::start), or where it was when it lost the stream; then the events must come from a watch after
/// [`EventPosition::after`]. The peer sees the end of the body right after the terminal event.
pub fn stream_response(
    position: &EventPosition,
    events: EventStream,
    encoder: Box<dyn EventEncoder>,
    options: &StreamOptions,
) -> Response {
    // An encoder whose media type is no header value is at fault; its bytes still are what they are.
    let media_type = HeaderValue::from_str(encoder.media_type());
    let media_type = media_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = Response::new(AxumBody::new(StreamBody::new(position, events, encoder, options)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    // `no-transform` keeps proxies from compressing, which would hold events back.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response.extensions_mut().insert(EventStreamMark);
    response
}

/// Marks a response as a stream of ours, for the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventStreamMark;

/// The body of such a response.
struct StreamBody {
    /// None once the last event was taken.
    events: Option<EventStream>,
    encoder: Box<dyn EventEncoder>,
    chunk: Vec<u8>,
    chunk_bytes: usize,
    /// How large the last chunk was, as a guess for the next.
    chunk_hint: usize,
    /// Taken and not yet encoded; empty between polls.
    waiting: Coalescer,
    merge_bytes: usize,
    /// More waits for the reader than the last chunk could hold.
    is_behind: bool,
    ids: Option<Box<str>>,
    /// The event and how many of its payloads the reader has already.
    received: (u64, u64),
    keep_alive: Option<KeepAlive>,
    failure: Option<StreamError>,
    /// The reader comes back and there was no event for it yet: if none comes, it has the terminal event already.
    is_after_end: bool,
}

impl StreamBody {
    fn new(
        position: &EventPosition,
        events: EventStream,
        encoder: Box<dyn EventEncoder>,
        options: &StreamOptions,
    ) -> Self {
        let EventPosition { run, number, payloads } = position;
        let is_binary = encoder.is_binary();
        let mut body = Self {
            events: Some(events),
            encoder,
            chunk: Vec::new(),
            chunk_bytes: options.chunk_bytes,
            chunk_hint: FIRST_CHUNK_BYTES,
            waiting: Coalescer::default(),
            merge_bytes: options.merge_bytes,
            is_behind: false,
            ids: (options.ids && !is_binary).then(|| escape(run).into_boxed_str()),
            received: (*number, *payloads),
            keep_alive: options.keep_alive.filter(|_| !is_binary).map(KeepAlive::new),
            failure: None,
            is_after_end: *number > 0,
        };
        if *number == 0 {
            body.write_start(options.retry);
        }
        body
    }

    /// Without it, a stream that is cut before its first event could not be resumed.
    fn write_start(&mut self, retry: Duration) {
        if let Some(run) = &self.ids {
            // Writing to a vector cannot fail, here and below.
            writeln!(self.chunk, "id: {run}.0").ok();
            sse::encode_retry(u64::try_from(retry.as_millis()).unwrap_or(u64::MAX), &mut self.chunk);
            self.chunk.push(b'\n');
        }
    }

    /// Encodes what is ready. True if more may be ready at once.
    fn take_ready(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_behind = self.take_events(cx);
        self.write_waiting();
        self.is_behind
    }

    fn take_events(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..EVENTS_PER_POLL {
            let Some(events) = &mut self.events else {
                return false;
            };
            if self.chunk.len() + self.waiting.waiting_bytes() >= self.chunk_bytes {
                return true;
            }
            match events.as_mut().poll_next(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => {
                    self.events = None;
                    self.failure = (!self.is_after_end).then_some(StreamError::LostRun);
                }
                Poll::Ready(Some(event)) => self.handle_event(event),
            }
        }
        true
    }

    fn handle_event(&mut self, event: NumberedEvent) {
        self.is_after_end = false;
        if event.event.is_terminal() {
            self.events = None;
        }
        // What the reader has in part stays alone: its payloads are counted.
        let may_merge = self.is_behind && event.number > self.received.0 + 1;
        let limit = if may_merge { self.merge_bytes } else { 0 };
        if let Some(event) = self.waiting.handle_event(event, limit) {
            self.write_waiting();
            self.waiting.handle_event(event, limit);
        }
    }

    fn write_waiting(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        if let Some(merged) = waiting.merged() {
            let start = self.chunk.len();
            if self.encode(&merged) <= 1 {
                return;
            }
            // A position between two payloads of what is no event of the run could not be resumed.
            self.chunk.truncate(start);
        }
        for event in waiting.parts() {
            self.encode(event);
        }
    }

    /// Tells how many payloads it became.
    fn encode(&mut self, event: &NumberedEvent) -> u64 {
        if self.chunk.capacity() == 0 {
            self.chunk.reserve(self.chunk_hint);
        }
        let (number, payloads) = self.received;
        let mut sink = Sink {
            out: &mut self.chunk,
            is_binary: self.encoder.is_binary(),
            ids: self.ids.as_deref(),
            number: event.number,
            payload: 0,
            received: if event.number == number { payloads } else { 0 },
        };
        self.encoder.encode(&event.event, &mut sink);
        sink.payload
    }

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
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let more = self.take_ready(cx);
        if !self.chunk.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.take_chunk()))));
        }
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if self.events.is_none() {
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

    /// Known with the last chunk, so that it and the end of the body go out in one write.
    fn is_end_stream(&self) -> bool {
        self.events.is_none() && self.chunk.is_empty() && self.failure.is_none()
    }
}

/// Puts payloads between their framing.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    is_binary: bool,
    ids: Option<&'a str>,
    number: u64,
    payload: u64,
    received: u64,
}

impl PayloadSink for Sink<'_> {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.payload += 1;
        if self.payload <= self.received {
            return;
        }
        if self.is_binary {
            write(self.out);
            return;
        }
        if let Some(run) = self.ids {
            writeln!(self.out, "id: {run}.{}.{}", self.number, self.payload).ok();
        }
        sse::encode_data_with(self.out, write);
    }
}

/// A clock that is looked at only when the stream is quiet: a write notes its time, and the timer, when it fires, goes
/// on for what is left since then.
struct KeepAlive {
    every: Duration,
    last_write: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    fn new(every: Duration) -> Self {
        Self { every, last_write: Instant::now(), timer: None }
    }

    fn handle_write(&mut self) {
        self.last_write = Instant::now();
    }

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
