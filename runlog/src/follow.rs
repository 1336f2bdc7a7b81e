//! [`Follow`]: a watcher of a run, over any engine.
//!
//! A watcher is a cursor, not a queue: it reads a page after the last number that it returned, and waits only when it has
//! returned all events. A watcher that lags reads full pages; a watcher that keeps up reads single events. There is no gap
//! between stored and live events, because there is no live path beside the log.
//!
//! Positions of sources, and the notes that logs of version 0.1 stored among the events, are skipped ([`is_log_metadata`]).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use aqueduct_core::RunId;
use aqueduct_core::service::NumberedEvent;
use futures_core::Stream;

use crate::error::LogError;
use crate::log::{LogFuture, Page, RunLog, is_log_metadata};

/// Events of one read: enough that a lagging watcher catches up in few reads, few enough that it holds little memory.
pub const DEFAULT_PAGE: usize = 256;

/// Empty reads in a row that are tolerated although the head is above the cursor: an engine that reads events and head
/// separately can meet a trim in between. More empty reads mean that events are lost, and that reading would never end.
const EMPTY_READS: u8 = 1;

/// A stream of the stored events of a run after a number, then of events as they are appended. Ends after the last event of
/// a run that has ended.
///
/// # Examples
///
/// ```no_run
/// # async fn print(log: std::sync::Arc<dyn aqueduct_runlog::RunLog>) -> Result<(), aqueduct_runlog::LogError> {
/// use futures_util::StreamExt;
///
/// let mut events = aqueduct_runlog::Follow::new(log, "run".into(), 0);
/// while let Some(event) = events.next().await {
///     println!("{}", event?.number);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Follow {
    log: Arc<dyn RunLog>,
    run: RunId,
    /// The number of the last event that was returned or skipped.
    after: u64,
    /// The most events of one read.
    page: usize,
    /// Events that were read and not returned yet. The allocation is released before a wait: most watchers wait most of the
    /// time.
    ready: vec::IntoIter<NumberedEvent>,
    step: Step,
    /// Empty reads in a row although the head is above the cursor.
    empty_reads: u8,
}

/// What happens when no event is ready.
enum Step {
    /// A page is being read.
    Read(LogFuture<'static, Page>),
    /// The watcher waits for more events.
    Wait(LogFuture<'static, ()>),
    /// The next page must be read.
    Between,
    /// All stored events are read: a wait starts.
    CaughtUp,
    /// The run has ended: the stream ends.
    Ended,
}

impl Follow {
    /// Returns the events of `run` with numbers above `after`.
    pub fn new(log: Arc<dyn RunLog>, run: RunId, after: u64) -> Self {
        let ready = Vec::new().into_iter();
        Self { log, run, after, page: DEFAULT_PAGE, ready, step: Step::Between, empty_reads: 0 }
    }

    /// Sets the number of events per read.
    pub fn with_page(mut self, events: usize) -> Self {
        self.page = events.max(1);
        self
    }

    /// Reads the next page, without a future if the engine has the events in memory.
    fn read(&mut self) -> Result<Step, LogError> {
        match self.log.read_now(&self.run, self.after, self.page) {
            Some(page) => self.take(page?),
            None => Ok(self.request_page()),
        }
    }

    fn request_page(&self) -> Step {
        let (log, run, after, page) = (Arc::clone(&self.log), self.run.clone(), self.after, self.page);
        Step::Read(Box::pin(async move { log.read(&run, after, page).await }))
    }

    fn wait(&self) -> Step {
        Step::Wait(Arc::clone(&self.log).changed_owned(&self.run, self.after))
    }

    /// Makes the events of a page ready, and returns the next step.
    fn take(&mut self, page: Page) -> Result<Step, LogError> {
        let last = page.events.last().map_or(self.after, |event| event.number);
        let is_all = last >= page.head;
        self.empty_reads = if page.events.is_empty() && !is_all { self.empty_reads + 1 } else { 0 };
        if self.empty_reads > EMPTY_READS {
            return Err(LogError::Lost { run: self.run.clone(), from: self.after + 1 });
        }
        self.ready = page.events.into_iter();
        Ok(match (is_all, page.closed) {
            (true, true) => Step::Ended,
            (true, false) => Step::CaughtUp,
            (false, _) => Step::Between,
        })
    }

    /// Makes the current step, and returns the next one.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, LogError>> {
        Poll::Ready(match &mut self.step {
            Step::Ended => Ok(Step::Ended),
            Step::Between => self.read(),
            Step::CaughtUp => {
                self.ready = Vec::new().into_iter();
                Ok(self.wait())
            }
            Step::Read(read) => ready!(read.as_mut().poll(cx)).and_then(|page| self.take(page)),
            Step::Wait(wait) => match ready!(wait.as_mut().poll(cx)) {
                Ok(()) => self.read(),
                Err(error) => Err(error),
            },
        })
    }
}

impl Stream for Follow {
    type Item = Result<NumberedEvent, LogError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.ready.next() {
                this.after = event.number;
                if is_log_metadata(&event.event) {
                    continue;
                }
                return Poll::Ready(Some(Ok(event)));
            }
            if matches!(this.step, Step::Ended) {
                return Poll::Ready(None);
            }
            match ready!(this.step(cx)) {
                Ok(step) => this.step = step,
                Err(error) => {
                    this.step = Step::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

aqueduct_core::debug_fields!(Follow { run, after });

#[cfg(test)]
mod tests;
