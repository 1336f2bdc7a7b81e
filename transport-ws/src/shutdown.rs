//! Stopping without cutting: connections are told, close with 1001, and are waited for.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time;

use crate::counters::Counters;

/// Stops a server. Clones stop the same one.
#[derive(Debug, Clone)]
pub struct Shutdown {
    stopping: watch::Sender<bool>,
    /// Receivers are held by connections, so their number is the number of connections.
    counters: Counters,
}

/// What a connection holds to hear of the end; as long as one is held, [`Shutdown::stop`] waits.
#[derive(Debug, Clone)]
pub(crate) struct Listener(watch::Receiver<bool>);

impl Shutdown {
    pub(crate) fn new(counters: Counters) -> Self {
        Self { stopping: watch::Sender::new(false), counters }
    }

    pub(crate) fn listener(&self) -> Listener {
        Listener(self.stopping.subscribe())
    }

    /// True once stopping has begun: new connections are refused.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Closes every connection with 1001 and waits until all have gone, but not longer than `patience`. Gives the
    /// number of connections that are still there.
    pub async fn stop(&self, patience: Duration) -> u64 {
        self.stopping.send_replace(true);
        // Every connection ends by itself within its close timeout; who is still there then does not poll.
        let all_gone = time::timeout(patience, self.stopping.closed()).await;
        if all_gone.is_ok() { 0 } else { self.counters.snapshot().connections }
    }
}

impl Listener {
    /// Ends when stopping begins.
    pub(crate) async fn stopping(mut self) {
        // The sender gone means that nobody can stop this server any more: then it never stops.
        if self.0.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
