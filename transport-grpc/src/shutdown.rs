//! A switch that tells a server to stop: given to whoever decides, and to the server.
//!
//! ```text
//! running ──trigger()──► draining: unhealthy, no new connections or calls; calls may end by themselves
//!                            └─ `drain` passed ──► streams end with UNAVAILABLE ── `close` passed ──► cut
//! ```

use tokio_util::sync::CancellationToken;

/// A switch that can be turned once. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A switch that is not turned yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns it. Turning it again does nothing.
    pub fn trigger(&self) {
        self.0.cancel();
    }

    /// True if it was turned.
    pub fn is_triggered(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is turned.
    pub async fn triggered(&self) {
        self.0.cancelled().await;
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Connections that had to be cut because they did not close within the limits.
    pub cut: usize,
}
