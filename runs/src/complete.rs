//! [`Runs::complete`]: a whole run as one value instead of a stream.
//!
//! The text of the run is held in memory until its end, bounded by the limits of the log and by
//! [`MergeLimits`](aqueduct_core::merge::MergeLimits).

use aqueduct_core::service::{Caller, ServiceError, complete};
use aqueduct_core::{CompletedRun, RunInput};

use crate::runs::Runs;

impl Runs {
    /// Runs an agent and returns the whole run as one value. Dropping the future ends the watch, not the run.
    ///
    /// # Errors
    ///
    /// As [`complete`]. A run that failed is not an error: [`CompletedRun::outcome`] holds its failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_core::service::{Caller, ServiceError};
    /// use aqueduct_core::{RunInput, Update};
    /// use aqueduct_runs::Runs;
    ///
    /// # async fn ask() -> Result<(), ServiceError> {
    /// let runs = Runs::new().agent("echo", |input: RunInput| {
    ///     futures_util::stream::iter([Update::text(format!("You wrote: {}", input.text()))])
    /// });
    /// let run = runs.complete(&Caller::default(), "echo", RunInput::prompt("thread", "run", "hello")).await?;
    /// assert_eq!(run.text(), "You wrote: hello");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(ask()).unwrap();
    /// ```
    pub async fn complete(
        &self,
        caller: &Caller,
        agent: &str,
        input: RunInput,
    ) -> Result<CompletedRun, ServiceError> {
        complete(self, caller, agent, input).await
    }
}
