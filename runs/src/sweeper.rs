//! Looks for runs whose owner is gone: no run stays open.
//!
//! ```text
//! every fifth of a lease, ──► lapsed runs ──► take over, go on or end ([`takeover`](crate::takeover))
//! and when a lease was        └ not within a lease after the log could not be used: owners must get a chance to renew;
//! released                      but released ones at once
//! ```

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use aqueduct_runlog::{LogError, RunState};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::runs::Runs;

/// Looks within one lease.
const LOOKS: u32 = 5;
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Runs that are taken over in one look, and how many of them at once.
const RUNS: usize = 1_000;
const AT_ONCE: usize = 64;

impl Runs {
    /// Takes over runs whose lease has lapsed, without end.
    pub(crate) async fn sweep(&self) {
        let lease = self.setup().settings.lease;
        let mut trouble: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            let lapsed = self.look().await;
            // A log that took long to answer was away, for owners as well: a lease renewed every third of its length
            // lapses when the log is away for two thirds.
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
                () = tokio::time::sleep((lease / LOOKS).min(LONGEST_PAUSE)) => {}
                () = self.run_log().released() => {}
            }
        }
    }

    /// Takes over all runs whose lease has lapsed by now.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub async fn sweep_once(&self) -> Result<(), LogError> {
        let lapsed = self.look().await?;
        self.take_over_all(lapsed).await;
        Ok(())
    }

    /// What is driven here is alive, however late its renewal is.
    async fn look(&self) -> Result<Vec<RunState>, LogError> {
        let now = self.now();
        let mut lapsed = self.run_log().lapsed(now, RUNS).await?;
        lapsed.retain(|run| !self.0.replica.holds(&run.meta.run_id));
        // Replicas that look at about the same time begin with different runs.
        lapsed.sort_by_cached_key(|run| {
            let mut order = DefaultHasher::new();
            (now.0, run.meta.run_id.as_str()).hash(&mut order);
            order.finish()
        });
        Ok(lapsed)
    }

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
