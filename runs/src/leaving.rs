//! Shutdown of an engine: runs that another replica can resume are handed over, the others get time to end.
//!
//! ```text
//! Serving ── hand_over ──► HandingOver ────────────────────────────────────── last_call ──► LastCall
//!                          │ a run that can be resumed elsewhere: its driver stops, its   │ remaining runs are handed over,
//!                          │ lease is released, its watchers get a resumable end          │ or fail as `gateway_lost`
//!                          └ any other run continues, with its watchers
//! ```
//!
//! Invariants: this engine appends no event to a run that it handed over, and does not cancel its agent; a log that ends
//! with this process hands no run over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_runlog::Lease;
use tokio::sync::watch;

use crate::handle::RunHandle;
use crate::replica::locked;
use crate::runs::Runs;

/// The interval at which drivers and watchers check whether they can stop.
const TICK: Duration = Duration::from_millis(100);

/// The shutdown stage of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Runs start and continue.
    Serving,
    /// Runs that can be resumed elsewhere are handed over.
    HandingOver,
    /// Remaining runs are handed over or failed.
    LastCall,
}

/// The signal to the watchers.
#[derive(Debug, Clone, Copy, Default)]
struct Halt {
    /// Set while runs are handed over.
    is_leaving: bool,
    /// Set while the log has been unavailable for too long.
    is_outage: bool,
}

/// The shutdown stage of an engine, and the signal that stops its watchers before the end of their run.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    stage: AtomicU8,
    halt: watch::Sender<Halt>,
}

impl Leaving {
    /// Returns the current stage.
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Serving,
            1 => Stage::HandingOver,
            _ => Stage::LastCall,
        }
    }

    /// Stops all watchers, or admits new ones again.
    pub(crate) fn set_outage(&self, is_outage: bool) {
        self.halt.send_modify(|halt| halt.is_outage = is_outage);
    }

    /// Waits until a watcher of `run`, or of a run that another replica drives, must stop.
    pub(crate) fn halted(&self, run: Option<Arc<RunHandle>>) -> impl Future<Output = ()> + Send + use<> {
        let mut halts = self.halt.subscribe();
        async move {
            let is_handed_over =
                |halt: &Halt| halt.is_leaving && run.as_ref().is_none_or(|run| run.is_handed_over());
            if halts.wait_for(|halt| halt.is_outage || is_handed_over(halt)).await.is_err() {
                // The engine is dropped. The log decides whether the events end.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Runs {
    /// Hands over every run that another replica can resume, as soon as possible. Cancels no run. Implies [`Runs::drain`].
    pub fn hand_over(&self) {
        self.enter(Stage::HandingOver);
    }

    /// Ends the remaining runs: hands over those that another replica can resume, fails the others as `gateway_lost`.
    pub fn last_call(&self) {
        self.enter(Stage::LastCall);
    }

    /// Enters a stage; a later stage is never left for an earlier one.
    fn enter(&self, stage: Stage) {
        self.drain();
        self.0.leaving.stage.fetch_max(stage as u8, Ordering::SeqCst);
        self.tick();
    }

    /// Wakes drivers and watchers to check the stage.
    fn tick(&self) {
        self.active().values().for_each(|run| run.wake());
        self.0.leaving.halt.send_modify(|halt| halt.is_leaving = true);
    }

    /// Waits until this engine drives no run, and releases its remaining leases. Must be called after [`Runs::hand_over`].
    pub async fn left(&self) {
        while self.active_runs() > 0 {
            tokio::time::sleep(TICK).await;
            self.tick();
        }
        self.tick();
        let held = std::mem::take(&mut *locked(&self.0.replica.held));
        let stop_work = |(lease, lost): (Lease, CancelToken)| {
            // Errands and mailboxes under the lease stop before another replica takes them over.
            lost.cancel();
            lease
        };
        let held = held.into_values().map(stop_work).collect();
        if let Err(error) = self.run_log().release(held).await {
            tracing::warn!(%error, "leases could not be released: they lapse");
        }
    }
}
