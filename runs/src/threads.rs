//! Threads: the runs of a principal that share history, and their inputs.
//!
//! The input of a run is a note in its log ([`Note::Input`]), so that the messages of a thread can be read from the log
//! alone, after a restart or on another replica. AG-UI clients send the complete history with every run; only the first
//! run of a thread stores all of it, later runs store the new messages. The record of the surface that started the run
//! ([`RunInput::record`]) is a member of the same note.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_core::{Role, RunId, RunInput, ThreadId};
use aqueduct_runlog::{Lease, LogError, Note, RunLog, RunMeta, RunQuery, RunState};
use serde_json::{Value, json};

use crate::extension::OF_EXTENSION;
use crate::runs::{Runs, refuse};

/// Threads whose first run is indexed. A missing entry only causes a history to be logged once more, so all entries are
/// dropped when there are too many.
const THREADS: usize = 10_000;

/// Runs that are read from the log at once.
const PAGE: usize = 256;

/// The member of a note that holds the record of the surface. Inputs of AG-UI have none of that name.
const RECORD: &str = "aqueduct.record";

/// The member of a note that holds the protocol version that the caller of the run declared.
const VERSION: &str = "aqueduct.version";

/// Adds a member to the note of an input, which is created for it.
fn insert(note: &mut Option<Value>, member: &str, value: Value) {
    if let Some(members) = note.get_or_insert_with(|| json!({})).as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}

/// Adds the facts of the surface to the note of an input: the record and the declared version.
fn with_surface(mut asked: Option<Value>, input: &RunInput) -> Option<Value> {
    if let Some(record) = input.record.as_deref() {
        insert(&mut asked, RECORD, record.clone());
    }
    if let Some(version) = &input.protocol_version {
        insert(&mut asked, VERSION, Value::from(version.to_string()));
    }
    asked
}

/// The run of each thread that stores the history before it, by principal and thread. The index only saves space: a
/// history that is stored twice is deduplicated by the ids of its messages.
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
    /// Stores the input of a run and the value of its extension. If the log refuses the note, this part of the thread's
    /// history is missing.
    pub(crate) async fn note_input(&self, lease: &Lease, owner: &str, input: &RunInput, left: Option<Value>) {
        let mut asked = match self.0.host.record_input {
            Some(record) => {
                let from = self.0.threads.first_new(&**self.run_log(), owner, &lease.run_id, input).await;
                record(input, from)
            }
            None => None,
        };
        if let Some(left) = left {
            insert(&mut asked, OF_EXTENSION, left);
        }
        self.note(lease, with_surface(asked, input)).await;
    }

    /// Stores only the facts of the surface that starts a run, before the surface promises the run to its caller: another replica
    /// finds an A2A task by them.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the log does not store them. The run, which no caller knows, lapses.
    pub(crate) async fn note_record(&self, lease: &Lease, input: &RunInput) -> Result<(), ServiceError> {
        let Some(value) = with_surface(None, input) else { return Ok(()) };
        let note = Note::Input(Arc::new(value));
        let stored = self.insist(|| self.run_log().annotate(lease, note.clone())).await;
        stored.map_err(|error| refuse(&error))
    }

    /// Stores a note beside the run; logs a warning if the log refuses it.
    async fn note(&self, lease: &Lease, value: Option<Value>) {
        let Some(value) = value else { return };
        if let Err(error) = self.run_log().annotate(lease, Note::Input(Arc::new(value))).await {
            let run = lease.run_id.as_str();
            tracing::warn!(run, %error, "the input of the run is not in the log");
        }
    }

    /// Returns the record that a surface stored with the run `run` of `owner`. Returns `None` if the run does not exist, or
    /// has no record.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub async fn record_of(&self, owner: &str, run: &RunId) -> Result<Option<Value>, LogError> {
        self.read_record(&RunMeta::key(owner, run)).await
    }

    /// As [`record_of`](Self::record_of), by the key of the run.
    pub(crate) async fn read_record(&self, key: &RunId) -> Result<Option<Value>, LogError> {
        match self.run_log().input(key).await {
            Ok(note) => Ok(note.and_then(|note| note.get(RECORD).cloned())),
            Err(LogError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the protocol version that the caller of a run declared. Returns `None` if it declared none.
    ///
    /// # Errors
    ///
    /// Returns a refusal of kind `NotFound` if the caller has no such run, and of kind `Unavailable` if the log cannot be read.
    pub async fn version_of(&self, caller: &Caller, run: &RunId) -> Result<Option<String>, ServiceError> {
        let state = self.find_run(caller, run).await?;
        let note = self.run_log().input(&state.meta.run_id).await.map_err(|error| refuse(&error))?;
        Ok(note.and_then(|note| note.get(VERSION)?.as_str().map(str::to_owned)))
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
