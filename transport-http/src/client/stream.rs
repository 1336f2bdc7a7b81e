//! Streams from an upstream. Both are pulled: unread bytes stay in the network, which is the back-pressure.

use std::future::Future as _;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{HeaderMap, Response, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep};

use super::framing::{BodyDecoder, Framing};
use super::loan::{LoanRef, Socket};
use super::parked::Parked;
use super::watch::CallGuard;
use super::{reason, timeout};
use crate::error::Error;
use crate::sse::{DecodeLimits, Decoder, Event};

/// Bytes of one read by a stream that owns its socket: some seventy events. The buffer is on the stack, so a waiting stream
/// holds none.
const READ_BYTES: usize = 16 * 1024;

/// The origin of a response's bytes.
#[derive(Debug)]
pub(crate) enum StreamBody {
    /// hyper reads the socket.
    Library {
        body: Incoming,
        /// The number of bytes that hyper has passed on.
        given: u64,
        loan: Option<Lending>,
    },
    /// The stream reads the socket itself.
    Own(Box<OwnBody>),
    Ended,
}

/// The parts that are needed to take the socket from hyper.
#[derive(Debug)]
pub(crate) struct Lending {
    loan: LoanRef,
    framing: Framing,
    /// The place for the connection after the stream, if it can carry another request.
    parked: Option<Arc<Parked>>,
}

/// A socket and the framing of its body.
pub(crate) struct OwnBody {
    socket: Socket,
    decoder: BodyDecoder,
    parked: Option<Arc<Parked>>,
}

impl std::fmt::Debug for OwnBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnBody").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl StreamBody {
    /// Returns the body of a response. An HTTP/1.1 body with known framing is read from its socket directly.
    pub(crate) fn new(response: Response<Incoming>, loan: Option<LoanRef>, parked: &Arc<Parked>) -> Self {
        let framing = Framing::of(response.headers()).filter(|_| response.version() == Version::HTTP_11);
        let closes = response.headers().get_all(header::CONNECTION).iter().any(|value| value != "keep-alive");
        let parked = (!closes).then(|| Arc::clone(parked));
        let loan = loan.zip(framing).map(|(loan, framing)| Lending { loan, framing, parked });
        Self::Library { body: response.into_body(), given: 0, loan }
    }

    /// Returns the next bytes, `None` at the end, or a description of the failure.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            let polled = match self {
                Self::Library { body, given, loan } => match Pin::new(body).poll_frame(cx) {
                    Poll::Ready(frame) => match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                        Some(Ok(Ok(bytes))) => {
                            *given += bytes.len() as u64;
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                        // Trailers are not used.
                        Some(Ok(Err(_))) => continue,
                        Some(Err(error)) => Some(Err(reason(&error))),
                        None => None,
                    },
                    Poll::Pending => {
                        let Some(own) = loan.as_ref().and_then(|lending| lending.take(*given)) else {
                            return Poll::Pending;
                        };
                        *self = Self::Own(Box::new(own));
                        continue;
                    }
                },
                Self::Own(own) => match ready!(own.poll_bytes(cx)) {
                    Some(Ok(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                    Some(Err(what)) => Some(Err(what)),
                    None => {
                        if let Self::Own(own) = std::mem::replace(self, Self::Ended) {
                            own.leave();
                        }
                        None
                    }
                },
                Self::Ended => None,
            };
            *self = Self::Ended;
            return Poll::Ready(polled);
        }
    }
}

impl Lending {
    /// Takes the socket, if hyper has passed on `given` bytes and holds none.
    fn take(&self, given: u64) -> Option<OwnBody> {
        let (socket, decoder) = self.loan.take(self.framing, given)?;
        Some(OwnBody { socket, decoder, parked: self.parked.clone() })
    }
}

