//! A switch that tells a server to stop: given to whoever decides, and to the server.
//!
//! ```text
//! running ──trigger()──► draining: no new connections, streams may end ──all ended or `drain` passed──► stopped
//! ```

use std::sync::Arc;

use tokio::sync::watch;

/// A switch that can be turned once. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct Shutdown {
    state: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A switch that is not turned yet.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(false)) }
    }

    /// Turns it. Turning it again does nothing.
    pub fn trigger(&self) {
        self.state.send_replace(true);
    }

    /// True if it was turned.
    pub fn is_triggered(&self) -> bool {
        *self.state.borrow()
    }

    /// Waits until it is turned.
    pub async fn triggered(&self) {
        // The sender is ours, so it cannot be gone.
        drop(self.state.subscribe().wait_for(|turned| *turned).await);
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Connections that had to be cut because their streams did not end within the limit.
    pub cut: usize,
}
