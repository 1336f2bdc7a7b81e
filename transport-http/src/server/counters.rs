//! Live counts of a server, for metrics and for tests that want to see everything back at zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one server. Clones show the same counts.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    inner: Arc<Counts>,
}

/// Each field is a count. What is `open` goes down again, the rest only up.
#[derive(Debug, Default)]
struct Counts {
    connections_open: AtomicU64,
    connections_total: AtomicU64,
    requests_open: AtomicU64,
    requests_total: AtomicU64,
    handshake_failures: AtomicU64,
    accept_failures: AtomicU64,
    header_timeouts: AtomicU64,
    idle_timeouts: AtomicU64,
    write_stalls: AtomicU64,
    handoffs: AtomicU64,
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident)+) => {
        impl Counters {
            $($(#[$doc])* pub fn $name(&self) -> u64 {
                self.inner.$name.load(Ordering::Relaxed)
            })+
        }
    };
}

readers! {
    /// Sockets that are open, also those that were handed over by an upgrade.
    connections_open
    /// Sockets that were accepted.
    connections_total
    /// Requests whose response is not wholly handed over: on a server of streams, the open streams.
    requests_open
    /// Requests that reached a route.
    requests_total
    /// TLS handshakes that failed or took too long.
    handshake_failures
    /// Times the kernel could not give a new socket (out of files, aborted before it was accepted).
    accept_failures
    /// Connections closed because a request's head did not come in time.
    header_timeouts
    /// Connections closed because no request came for long.
    idle_timeouts
    /// Streams and connections closed because the peer took nothing for long.
    write_stalls
    /// Times a stream went quiet and was taken from the HTTP library to save its buffers.
    handoffs
}

impl Counters {
    pub(crate) fn count(&self, event: Counted) {
        let counter = match event {
            Counted::HandshakeFailure => &self.inner.handshake_failures,
            Counted::AcceptFailure => &self.inner.accept_failures,
            Counted::HeaderTimeout => &self.inner.header_timeouts,
            Counted::IdleTimeout => &self.inner.idle_timeouts,
            Counted::WriteStall => &self.inner.write_stalls,
            Counted::Handoff => &self.inner.handoffs,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn open_connection(&self) -> OpenGuard {
        self.inner.connections_total.fetch_add(1, Ordering::Relaxed);
        self.inner.connections_open.fetch_add(1, Ordering::Relaxed);
        OpenGuard { counters: self.clone(), what: Open::Connection }
    }

    /// Counts a request as open until the guard is dropped.
    pub(crate) fn open_request(&self) -> OpenGuard {
        self.inner.requests_total.fetch_add(1, Ordering::Relaxed);
        self.inner.requests_open.fetch_add(1, Ordering::Relaxed);
        OpenGuard { counters: self.clone(), what: Open::Request }
    }
}

/// Things that only happen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counted {
    HandshakeFailure,
    AcceptFailure,
    HeaderTimeout,
    IdleTimeout,
    WriteStall,
    Handoff,
}

#[derive(Debug, Clone, Copy)]
enum Open {
    Connection,
    Request,
}

/// Counts something as open while it lives.
#[derive(Debug)]
pub(crate) struct OpenGuard {
    counters: Counters,
    what: Open,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let counter = match self.what {
            Open::Connection => &self.counters.inner.connections_open,
            Open::Request => &self.counters.inner.requests_open,
        };
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}
