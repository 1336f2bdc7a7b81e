//! Looks for runs whose gateway is gone: no run stays open for ever.
//!
//! ```text
//! every fifth of a lease:  lapsed runs ──► take over, go on or end ([`left`](super::left))
//!                          └ not within a lease after the log could not be used: owners must get a chance to renew
//! ```

use std::sync::Arc;
use std::time::Duration;

use aqueduct_runlog::{LogError, RunState};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::{Gateway, now};

/// Looks within one lease.
const LOOKS: u32 = 5;
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Runs that are taken over in one look, and how many of them at once.
const RUNS: usize = 1_000;
const AT_ONCE: usize = 16;

impl Gateway {
    /// Looks for runs that were left, for ever.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let lease = self.config().runs.lease;
        let mut trouble: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            let left = self.look().await;
            // A log that took long to answer was away, for owners as well: a lease renewed every third of its length
            // lapses when the log is away for two thirds.
            if left.is_err() || begun.elapsed() > lease * 2 / 3 {
                trouble = Some(Instant::now());
            }
            match left {
                Ok(left) if trouble.is_none_or(|since| since.elapsed() > lease) => {
                    self.take_all_up(left).await;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the run log cannot be swept"),
            }
            tokio::time::sleep((lease / LOOKS).min(LONGEST_PAUSE)).await;
        }
    }

    /// Takes over all runs whose lease has lapsed by now.
    pub async fn sweep_once(self: &Arc<Self>) -> Result<(), LogError> {
        let left = self.look().await?;
        self.take_all_up(left).await;
        Ok(())
    }

    /// What is driven here is alive, however late its renewal is.
    async fn look(&self) -> Result<Vec<RunState>, LogError> {
        let lapsed = self.log.lapsed(now(), RUNS).await?;
        Ok(lapsed.into_iter().filter(|run| !self.replica.holds(&run.meta.run_id)).collect())
    }

    async fn take_all_up(self: &Arc<Self>, left: Vec<RunState>) {
        let taken = left.into_iter().map(|run| {
            let gateway = Arc::clone(self);
            async move {
                if let Err(error) = gateway.take_up(&run).await {
                    let run = run.meta.run_id.as_str();
                    tracing::warn!(run, %error, "a run that was left could not be taken over");
                }
            }
        });
        futures_util::stream::iter(taken).for_each_concurrent(AT_ONCE, |run| run).await;
    }
}
