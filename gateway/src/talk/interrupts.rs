//! Ctrl-C, again and again. Waiting anew each time would miss what comes between two waits.

use std::io::Result;

/// Ctrl-C from the moment this is made; before, it ends the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Interrupts {
    /// Listens from now on.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        let heard = self.signal.recv().await.is_some();
        #[cfg(not(unix))]
        let heard = tokio::signal::ctrl_c().await.is_ok();
        if !heard {
            // Signals cannot be heard any more: the system ends the program by itself.
            std::future::pending::<()>().await;
        }
    }
}
