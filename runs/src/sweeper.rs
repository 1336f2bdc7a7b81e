//! The sweeper: takes over runs whose lease has lapsed, so that no run stays open.
//!
//! ```text
//! every fifth of a lease, ──► lapsed runs ──► take over, go on or end ([`takeover`](crate::takeover))
//! and when a lease was        └ not within a lease after the log was unavailable: owners must have time to renew;
//! released                      released runs at once
//! ```

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use aqueduct_runlog::{LogError, RunState};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::runs::Runs;

/// Sweeps within one lease.
const LOOKS: u32 = 5;
/// The longest pause between two sweeps.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The most runs taken over in one sweep, and how many of them concurrently.
const RUNS: usize = 1_000;
const AT_ONCE: usize = 64;

impl Runs {
    /// Takes over runs whose lease has lapsed, in an endless loop.
    pub(crate) async fn sweep(&self) {
        let lease = self.setup().settings.lease;
        let mut trouble: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            let lapsed = self.look().await;
            // A slow answer means that the log was unavailable for owners as well: a lease that is renewed every third of its
            // length lapses if the log is unavailable for two thirds.
            if lapsed.is_err() || begun.elapsed() > lease * 2 / 3 {
                trouble = Some(Instant::now());
            }
            match lapsed {
                Ok(mut lapsed) => {
                    if trouble.is_some_and(|since| since.elapsed() <= lease) {
                        lapsed.retain(RunState::is_released);
                    }
                    self.take_over_all(lapsed).await;
                }
                Err(error) => tracing::warn!(%error, "the run log cannot be swept"),
            }
            tokio::select! {
                biased;
                () = self.run_log().released() => {}
                () = tokio::time::sleep((lease / LOOKS).min(LONGEST_PAUSE)) => {}
            }
        }
    }

    /// Takes over all runs whose lease has lapsed.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub async fn sweep_once(&self) -> Result<(), LogError> {
        let lapsed = self.look().await?;
        self.take_over_all(lapsed).await;
        Ok(())
    }

    /// Returns the lapsed runs, except those that this replica drives: a late renewal does not make them lapsed.
    async fn look(&self) -> Result<Vec<RunState>, LogError> {
        let now = self.now();
        let mut lapsed = self.run_log().lapsed(now, RUNS).await?;
        lapsed.retain(|run| !self.0.replica.holds(&run.meta.run_id));
        // Replicas that sweep at the same time start with different runs.
        lapsed.sort_by_cached_key(|run| {
            let mut order = DefaultHasher::new();
            (now.0, run.meta.run_id.as_str()).hash(&mut order);
            order.finish()
        });
        Ok(lapsed)
    }

    /// Takes over runs concurrently, up to the limit. A failure affects only its run.
    async fn take_over_all(&self, lapsed: Vec<RunState>) {
        let taken = lapsed.into_iter().map(|run| {
            let runs = self.clone();
            async move {
                if let Err(error) = runs.take_over(&run).await {
                    let run = run.meta.run_id.as_str();
                    tracing::warn!(run, %error, "a lapsed run could not be taken over");
                }
            }
        });
        futures_util::stream::iter(taken).for_each_concurrent(AT_ONCE, |run| run).await;
    }
}
