//! A listener for repeated Ctrl-C. A new listener for each wait would miss a signal between two waits.
//!
//! From the first listener on, Ctrl-C no longer ends the process by itself: the code that waits has to react to
//! every one of them. On Unix, waiting is cancel-safe: a signal that arrives while nothing waits is returned by
//! the next wait. Elsewhere each wait registers again.

use std::io::Result;

/// Receives Ctrl-C once created; before, Ctrl-C ends the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Interrupts {
    /// Starts to listen.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?,
        })
    }

    /// Waits for the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        let received = self.signal.recv().await.is_some();
        #[cfg(not(unix))]
        let received = tokio::signal::ctrl_c().await.is_ok();
        if !received {
            // Signals cannot be received any more: the system ends the program.
            std::future::pending::<()>().await;
        }
    }
}
