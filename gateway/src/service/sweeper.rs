//! Ends runs whose gateway is gone: no run stays open for ever.
//!
//! ```text
//! every fifth of a lease:  lapsed runs ──► take over (fence) ──► read the log ──► close what is open, and fail
//!                          └ not within a lease after the log could not be used: owners must get a chance to renew
//! ```
//!
//! What the agent said after its gateway died is not in the log and not in the end: nobody listened.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::RunFailure;
use aqueduct_runlog::{Lease, LogError, Remains, RunState};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::{Gateway, now};

/// The gateway that drove the run is gone.
const GATEWAY_LOST: &str = "gateway_lost";
/// Looks within one lease.
const LOOKS: u32 = 5;
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Runs that are ended in one look, and how many of them at once.
const RUNS: usize = 1_000;
const AT_ONCE: usize = 16;
/// Events that are read at once.
const PAGE: usize = 1_000;

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
                Ok(left) if trouble.is_none_or(|since| since.elapsed() > lease) => self.end_all(left).await,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the run log cannot be swept"),
            }
            tokio::time::sleep((lease / LOOKS).min(LONGEST_PAUSE)).await;
        }
    }

    /// Ends all runs whose lease has lapsed by now.
    pub async fn sweep_once(self: &Arc<Self>) -> Result<(), LogError> {
        let left = self.look().await?;
        self.end_all(left).await;
        Ok(())
    }

    /// What is driven here is alive, however late its renewal is.
    async fn look(&self) -> Result<Vec<RunState>, LogError> {
        let lapsed = self.log.lapsed(now(), RUNS).await?;
        Ok(lapsed.into_iter().filter(|run| !self.replica.holds(&run.meta.run_id)).collect())
    }

    async fn end_all(self: &Arc<Self>, left: Vec<RunState>) {
        let ends = left.into_iter().map(|run| {
            let gateway = Arc::clone(self);
            async move {
                if let Err(error) = gateway.end_left(&run).await {
                    let run = run.meta.run_id.as_str();
                    tracing::warn!(run, %error, "a run that was left could not be ended");
                }
            }
        });
        futures_util::stream::iter(ends).for_each_concurrent(AT_ONCE, |end| end).await;
    }

    async fn end_left(&self, run: &RunState) -> Result<(), LogError> {
        let lease = match self.log.take_over(&run.meta.run_id, now(), self.lease_until()).await {
            Ok(lease) => lease,
            // Somebody else was quicker, or it is over.
            Err(LogError::Held { .. } | LogError::Closed(_) | LogError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let remains = self.read_remains(&lease).await?;
        let message =
            "the gateway that ran this is gone, and its agent cannot be asked to go on: run it again";
        let end = remains.end(&run.meta, RunFailure::new(GATEWAY_LOST, message));
        self.log.append(&lease, end, now()).await.map_err(LogError::from)?;
        self.metrics.run_ended(GATEWAY_LOST, Duration::ZERO);
        tracing::warn!(
            run = run.meta.run_id.as_str(),
            agent = run.meta.agent,
            "a run that was left has been ended"
        );
        Ok(())
    }

    /// Read after the fence: nobody adds anything any more.
    async fn read_remains(&self, lease: &Lease) -> Result<Remains, LogError> {
        let mut remains = Remains::default();
        let mut after = self.log.state(&lease.run_id).await?.earliest - 1;
        loop {
            let page = self.log.read(&lease.run_id, after, PAGE).await?;
            for event in &page.events {
                remains.handle_event(&event.event);
            }
            match page.events.last() {
                Some(last) if last.number < page.head => after = last.number,
                _ => return Ok(remains),
            }
        }
    }
}
