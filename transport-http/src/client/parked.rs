//! Connections whose streams have ended, kept for the next request to the same upstream.
//!
//! hyper pools its own connections; a stream that took its socket ([`loan`](super::loan)) parks it here, and the connector
//! looks here before it connects. Bounded like hyper's pool: in number per upstream, and in time.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use http::Uri;
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::loan::Socket;

/// The parked connections.
pub(crate) struct Parked {
    waiting: Mutex<Vec<(Instant, Socket)>>,
    /// The most parked connections per upstream.
    limit: usize,
    keep: Duration,
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parked").field("limit", &self.limit).field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl Parked {
    /// Returns a pool that holds `limit` sockets for at most `keep` each.
    pub(crate) fn new(limit: usize, keep: Duration) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), limit, keep })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Instant, Socket)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection to that upstream that was parked last, if the peer has not closed it.
    pub(crate) fn take(&self, target: &Uri) -> Option<Socket> {
        self.close_old();
        let mut waiting = self.waiting();
        loop {
            let place = waiting.iter().rposition(|(_, socket)| is_same(&socket.target, target))?;
            let (_, mut socket) = waiting.remove(place);
            if is_open(&mut socket) {
                return Some(socket);
            }
        }
    }

    /// Parks a connection for `keep`.
    pub(crate) fn put(self: &Arc<Self>, socket: Socket) {
        let mut waiting = self.waiting();
        let same = waiting.iter().filter(|(_, other)| is_same(&other.target, &socket.target)).count();
        if same >= self.limit {
            return;
        }
        waiting.push((Instant::now(), socket));
        drop(waiting);
        let parked = Arc::downgrade(self);
        let keep = self.keep;
        tokio::spawn(async move {
            tokio::time::sleep(keep).await;
            if let Some(parked) = parked.upgrade() {
                parked.close_old();
            }
        });
    }

    /// Closes connections that were parked for longer than `keep`.
    fn close_old(&self) {
        let now = Instant::now();
        self.waiting().retain(|(since, _)| now.duration_since(*since) < self.keep);
    }
}

/// Returns `true` if both addresses have the same scheme, host and port.
fn is_same(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && one.authority() == other.authority()
}

/// Returns `true` if a read is pending: there is neither a byte nor the end of the connection.
fn is_open(socket: &mut Socket) -> bool {
    let mut byte = [0];
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(&mut *socket.io).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
}
