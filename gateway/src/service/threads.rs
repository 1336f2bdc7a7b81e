//! Threads: the runs of a caller that belong together, and what they were asked.
//!
//! The log holds what agents said. What they were asked stands in it too, as the first event of a run
//! ([`wellknown::INPUT`]), so that a thread can be restated from the log alone, after a restart or on another replica.
//! AG-UI clients send the whole history with every run; only the first run of a thread in the log keeps all of it, the
//! others what is new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_adapter_agui::fold;
use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_core::{ContentBlock, Role, RunId, RunInput, SourceEvent, ThreadId, Update, wellknown};
use aqueduct_runlog::{RunLog, RunQuery, RunState};

use super::{Gateway, refuse};

/// Threads whose first run is remembered. Forgetting one costs a history that is logged once more, so all are forgotten
/// when there are too many.
const REMEMBERED: usize = 10_000;

/// Runs that are listed at once.
const PAGE: usize = 256;

/// Which run of a thread holds the history from before it, by owner and thread. It saves space, nothing else: a history
/// that is told twice is folded to one, by the ids of its messages.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<(String, ThreadId), RunId>>);

impl Told {
    /// What goes into the log of a run that is about to start.
    pub(super) async fn asked(
        &self,
        log: &dyn RunLog,
        owner: &str,
        input: &RunInput,
    ) -> Option<Box<SourceEvent>> {
        let key = (owner.to_owned(), input.thread_id.detached());
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let is_told = match &first {
            Some(run) => log.state(run).await.is_ok(),
            None => false,
        };
        let said = input.messages.iter().rposition(|message| message.role == Role::Assistant);
        let from = if is_told { said.map_or(0, |at| at + 1) } else { 0 };
        if !is_told {
            let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= REMEMBERED {
                told.clear();
            }
            told.insert(key, input.run_id.detached());
        }
        let value = fold::asked(input, from)?;
        Some(Box::new(Update::new(ContentBlock::custom(wellknown::INPUT, value)).into()))
    }
}

impl Gateway {
    /// The log.
    pub(crate) fn log(&self) -> &Arc<dyn RunLog> {
        &self.log
    }

    /// The runs of a thread that this caller may see, oldest first. A thread without any does not exist.
    pub(crate) async fn thread_runs(
        &self,
        caller: &Caller,
        thread: &ThreadId,
    ) -> Result<Vec<RunState>, ServiceError> {
        let mut runs = Vec::new();
        let mut query = RunQuery { thread_id: Some(thread.clone()), ..RunQuery::default() };
        loop {
            let page = self.log.list(query.clone(), PAGE).await.map_err(|error| refuse(&error))?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.place());
            runs.extend(page.into_iter().filter(|run| self.owns(caller, &run.meta)));
        }
        if runs.is_empty() { Err(self.no_such_thread(caller)) } else { Ok(runs) }
    }
}
