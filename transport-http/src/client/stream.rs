//! Streams from an upstream. Both are pulled: what nobody reads stays in the network, which is the back-pressure.

use std::future::Future as _;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Response, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep};

use super::framing::{BodyDecoder, Framing};
use super::loan::{LoanRef, Socket};
use super::parked::Parked;
use super::watch::CallGuard;
use super::{reason, timeout};
use crate::error::ClientError;
use crate::sse::{DecodeLimits, Decoder, Event};

/// Bytes read at once by a stream that has its socket: some seventy events. They lie on the stack, so a stream that waits
/// holds none.
const READ_BYTES: usize = 16 * 1024;

/// Where the bytes of a response come from.
#[derive(Debug)]
pub(crate) enum StreamBody {
    /// The library reads.
    Library {
        body: Incoming,
        /// Bytes that it has given out.
        given: u64,
        loan: Option<Lending>,
    },
    /// The stream reads itself.
    Own(Box<OwnBody>),
    Ended,
}

/// What it takes to take the socket.
#[derive(Debug)]
pub(crate) struct Lending {
    loan: LoanRef,
    framing: Framing,
    /// Where the connection waits after the stream, if it can carry another request.
    parked: Option<Arc<Parked>>,
}

/// A socket and the framing of what comes from it.
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
    pub(crate) fn new(response: Response<Incoming>, loan: Option<LoanRef>, parked: &Arc<Parked>) -> Self {
        let framing = Framing::of(response.headers()).filter(|_| response.version() == Version::HTTP_11);
        let closes = response.headers().get_all(header::CONNECTION).iter().any(|value| value != "keep-alive");
        let parked = (!closes).then(|| Arc::clone(parked));
        let loan = loan.zip(framing).map(|(loan, framing)| Lending { loan, framing, parked });
        Self::Library { body: response.into_body(), given: 0, loan }
    }

    /// The next bytes; none at the end; in words why it broke off.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            let polled = match self {
                Self::Library { body, given, loan } => match Pin::new(body).poll_frame(cx) {
                    Poll::Ready(frame) => match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                        Some(Ok(Ok(bytes))) => {
                            *given += bytes.len() as u64;
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                        // Trailers carry nothing for us.
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
    fn take(&self, given: u64) -> Option<OwnBody> {
        let (socket, decoder) = self.loan.take(self.framing, given)?;
        Some(OwnBody { socket, decoder, parked: self.parked.clone() })
    }
}

impl OwnBody {
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

    /// The body came to its end: the connection waits for another request, if it can carry one.
    fn leave(self) {
        if let Some(parked) = self.parked.filter(|_| self.decoder.ends_clean()) {
            parked.put(self.socket);
        }
    }
}

/// The bytes of a response as they arrive. Ends with an error if the connection breaks or stays silent for too long,
/// without one only if the upstream ended the response properly. Dropping it ends the request.
#[derive(Debug)]
pub struct ByteStream {
    body: StreamBody,
    upstream: String,
    idle: Duration,
    /// Touched only when nothing is there to read; see `quiet_since`.
    timer: Option<Pin<Box<Sleep>>>,
    quiet_since: Instant,
    /// The call, until its stream ends.
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

    /// The stream failed: its call is over.
    fn fail(&mut self, error: ClientError) -> ClientError {
        if let Some(mut guard) = self.guard.take() {
            guard.handle_failure(&error);
        }
        error
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
        Poll::Ready(match this.body.poll_bytes(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.quiet_since = Instant::now();
                Some(Ok(bytes))
            }
            Poll::Ready(Some(Err(reason))) => {
                let cut = ClientError::Cut { upstream: this.upstream.clone(), reason };
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

    /// The next event, if it was read already: what one read gave can be taken together. None says nothing of what is to
    /// come.
    pub fn ready_event(&mut self) -> Option<Result<Event, ClientError>> {
        let event = self.decoder.poll_event()?;
        Some(event.map_err(|source| {
            self.bytes = None;
            ClientError::Events { upstream: self.upstream.clone(), source }
        }))
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
            if let Some(event) = this.ready_event() {
                return Poll::Ready(Some(event));
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
