//! The shutdown of a server, in stages that services can observe.
//!
//! ```text
//! serving ──► leaving: everything works; health checks fail, so that load balancers send no new requests (optional)
//!     └──stop──► draining: no new connections or requests; streams may end by themselves
//!                       └─ `drain` elapsed ──► closing: streams are asked to end ── `close` elapsed ──► cut
//! ```
//!
//! A connection counts until its socket is closed, also after an upgrade.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::CancelToken;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::config::Timeouts;

/// The stages of the shutdown, as an extension of every request: for services whose streams outlive a request.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stopping {
    /// Cancelled when health checks must fail although the server still accepts connections.
    pub leaving: CancelToken,
    /// Cancelled when the server stops accepting connections.
    pub draining: CancelToken,
    /// Cancelled when the limit `drain` has elapsed: open streams end now, or are cut.
    pub closing: CancelToken,
}

impl Stopping {
    pub(super) fn new(leaving: CancelToken, stop: CancelToken) -> Self {
        Self { leaving, draining: stop, closing: CancelToken::new() }
    }
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// The number of connections still open after the limits `drain` and `close`.
    pub cut: usize,
}

/// The open connections of a server. Dropping it drops those that were not upgraded.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) tasks: JoinSet<()>,
    permits: Arc<Semaphore>,
    most: u32,
}

impl Open {
    pub(super) fn new(most: usize) -> Self {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        Self { tasks: JoinSet::new(), permits: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Waits for a permit among the connections. The semaphore is never closed.
    pub(super) fn permit(&self) -> impl Future<Output = Option<OwnedSemaphorePermit>> + use<> {
        let permits = Arc::clone(&self.permits);
        async move { permits.acquire_owned().await.ok() }
    }

    /// Waits for the end of all connections, in the stages of the module docs.
    pub(super) async fn drain(mut self, timeouts: &Timeouts, stopping: &Stopping) -> Drained {
        let is_empty = self.ends_within(timeouts.drain).await;
        stopping.closing.cancel();
        if is_empty || self.ends_within(timeouts.close).await {
            return Drained::default();
        }
        let cut = (self.most as usize).saturating_sub(self.permits.available_permits());
        self.tasks.shutdown().await;
        Drained { cut }
    }

    async fn ends_within(&mut self, limit: Duration) -> bool {
        let ended = async {
            while self.tasks.join_next().await.is_some() {}
            // Upgraded sockets have left the tasks but keep their permits.
            drop(self.permits.acquire_many(self.most).await);
        };
        tokio::time::timeout(limit, ended).await.is_ok()
    }
}
