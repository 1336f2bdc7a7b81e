//! [`Runs::complete`]: a run to its end, as one value instead of a stream.
//!
//! ```text
//! start ──► events ──► core's RunMerger ──► CompletedRun
//! ```
//!
//! The text of a run is in memory until its end, bounded by the limits of the log and by
//! [`MergeLimits`](aqueduct_core::merge::MergeLimits).

use aqueduct_core::merge::MergeError;
use aqueduct_core::service::{Caller, RefusalKind, RunService as _, ServiceError};
use aqueduct_core::{CompletedRun, RunInput, RunMerger};
use futures_util::StreamExt as _;

use crate::runs::Runs;

impl Runs {
    /// Runs an agent to the end of its run, and returns all of it as one value. Dropping the future stops watching the run.
    ///
    /// # Errors
    ///
    /// The run could not be started, its log was lost, or it is too long to be merged. A run that failed is no error:
    /// [`CompletedRun::outcome`] says so.
    pub async fn complete(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> Result<CompletedRun, ServiceError> {
        let mut started = self.start(caller, agent, input).await?;
        let mut merger = RunMerger::default();
        while let Some(event) = started.events.next().await {
            let too_long = |error: MergeError| ServiceError::new(RefusalKind::Unsupported, error.to_string());
            merger.handle_event(&event.event).map_err(too_long)?;
        }
        if merger.is_ended() {
            return Ok(merger.finish());
        }
        let message = format!("run {} was lost before its end: watch it again", started.run_id);
        Err(ServiceError::new(RefusalKind::Unavailable, message))
    }
}
