//! A quiet HTTP/1.1 stream that was taken from hyper: writes the rest of its chunked body, and holds only the socket and the
//! stream.
//!
//! ```text
//!           bytes from the body                 end of the body
//!  waiting ─────────────────────► writing ◄────────────────────── waiting
//!     ▲                             │  │ after the end: the socket is returned to hyper
//!     └──────── all written ────────┘  └──────────────────────────────────────────────────────► done
//!  peer gone, stalled, body failed: the socket is closed without the end of the body
//! ```
//!
//! The chunk framing is RFC 9112, section 7.1. hyper wrote the head and the first chunks.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::Body as _;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::handoff::LentStream;
use super::io::GuardedSocket;

/// Room for `ffffffff` and the line ends.
const FRAMING_BYTES: usize = 16;

/// Bytes that a peer may send ahead; the rest stays in the kernel.
const READ_AHEAD_BYTES: usize = 64;

/// A stream without hyper.
#[derive(Debug)]
pub(crate) struct QuietStream {
    socket: GuardedSocket,
    stream: LentStream,
    /// The framed chunk in progress. Released when it is written.
    chunk: Vec<u8>,
    written: usize,
    is_flushed: bool,
    has_ended: bool,
    /// Set if the peer sent the start of its next request; nothing more is read until the end.
    has_read_ahead: bool,
}

impl QuietStream {
    pub(crate) fn new(socket: GuardedSocket, stream: LentStream) -> Self {
        Self {
            socket,
            stream,
            chunk: Vec::new(),
            written: 0,
            is_flushed: true,
            has_ended: false,
            has_read_ahead: false,
        }
    }

    /// Completes when the stream has ended or failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.poll_write(cx)).is_err() {
                self.stream.keeps_connection = false;
                return Poll::Ready(());
            }
            if self.has_ended {
                return Poll::Ready(());
            }
            match Pin::new(&mut self.stream.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers were not announced, so they cannot be sent.
                    if let Ok(bytes) = frame.into_data() {
                        self.put(&bytes);
                    }
                    if self.stream.body.is_end_stream() {
                        self.end();
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(()),
                Poll::Ready(None) => self.end(),
                Poll::Pending => return self.poll_peer(cx),
            }
        }
    }

    /// Returns the socket after a complete stream. Returns `None` otherwise.
    pub(crate) fn into_socket(self) -> Option<GuardedSocket> {
        (self.has_ended && self.stream.keeps_connection).then_some(self.socket)
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return; // A chunk of no bytes would be the end.
        }
        self.chunk.reserve(bytes.len() + FRAMING_BYTES);
        // Writing to a vector cannot fail.
        write!(self.chunk, "{:x}\r\n", bytes.len()).ok();
        self.chunk.extend_from_slice(bytes);
        self.chunk.extend_from_slice(b"\r\n");
    }

    fn end(&mut self) {
        self.chunk.extend_from_slice(b"0\r\n\r\n");
        self.has_ended = true;
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.chunk.get(self.written..) {
            self.is_flushed = false;
            let count = ready!(Pin::new(&mut self.socket).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
            self.is_flushed = true;
            self.chunk = Vec::new();
            self.written = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Completes when the peer has disconnected.
    fn poll_peer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.has_read_ahead {
            let mut bytes = [0; READ_AHEAD_BYTES];
            let mut buf = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {
                    self.has_read_ahead = true;
                    self.socket.put_back(buf.filled());
                }
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}
