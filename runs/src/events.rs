//! Reading of all events of a run, page by page.

use aqueduct_core::BlockEvent;
use aqueduct_runlog::{LogError, RunState};

use crate::runs::Runs;

/// Events that are read at once: few enough that a page of a shared log does not block its server for long.
const PAGE: usize = 1_000;

impl Runs {
    /// Passes the stored events of a run to `handle`, from the earliest to the head of `run`. The head of a page does not end the
    /// reading: an engine may serve a page from memory that is behind its storage, or ahead of storage that lost its last events.
    pub(crate) async fn each_event(
        &self,
        run: &RunState,
        mut handle: impl FnMut(&BlockEvent) + Send,
    ) -> Result<(), LogError> {
        let mut after = run.earliest.saturating_sub(1);
        loop {
            let page = self.run_log().read(&run.meta.run_id, after, PAGE).await?;
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
