//! Threads: the runs of a principal that share history, and their inputs.
//!
//! The input of a run is a note in its log ([`Note::Input`]), so that a thread can be restored from the log alone, after a
//! restart or on another replica. AG-UI clients send the whole history with every run; only the first run of a thread in
//! the log stores all of it, the others store the new messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_core::{Role, RunId, RunInput, ThreadId};
use aqueduct_runlog::{Lease, Note, RunLog, RunQuery, RunState};

use crate::runs::{Runs, refuse};

/// Threads whose first run is indexed. A missing entry only causes a history to be logged once more, so all entries are
/// dropped when there are too many.
const THREADS: usize = 10_000;

/// Runs that are read from the log at once.
const PAGE: usize = 256;

/// The run of each thread that holds the earlier history, by principal and thread. It only saves space: a history that is
/// logged twice is deduplicated by message ids.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndex(Mutex<HashMap<(String, ThreadId), RunId>>);

impl ThreadIndex {
    /// Returns the index of the first message of the input that the log does not hold yet.
    async fn first_new(&self, log: &dyn RunLog, owner: &str, run: &RunId, input: &RunInput) -> usize {
        let key = (owner.to_owned(), input.thread_id.detached());
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let is_held = match &first {
            Some(run) => log.state(run).await.is_ok(),
            None => false,
        };
        if is_held {
            let answered = input.messages.iter().rposition(|message| message.role == Role::Assistant);
            return answered.map_or(0, |at| at + 1);
        }
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if index.len() >= THREADS {
            index.clear();
        }
        index.insert(key, run.clone());
        0
    }
}

impl Runs {
    /// Logs the input of a run. If the log refuses it, the thread lacks this part of its history.
    pub(crate) async fn note_input(&self, lease: &Lease, owner: &str, input: &RunInput) {
        let Some(record) = self.0.host.record_input else { return };
        let from = self.0.threads.first_new(&**self.run_log(), owner, &lease.run_id, input).await;
        let Some(value) = record(input, from) else { return };
        if let Err(error) = self.run_log().annotate(lease, Note::Input(Arc::new(value))).await {
            let run = lease.run_id.as_str();
            tracing::warn!(run, %error, "the log does not hold what the run was asked");
        }
    }

    /// Returns the runs of a thread of this caller, oldest first.
    ///
    /// # Errors
    ///
    /// Returns a refusal of kind `NotFound` if the thread has no run of this caller.
    pub async fn thread_runs(
        &self,
        caller: &Caller,
        thread: &ThreadId,
    ) -> Result<Vec<RunState>, ServiceError> {
        let identity = self.identify(caller)?;
        let mut runs = Vec::new();
        for owner in identity.owners() {
            let mut query =
                RunQuery { thread_id: Some(thread.clone()), owner: Some(owner), ..RunQuery::default() };
            loop {
                let page = self.run_log().list(query.clone(), PAGE).await.map_err(|error| refuse(&error))?;
                let Some(last) = page.last() else { break };
                query.after = Some(last.place());
                runs.extend(page.into_iter().filter(|run| self.may_see(&identity, &run.meta)));
            }
        }
        runs.sort_by_cached_key(RunState::place);
        if runs.is_empty() { Err(self.no_such_thread(caller)) } else { Ok(runs) }
    }
}
