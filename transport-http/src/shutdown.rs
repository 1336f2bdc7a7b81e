//! A switch that tells a server to stop: given to whoever decides, and to the server.
//!
//! ```text
//! running ──trigger()──► draining: no new connections, streams may end ──all ended or `drain` passed──► stopped
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A switch that can be turned once. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    switch: Arc<Switch>,
}

/// Small, because every run has some: a channel that tells values is ten times as large.
#[derive(Debug, Default)]
struct Switch {
    is_turned: AtomicBool,
    turned: Notify,
}

impl Shutdown {
    /// A switch that is not turned yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns it. Turning it again does nothing.
    pub fn trigger(&self) {
        self.switch.is_turned.store(true, Ordering::SeqCst);
        self.switch.turned.notify_waiters();
    }

    /// True if it was turned.
    pub fn is_triggered(&self) -> bool {
        self.switch.is_turned.load(Ordering::SeqCst)
    }

    /// Waits until it is turned.
    pub async fn triggered(&self) {
        // Made before the look: it is told of every turn after that, also while it is not polled.
        let turned = self.switch.turned.notified();
        if !self.is_triggered() {
            turned.await;
        }
    }
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Connections that had to be cut because their streams did not end within the limit.
    pub cut: usize,
}
