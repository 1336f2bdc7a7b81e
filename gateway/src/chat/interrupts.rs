//! A listener for repeated Ctrl-C. A new listener for each wait would miss a signal between two waits.
//!
//! From the first listener on, Ctrl-C no longer ends the process by itself: the code that waits has to react to
//! every one of them. Waiting is cancel-safe: a signal that arrives while nothing waits is returned by the next wait.

use std::io::Result;

/// Receives Ctrl-C once created; before, Ctrl-C ends the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(not(unix))]
    signal: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Starts to listen.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?,
            #[cfg(not(unix))]
            signal: tokio::signal::windows::ctrl_c()?,
        })
    }

    /// Waits for the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            // Signals cannot be received any more: the system ends the program.
            std::future::pending::<()>().await;
        }
    }
}
