//! A socket that gives up on a peer which takes no byte.
//!
//! HTTP/2 answers every PING and SETTINGS frame. A peer that floods with them and reads no answer would be kept for ever:
//! our own pings cannot go out either, so nobody misses their answers. The timer is there only while a write waits.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::counters::Counters;

/// A socket whose writes may wait for so long and no longer. Any progress starts the time anew.
pub(super) struct Guarded<I> {
    io: I,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    counters: Counters,
}

impl<I> Guarded<I> {
    pub(super) fn new(io: I, limit: Duration, counters: Counters) -> Self {
        Self { io, limit, waiting: None, counters }
    }

    fn in_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let limit = self.limit;
        let timer = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        std::task::ready!(timer.as_mut().poll(cx));
        self.waiting = None;
        self.counters.stalled();
        let late = "the peer took no byte within `write_stall`";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Guarded<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Guarded<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.in_time(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.in_time(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.in_time(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.in_time(cx, polled)
    }
}
