//! A socket that counts what was read and written, because a codec that buffers reports neither progress nor how
//! much of a message it holds.
//!
//! The counts are how the driver sees progress: a write is stalled if `written` does not change while bytes wait, and a peer is alive if
//! `received` changes, whatever its messages are.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the bytes that the socket took and gave.
#[derive(Debug)]
pub(crate) struct Metered<IO> {
    io: IO,
    written: u64,
    received: u64,
}

impl<IO> Metered<IO> {
    pub(crate) fn new(io: IO) -> Self {
        Self { io, written: 0, received: 0 }
    }

    /// Returns the number of bytes that the socket has accepted.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that the socket gave so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Metered<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.received += (buffer.filled().len() - before) as u64;
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Metered<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = std::task::ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.written += taken as u64;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
