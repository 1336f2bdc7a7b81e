//! A run log that is unavailable for longer than a restart takes.
//!
//! ```text
//! usable ── refuses writes ──► troubled ── for `OUTAGE_AFTER` ──► outage: watchers of open runs get a resumable end, new
//!   ▲                              │                              │      runs and watchers are refused with the reason
//!   └──────────────────────────────┴──── takes writes again ──────┘
//! ```
//!
//! Meanwhile drivers keep their events and retry, which holds their agents back. So an outage loses no event and ends by
//! itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aqueduct_core::service::{RefusalKind, ServiceError};
use tokio::time::Instant;

use crate::runs::Runs;

/// The interval at which the log is probed for writes.
const PROBE: Duration = Duration::from_secs(1);

/// The time limit of a probe.
const ANSWER: Duration = Duration::from_secs(2);

/// The time that a log may refuse writes before watchers are disconnected: longer than a server takes to restart.
const OUTAGE_AFTER: Duration = Duration::from_secs(5);

/// The reason why the log is unavailable; `None` while it is available.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<Option<String>>);

impl Outage {
    /// Sets or clears the reason.
    fn set(&self, reason: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the reason, if there is an outage.
    fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Runs {
    /// Probes the log in an endless loop.
    pub(crate) async fn probe_log(&self) {
        let mut since: Option<Instant> = None;
        loop {
            tokio::time::sleep(PROBE).await;
            let reason = match tokio::time::timeout(ANSWER, self.run_log().check()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("the run log does not answer within {ANSWER:?}")),
            };
            let Some(reason) = reason else {
                if since.take().is_some() && self.0.outage.reason().is_some() {
                    tracing::info!("the run log can be used again");
                    self.0.outage.set(None);
                    self.0.leaving.set_outage(false);
                }
                continue;
            };
            let begun = *since.get_or_insert_with(Instant::now);
            if begun.elapsed() < OUTAGE_AFTER {
                continue;
            }
            if self.0.outage.reason().is_none() {
                tracing::error!(reason, "the run log cannot be used: watchers are sent away until it can");
            }
            self.0.outage.set(Some(reason));
            self.0.leaving.set_outage(true);
        }
    }

    /// Returns a refusal while the log is unavailable.
    pub(crate) fn check_log(&self) -> Result<(), ServiceError> {
        match self.0.outage.reason() {
            None => Ok(()),
            Some(reason) => {
                Err(ServiceError::new(RefusalKind::Unavailable, format!("{reason}: retry later")))
            }
        }
    }
}
