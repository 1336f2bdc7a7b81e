//! Reading of all events of a run, page by page, and calls of the log that are made again while it is unavailable.

use std::time::Duration;

use aqueduct_core::BlockEvent;
use aqueduct_runlog::{LogError, LogFuture, RunState};
use tokio::time::Instant;

use crate::runs::Runs;

/// Events that are read at once: few enough that a page of a shared log does not block its server for long.
const PAGE: usize = 1_000;

/// The pause before a call of the log is made again for a run that was taken over.
const HELD_PAUSE: Duration = Duration::from_millis(100);

impl Runs {
    /// Calls the log, again for a third of a lease while it is unavailable. For the calls after a takeover: until the new lease
    /// lapses, no other replica can drive the run or end it.
    pub(crate) async fn insist<'a, T>(
        &'a self,
        mut call: impl FnMut() -> LogFuture<'a, T> + Send,
    ) -> Result<T, LogError> {
        let until = Instant::now() + self.setup().settings.lease / 3;
        loop {
            match call().await {
                Err(error) if error.is_temporary() && Instant::now() < until => {
                    tokio::time::sleep(HELD_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Passes the stored events of a run to `handle`, from the earliest to the head of `run`. The head of a page does not end the
    /// reading: an engine may serve a page from memory that is behind its storage, or ahead of storage that lost its last events.
    pub(crate) async fn each_event(
        &self,
        run: &RunState,
        handle: impl FnMut(&BlockEvent) + Send,
    ) -> Result<(), LogError> {
        self.read_all(run, false, handle).await
    }

    /// [`each_event`](Self::each_event) of a run that this replica has taken over.
    pub(crate) async fn each_taken_event(
        &self,
        run: &RunState,
        handle: impl FnMut(&BlockEvent) + Send,
    ) -> Result<(), LogError> {
        self.read_all(run, true, handle).await
    }

    async fn read_all(
        &self,
        run: &RunState,
        is_taken: bool,
        mut handle: impl FnMut(&BlockEvent) + Send,
    ) -> Result<(), LogError> {
        let mut after = run.earliest.saturating_sub(1);
        loop {
            let read = || self.run_log().read(&run.meta.run_id, after, PAGE);
            let page = if is_taken { self.insist(read).await } else { read().await }?;
            page.events
                .iter()
                .filter(|event| event.number <= run.head)
                .for_each(|event| handle(&event.event));
            match page.events.last() {
                Some(last) if last.number < run.head => after = last.number,
                _ => return Ok(()),
            }
        }
    }
}
