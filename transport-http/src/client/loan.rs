//! The loan of a socket: hyper holds the socket of a connection only by a handle, so that a quiet stream can take it.
//!
//! ```text
//!            request is written           taken when all of these hold:
//!  lent ──────────────────────► noted ───  * the request was written to the socket
//!   ▲                             │        * every byte of the body that was read has reached the stream
//!   │                             └ more was read than is noted: the socket stays with hyper
//!   └──── the stream ended: the socket carries the next request (`parked.rs`)
//! ```
//!
//! Why: hyper keeps some 30 KiB per connection of HTTP/1.1 (two buffers, a channel of requests, two tasks) while a stream is
//! quiet, and agents are quiet most of the time; and its bytes reach the stream through another task. The state of hyper is
//! derived from the outside: the bytes of a response are noted until its stream takes the socket, and their content is
//! compared with the bytes that hyper has passed on.
//!
//! Connections of HTTP/2 are never taken, because they carry other requests.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::dial::Duplex;
use super::framing::{BodyDecoder, Framing};

/// Bytes of a response that are noted. A stream with more bytes before its first pause stays with hyper.
const NOTED_BYTES: usize = 16 * 1024;

/// Converts the output of a connector into its smallest form: room for an absent TLS session would be most of the memory of a
/// quiet stream.
pub(crate) trait IntoDuplex {
    fn into_duplex(self) -> Box<dyn Duplex>;
}

impl IntoDuplex for TokioIo<TcpStream> {
    fn into_duplex(self) -> Box<dyn Duplex> {
        Box::new(self.into_inner())
    }
}

#[cfg(feature = "tls")]
impl IntoDuplex for hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>> {
    fn into_duplex(self) -> Box<dyn Duplex> {
        match self {
            Self::Http(plain) => plain.into_duplex(),
            Self::Https(encrypted) => Box::new(encrypted.into_inner()),
        }
    }
}

/// A connection to an upstream.
pub(crate) struct Socket {
    pub(crate) io: Box<dyn Duplex>,
    pub(crate) target: Uri,
    /// Set if both sides negotiated HTTP/2.
    pub(crate) is_http2: bool,
}

/// The handle that hyper has for a socket.
pub(crate) struct Loan(Arc<Mutex<Lent>>);

/// A reference to the socket of a response. It does not keep the socket open.
#[derive(Clone)]
pub(crate) struct LoanRef(Weak<Mutex<Lent>>);

/// A lent socket, and the bytes of its present response.
struct Lent {
    socket: Option<Socket>,
    /// The bytes since the last request; `None` if they are not noted.
    noted: Option<Vec<u8>>,
    may_be_taken: bool,
    is_flushed: bool,
    /// The waker of hyper while it waits for bytes.
    reader: Option<Waker>,
}

impl fmt::Debug for LoanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoanRef").finish_non_exhaustive()
    }
}

/// Ignores poisoning: after a panic in a poll the connection is about to be dropped.
fn lock(lent: &Mutex<Lent>) -> MutexGuard<'_, Lent> {
    lent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loan {
    /// `is_http2` is set if HTTP/2 is used with prior knowledge.
    pub(crate) fn new(socket: Socket, is_http2: bool) -> Self {
        let may_be_taken = !is_http2 && !socket.is_http2;
        let lent = Lent { socket: Some(socket), noted: None, may_be_taken, is_flushed: false, reader: None };
        Self(Arc::new(Mutex::new(lent)))
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        lock(&self.0)
    }
}

impl LoanRef {
    /// Takes the socket and the state of its framing, if the `passed` bytes that hyper has passed on are all that it has read of
    /// the body.
    pub(crate) fn take(&self, framing: Framing, passed: u64) -> Option<(Socket, BodyDecoder)> {
        let lent = self.0.upgrade()?;
        let mut lent = lock(&lent);
        if !lent.is_flushed {
            return None;
        }
        let mut decoder = BodyDecoder::new(framing);
        let mut content = Vec::new();
        decoder.decode(body_of(lent.noted.as_deref()?)?, &mut content).ok()?;
        if content.len() as u64 != passed || decoder.has_ended() {
            return None;
        }
        lent.noted = None;
        let socket = lent.socket.take()?;
        let reader = lent.reader.take();
        drop(lent);
        // hyper's connection task wakes, finds no socket, and ends.
        reader.into_iter().for_each(Waker::wake);
        Some((socket, decoder))
    }
}

/// Returns the bytes after the head of the response, and after the heads of interim responses.
fn body_of(mut noted: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b"\r\n\r\n";
    loop {
        let (head, rest) = noted.split_at_checked(memmem::find(noted, END)? + END.len())?;
        let is_interim = head.get(b"HTTP/1.1 ".len()) == Some(&b'1');
        if !is_interim {
            return Some(rest);
        }
        noted = rest;
    }
}

impl Lent {
    fn io(&mut self) -> io::Result<Pin<&mut dyn Duplex>> {
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(&mut *socket.io))
    }

    /// Handles a written request: the bytes of its response are noted from now on.
    fn handle_write(&mut self) {
        self.is_flushed = false;
        self.noted = self.may_be_taken.then(Vec::new);
    }

    /// Records the bytes of a response head, until the head is complete or too long.
    fn note(&mut self, bytes: &[u8]) {
        if let Some(noted) = &mut self.noted {
            noted.extend_from_slice(bytes);
        }
        if self.noted.as_ref().is_some_and(|noted| noted.len() > NOTED_BYTES) {
            self.noted = None;
        }
    }
}

impl Connection for Loan {
    /// Attaches a reference to the socket to responses, for their streams.
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(LoanRef(Arc::downgrade(&self.0)));
        let is_http2 = self.lock().socket.as_ref().is_some_and(|socket| socket.is_http2);
        if is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Loan {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut lent = self.lock();
        let before = buf.filled().len();
        let polled = lent.io()?.poll_read(cx, buf);
        if polled.is_pending() && lent.noted.is_some() {
            lent.reader = Some(cx.waker().clone());
        }
        lent.note(buf.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl AsyncWrite for Loan {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut lent = self.lock();
        lent.handle_write();
        lent.io()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut lent = self.lock();
        lent.handle_write();
        lent.io()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().socket.as_ref().is_some_and(|socket| socket.io.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lent = self.lock();
        if lent.socket.is_none() {
            return Poll::Ready(Ok(()));
        }
        let polled = lent.io()?.poll_flush(cx);
        lent.is_flushed = matches!(polled, Poll::Ready(Ok(())));
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lent = self.lock();
        if lent.socket.is_none() {
            return Poll::Ready(Ok(()));
        }
        lent.io()?.poll_shutdown(cx)
    }
}
