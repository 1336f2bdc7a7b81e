//! The handoff of a connection: hyper holds the socket and the body of a stream only by handles, so that both can be taken
//! back while the stream is quiet.
//!
//! ```text
//!             lend_stream              taken when all of these hold, right after hyper was polled:
//!  nothing ──────────────► lent ──────  * the request was read to its end
//!                                       * the body is pending, and all its bytes are written to the socket
//!                                       * the peer sent nothing that hyper would buffer
//! ```
//!
//! Why: hyper keeps some 30 KiB per connection of HTTP/1.1 while a stream is quiet, and agents are quiet most of the time. The
//! conditions are observed from the outside: hyper flushes the socket only when its write buffer is empty, and reads during
//! a response only when its read buffer is empty. The tests `quiet` fail if that changes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body as AxumBody;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::exchange::Exchange;
use super::io::GuardedSocket;

/// The body of a stream in progress, and its entry in the counts.
#[derive(Debug)]
pub(crate) struct LentStream {
    pub(crate) body: AxumBody,
    pub(crate) _exchange: Exchange,
    /// Set if the connection can carry another request after the stream.
    pub(crate) keeps_connection: bool,
}

/// The socket and the stream of one connection.
#[derive(Debug)]
pub(crate) struct Handoff {
    lent: Mutex<Lent>,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that come and go independently of each other")]
pub(crate) struct Lent {
    pub(crate) socket: Option<GuardedSocket>,
    pub(crate) stream: Option<LentStream>,
    request_ended: bool,
    body_waits: bool,
    is_flushed: bool,
    read_waits: bool,
}

impl Handoff {
    pub(crate) fn new(socket: GuardedSocket) -> Arc<Self> {
        let lent = Lent { socket: Some(socket), ..Lent::default() };
        Arc::new(Self { lent: Mutex::new(lent) })
    }

    /// Ignores poisoning: after a panic in a poll the connection is about to be dropped.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the head of a request. Its body may still be incomplete.
    pub(crate) fn handle_request(&self) {
        self.lock().request_ended = false;
    }

    /// Handles the end of a request's body. Later bytes belong to the next request.
    pub(crate) fn handle_request_end(&self) {
        let mut lent = self.lock();
        lent.request_ended = true;
        lent.read_waits = false;
    }

    /// Handles the start of a streamed response.
    pub(crate) fn lend_stream(&self, stream: LentStream) {
        let mut lent = self.lock();
        lent.stream = Some(stream);
        lent.body_waits = false;
        lent.is_flushed = false;
    }

    /// Takes the socket and the stream, if hyper buffers nothing of them.
    pub(crate) fn take_quiet(&self) -> Option<(GuardedSocket, LentStream)> {
        let mut lent = self.lock();
        if !(lent.may_be_quiet() && lent.read_waits) {
            return None;
        }
        let stream = lent.stream.take()?;
        let socket = lent.socket.take()?;
        Some((socket, stream))
    }

    /// Returns `true` if only a read from the peer is missing: polling hyper once more performs it.
    pub(crate) fn needs_read(&self) -> bool {
        let lent = self.lock();
        lent.may_be_quiet() && !lent.read_waits
    }
}

impl Lent {
    /// Returns `true` if the request was read, the body is pending, and its bytes are written.
    fn may_be_quiet(&self) -> bool {
        self.stream.is_some() && self.request_ended && self.body_waits && self.is_flushed
    }

    /// Records the result of the last poll of the body.
    pub(crate) fn handle_body_poll(&mut self, is_pending: bool) {
        self.body_waits = is_pending;
        self.is_flushed &= is_pending;
    }

    fn socket(&mut self) -> io::Result<Pin<&mut GuardedSocket>> {
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(socket))
    }
}

/// The handle that hyper has for a socket.
#[derive(Debug)]
pub(crate) struct SocketHandle(pub(crate) Arc<Handoff>);

impl AsyncRead for SocketHandle {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut lent = self.0.lock();
        let polled = lent.socket()?.poll_read(cx, buf);
        lent.read_waits = polled.is_pending();
        polled
    }
}

impl AsyncWrite for SocketHandle {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut lent = self.0.lock();
        lent.is_flushed = false;
        lent.socket()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut lent = self.0.lock();
        lent.is_flushed = false;
        lent.socket()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().socket.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lent = self.0.lock();
        let polled = lent.socket()?.poll_flush(cx);
        lent.is_flushed = matches!(polled, Poll::Ready(Ok(())));
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().socket()?.poll_shutdown(cx)
    }
}
