//! A guarded socket: reports arriving bytes, and fails if the peer accepts no byte within `write_stall`.
//!
//! The guard sits below hyper, so it works alike for HTTP/1.1, HTTP/2 and upgraded connections, and needs a timer only while a
//! write is pending. It holds the connection's permit: a socket counts against the limit until it is closed, also after an
//! upgrade.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::PeerCertificate;
use super::phase::PhaseWatch;
use super::workers::WorkerPermit;
use crate::counters::{Counters, OpenGuard, Total};
use crate::quota::PeerPermit;

/// A plain or encrypted connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

impl Socket {
    /// Returns the verified certificate of the peer.
    pub(crate) fn certificate(&self) -> Option<PeerCertificate> {
        match self {
            Self::Plain(_) => None,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => {
                let (_, session) = stream.get_ref();
                let first = session.peer_certificates()?.first()?;
                Some(PeerCertificate(bytes::Bytes::copy_from_slice(first)))
            }
        }
    }
}

/// A permit among the server's connections, returned when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    pub(crate) _permit: OwnedSemaphorePermit,
    pub(crate) _open: OpenGuard,
    /// Among those of its address, or among those that are refused.
    pub(crate) _peer: PeerPermit,
    /// At the thread that carries the connection.
    pub(crate) _worker: Option<WorkerPermit>,
}

#[derive(Debug)]
pub(crate) struct GuardedSocket {
    socket: Socket,
    /// Bytes that were read and put back, to be read again first.
    put_back: Vec<u8>,
    phase: Arc<PhaseWatch>,
    write_stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    counters: Counters,
    _permit: ConnectionPermit,
}

impl GuardedSocket {
    pub(crate) fn new(
        socket: Socket,
        phase: Arc<PhaseWatch>,
        write_stall: Duration,
        counters: Counters,
        permit: ConnectionPermit,
    ) -> Self {
        Self { socket, put_back: Vec::new(), phase, write_stall, stalled: None, counters, _permit: permit }
    }

    /// Puts bytes back for the next read.
    pub(crate) fn put_back(&mut self, bytes: &[u8]) {
        self.put_back.extend_from_slice(bytes);
    }

    /// Limits the time of a pending write. Any progress restarts it.
    fn limit<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let limit = self.write_stall;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.stalled = None;
        self.counters.count(Total::WriteStalls);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the peer took no byte within `write_stall`",
        )))
    }
}

/// Calls one method on either kind of socket.
macro_rules! on_socket {
    ($socket:expr, $io:ident => $call:expr) => {
        match $socket {
            Socket::Plain(stream) => {
                let $io = Pin::new(stream);
                $call
            }
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => {
                let $io = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for GuardedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.put_back.is_empty() {
            let count = self.put_back.len().min(buf.remaining());
            buf.put_slice(self.put_back.get(..count).unwrap_or_default());
            self.put_back.drain(..count);
            self.phase.handle_bytes();
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = on_socket!(&mut self.socket, io => io.poll_read(cx, buf));
        if buf.filled().len() > before {
            self.phase.handle_bytes();
        }
        polled
    }
}

impl AsyncWrite for GuardedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = on_socket!(&mut self.socket, io => io.poll_write(cx, buf));
        self.limit(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = on_socket!(&mut self.socket, io => io.poll_write_vectored(cx, bufs));
        self.limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = on_socket!(&mut self.socket, io => io.poll_flush(cx));
        self.limit(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = on_socket!(&mut self.socket, io => io.poll_shutdown(cx));
        self.limit(cx, polled)
    }
}