impl OwnBody {
    /// Reads from the socket and decodes the framing. Returns `None` at the end of the body.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        while !self.decoder.has_ended() {
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let mut read = ReadBuf::uninit(&mut room);
            if let Err(error) = ready!(Pin::new(&mut *self.socket.io).poll_read(cx, &mut read)) {
                return Poll::Ready(Some(Err(reason(&error))));
            }
            if read.filled().is_empty() {
                let is_end = self.decoder.may_end();
                return Poll::Ready(
                    (!is_end).then(|| Err("the connection ended before the body".to_owned())),
                );
            }
            let mut content = Vec::with_capacity(read.filled().len());
            if self.decoder.decode(read.filled(), &mut content).is_err() {
                return Poll::Ready(Some(Err("the chunks of the body cannot be read".to_owned())));
            }
            if !content.is_empty() {
                return Poll::Ready(Some(Ok(content.into())));
            }
        }
        Poll::Ready(None)
    }

    /// Parks the connection after the end of the body, if it can carry another request.
    fn leave(self) {
        if let Some(parked) = self.parked.filter(|_| self.decoder.ends_clean()) {
            parked.put(self.socket);
        }
    }
}

/// The bytes of a response as they arrive. Ends with an error if the connection is lost or silent for too long, and without
/// one only if the upstream ended the response properly. Dropping the stream ends the request.
#[derive(Debug)]
pub struct ByteStream {
    body: StreamBody,
    upstream: String,
    idle: Duration,
    /// Used only while no byte is ready; see `quiet_since`.
    timer: Option<Pin<Box<Sleep>>>,
    quiet_since: Instant,
    /// The guard of the call, until the stream ends.
    guard: Option<Box<dyn CallGuard>>,
}

impl ByteStream {
    pub(crate) fn new(body: StreamBody, upstream: String, idle: Duration) -> Self {
        Self { body, upstream, idle, timer: None, quiet_since: Instant::now(), guard: None }
    }

    /// Holds the guard of the call until the stream ends.
    pub(crate) fn guarded(self, guard: Option<Box<dyn CallGuard>>) -> Self {
        Self { guard, ..self }
    }

    /// Ends the call with an error.
    fn fail(&mut self, error: Error) -> Error {
        if let Some(mut guard) = self.guard.take() {
            guard.handle_failure(&error);
        }
        error
    }

    /// Completes with an error after `idle` without a byte.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
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
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        Poll::Ready(match this.body.poll_bytes(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.quiet_since = Instant::now();
                Some(Ok(bytes))
            }
            Poll::Ready(Some(Err(reason))) => {
                let cut = Error::Cut { upstream: this.upstream.clone(), reason };
                Some(Err(this.fail(cut)))
            }
            Poll::Ready(None) => {
                this.guard = None;
                None
            }
            Poll::Pending => {
                let error = ready!(this.poll_idle(cx));
                this.body = StreamBody::Ended;
                Some(Err(this.fail(error)))
            }
        })
    }
}

/// The events of a response. An event that the end of the stream cut off has [`terminated`](Event::terminated) `false`.
/// Dropping the stream ends the request.
#[derive(Debug)]
pub struct SseStream {
    head: Response<()>,
    bytes: Option<ByteStream>,
    decoder: Decoder,
    upstream: String,
}

impl SseStream {
    /// Returns a stream of events whose head has already been received.
    pub(crate) fn new(head: Response<()>, bytes: ByteStream, limits: DecodeLimits) -> Self {
        let upstream = bytes.upstream.clone();
        Self { head, bytes: Some(bytes), decoder: Decoder::new(limits), upstream }
    }

    /// Drops the headers of the response, which a silent stream would hold until its end (600 bytes).
    pub fn without_headers(mut self) -> Self {
        *self.head.headers_mut() = HeaderMap::new();
        self
    }

    /// Returns status and headers of the response.
    pub fn head(&self) -> &Response<()> {
        &self.head
    }

    /// Returns the next event if it has already been read, so that all events of one read can be handled together. `None` says
    /// nothing about later events.
    pub fn ready_event(&mut self) -> Option<Result<Event, Error>> {
        let event = self.decoder.poll_event()?;
        Some(event.map_err(|source| {
            self.bytes = None;
            Error::Events { upstream: self.upstream.clone(), source }
        }))
    }

    /// Returns the decoder, which holds the last event id and the retry time.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

impl Stream for SseStream {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.ready_event() {
                return Poll::Ready(Some(event));
            }
            let Some(bytes) = &mut this.bytes else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(bytes).poll_next(cx)) {
                Some(Ok(chunk)) => this.decoder.handle_chunk(chunk),
                // A partial event is dropped: the error reports that the stream was cut.
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
