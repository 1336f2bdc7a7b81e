//! [`Runs::complete`]: a run to its end, as one value instead of a stream.
//!
//! The text of a run is in memory until its end, bounded by the limits of the log and by
//! [`MergeLimits`](aqueduct_core::merge::MergeLimits).

use aqueduct_core::service::{Caller, ServiceError, complete};
use aqueduct_core::{CompletedRun, RunInput};

use crate::runs::Runs;

impl Runs {
    /// Runs an agent to the end of its run, and returns all of it as one value. Dropping the future stops watching the run.
    ///
    /// # Errors
    ///
    /// As [`complete`]. A run that failed is no error: [`CompletedRun::outcome`] says so.
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
    ///     futures_util::stream::iter([Update::text(format!("You said: {}", input.text()))])
    /// });
    /// let run = runs.complete(&Caller::default(), "echo", RunInput::prompt("thread", "run", "hello")).await?;
    /// assert_eq!(run.text(), "You said: hello");
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
