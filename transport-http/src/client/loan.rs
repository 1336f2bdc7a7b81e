//! The socket of a connection, which the HTTP library has only by handle, so that a quiet stream can take it.
//!
//! ```text
//!            request is written           taken when all of it is true:
//!  lent ──────────────────────► noted ───  * the request is with the socket
//!   ▲                             │        * every byte of the body that was read has reached the stream
//!   │                             └ more was read than is noted: stays with the library
//!   └──── the stream came to its end: the socket carries the next request (`parked.rs`)
//! ```
//!
//! Why: hyper keeps some 30 KiB per connection of HTTP/1.1 (two buffers, a channel of requests, two tasks) while a stream is
//! quiet, and agents are quiet most of the time; and what it reads reaches the stream through a task of its own. What
//! was read is seen from the outside: the bytes of a response are noted until its stream takes the socket, and what they
//! hold is compared with what the library has given out.
//!
//! Connections of HTTP/2 are never taken: they carry other requests.

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

use super::framing::{BodyDecoder, Framing};

/// Bytes of a response that are noted. A stream that has said more before its first pause stays with the library.
const NOTED_BYTES: usize = 16 * 1024;

/// Plain or encrypted.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a connector gives, as small as it can be held: room for a TLS session that is not there is most of a quiet
/// stream.
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
    /// It speaks HTTP/2, as both sides agreed.
    pub(crate) is_http2: bool,
}

/// What the library has for a socket.
pub(crate) struct Loan(Arc<Mutex<Lent>>);

/// Where a stream finds the socket of its response. It does not keep it open.
#[derive(Clone)]
pub(crate) struct LoanRef(Weak<Mutex<Lent>>);

struct Lent {
    socket: Option<Socket>,
    /// What came since the last request; none if it is not noted.
    noted: Option<Vec<u8>>,
    may_be_taken: bool,
    is_flushed: bool,
    /// The library, while it waits for bytes.
    reader: Option<Waker>,
}

impl fmt::Debug for LoanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoanRef").finish_non_exhaustive()
    }
}

/// A poisoned lock means that a poll panicked, and then the connection is on its way out.
fn lock(lent: &Mutex<Lent>) -> MutexGuard<'_, Lent> {
    lent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loan {
    /// `is_http2`: spoken without asking.
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
    /// The socket and how far its body was read, if the library holds nothing of it: it has given out so many bytes.
    pub(crate) fn take(&self, framing: Framing, given: u64) -> Option<(Socket, BodyDecoder)> {
        let lent = self.0.upgrade()?;
        let mut lent = lock(&lent);
        if !lent.is_flushed {
            return None;
        }
        let mut decoder = BodyDecoder::new(framing);
        let mut content = Vec::new();
        decoder.decode(body_of(lent.noted.as_deref()?)?, &mut content).ok()?;
        if content.len() as u64 != given || decoder.has_ended() {
            return None;
        }
        lent.noted = None;
        let socket = lent.socket.take()?;
        let reader = lent.reader.take();
        drop(lent);
        // It finds nothing to read from any more, and ends.
        reader.into_iter().for_each(Waker::wake);
        Some((socket, decoder))
    }
}

/// What follows the head of a response, and the heads of interim ones before it.
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

    fn handle_write(&mut self) {
        self.is_flushed = false;
        self.noted = self.may_be_taken.then(Vec::new);
    }

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
    /// Responses carry the way to it, for their streams.
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
