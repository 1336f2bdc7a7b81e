//! How an engine leaves: runs that can go on elsewhere are handed over, the others get time to end.
//!
//! ```text
//! Serving ── hand_over ──► HandingOver ────────────────────────────────────── last_call ──► LastCall
//!                          │ a run whose agent can be found again: its driver stops, its  │ what is left is handed over,
//!                          │ lease is released, its watchers get a resumable end          │ or fails as `gateway_lost`
//!                          └ any other run goes on, with its watchers
//! ```
//!
//! Invariants: a run that is handed over gets no further event from here, and its agent is not cancelled; a log that ends
//! with this process hands nothing over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_runlog::Lease;
use tokio::sync::watch;

use crate::handle::RunHandle;
use crate::replica::locked;
use crate::runs::Runs;

/// How often drivers and watchers look whether they can leave by now.
const TICK: Duration = Duration::from_millis(100);

/// How far an engine is with leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    HandingOver,
    LastCall,
}

/// What watchers are told while they wait.
#[derive(Debug, Clone, Copy, Default)]
struct Halt {
    /// Runs are handed over.
    is_leaving: bool,
    /// The log has been unusable for too long.
    is_outage: bool,
}

/// The stage of an engine, and what makes its watchers stop before the end of their run.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    stage: AtomicU8,
    halt: watch::Sender<Halt>,
}

impl Leaving {
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Serving,
            1 => Stage::HandingOver,
            _ => Stage::LastCall,
        }
    }

    /// Ends all watchers, or lets new ones wait again.
    pub(crate) fn set_outage(&self, is_outage: bool) {
        self.halt.send_modify(|halt| halt.is_outage = is_outage);
    }

    /// Waits until a watcher of that run, or of a run that is driven elsewhere, has to stop.
    pub(crate) fn halted(&self, run: Option<Arc<RunHandle>>) -> impl Future<Output = ()> + Send + use<> {
        let mut halts = self.halt.subscribe();
        async move {
            let is_left = |halt: &Halt| halt.is_leaving && run.as_ref().is_none_or(|run| run.is_left());
            if halts.wait_for(|halt| halt.is_outage || is_left(halt)).await.is_err() {
                // The engine is gone, and the log with it or not: the log says.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Runs {
    /// Hands over every run that can go on elsewhere, as soon as it can. Nothing is cancelled. Implies [`Runs::drain`].
    pub fn hand_over(&self) {
        self.enter(Stage::HandingOver);
    }

    /// Ends what is left: a run that can go on elsewhere is handed over, any other fails as `gateway_lost`.
    pub fn last_call(&self) {
        self.enter(Stage::LastCall);
    }

    fn enter(&self, stage: Stage) {
        self.drain();
        self.0.leaving.stage.fetch_max(stage as u8, Ordering::SeqCst);
        self.tick();
    }

    /// Lets drivers and watchers look again.
    fn tick(&self) {
        self.active().values().for_each(|run| run.wake());
        self.0.leaving.halt.send_modify(|halt| halt.is_leaving = true);
    }

    /// Waits until no run is driven here, and releases what else this engine holds. To be called after
    /// [`Runs::hand_over`].
    pub async fn left(&self) {
        while self.active_runs() > 0 {
            tokio::time::sleep(TICK).await;
            self.tick();
        }
        self.tick();
        let held = std::mem::take(&mut *locked(&self.0.replica.held));
        let give_up = |(lease, lost): (Lease, CancelToken)| {
            // What works under it here stops before another replica goes on.
            lost.cancel();
            lease
        };
        let held = held.into_values().map(give_up).collect();
        if let Err(error) = self.run_log().release(held).await {
            tracing::warn!(%error, "leases could not be released: they lapse");
        }
    }
}
