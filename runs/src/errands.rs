//! [`Errand`]: work beside runs that survives its replica, such as telling a receiver what happens in a run.
//!
//! ```text
//! begin ──► a run without events in the log, held here ──► handler works, saves how far it came ──► ended, kept as a record
//!               │ the replica dies, or leaves: the lease lapses
//!               └──► the sweeper of another replica ──► its handler works on from what was saved
//! ```
//!
//! An errand is a run of the log with a lease and a checkpoint and without an agent: no client sees it, and it is not driven.
//! Handlers are registered by kind. An errand whose kind has no handler here is left to other replicas, and ended when it is
//! older than ended runs are kept.
//!
//! Invariants: one replica works on an errand at a time, as long as leases hold; work after the last save is done again. The
//! records of one subject are in the order in which they were begun.

use std::fmt;
use std::sync::{Arc, PoisonError};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{RunFailure, RunId, ThreadId, Timestamp};
use aqueduct_runlog::{Control, Lease, LogError, Note, Remains, RunMeta, RunQuery, RunState};
use serde_json::Value;

use crate::driver::LOG_PAUSE;
use crate::runs::Runs;

/// What the threads of errands begin with, and what separates their parts. Clients cannot put it into a name that counts:
/// errands are recognised by their empty agent too.
const MARK: char = '\u{1e}';

/// Records of one subject that are read.
const RECORDS: usize = 1_000;

/// What the log of an errand ends with: it is no failure, and it has no watcher.
const OVER: &str = "errand_over";

/// Does the work of errands of one kind.
pub trait ErrandHandler: Send + Sync + 'static {
    /// Works until the errand is over. The future is dropped if the errand is cancelled, or works elsewhere.
    fn work(&self, errand: Errand) -> BoxFuture<'static, ()>;
}

/// What an errand is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The stored form of the principal that it is for.
    pub owner: String,
    /// Which handler works on it.
    pub kind: &'static str,
    /// Of what it is, in the words of the handler.
    pub name: String,
}

impl Subject {
    fn thread(&self) -> ThreadId {
        ThreadId::new(format!("{MARK}{}{MARK}{}", self.kind, self.name))
    }

    fn key(&self, nth: usize) -> RunId {
        // No id of a client begins like that.
        RunMeta::key(
            &self.owner,
            &RunId::from(format!("{MARK}{}{MARK}{}{MARK}{nth:06}", self.kind, self.name)),
        )
    }
}

/// The record of an errand.
#[derive(Debug, Clone)]
pub struct ErrandRecord {
    /// Its key in the log.
    pub key: RunId,
    /// What was saved last.
    pub value: Arc<Value>,
    /// `true` if nothing works on it any more.
    pub is_over: bool,
}

/// An errand that is worked on here.
#[derive(Debug)]
pub struct Errand {
    runs: Runs,
    lease: Lease,
    owner: String,
    value: Arc<Value>,
}

impl Errand {
    /// Returns the principal that it is for.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns what was saved last, here or at another replica.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// Saves how far the work came.
    ///
    /// # Errors
    ///
    /// The log does not take it: after a loss of this replica the work since the last save is done again.
    pub async fn save(&mut self, value: Value) -> Result<(), LogError> {
        self.value = Arc::new(value);
        self.runs.run_log().annotate(&self.lease, Note::Checkpoint(Arc::clone(&self.value))).await
    }
}

/// Handlers by kind.
#[derive(Default)]
pub(crate) struct Handlers(std::sync::Mutex<Vec<(&'static str, Arc<dyn ErrandHandler>)>>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl Handlers {
    fn get(&self, kind: &str) -> Option<Arc<dyn ErrandHandler>> {
        let handlers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.iter().find(|(known, _)| *known == kind).map(|(_, handler)| Arc::clone(handler))
    }
}

/// Returns the kind of an errand; `None` for any other run.
fn kind_of(meta: &RunMeta) -> Option<&str> {
    let rest = meta.thread_id.as_str().strip_prefix(MARK).filter(|_| meta.agent.is_empty())?;
    rest.split_once(MARK).map(|(kind, _)| kind)
}

/// Returns `true` for a run that is an errand.
pub(crate) fn is_errand(meta: &RunMeta) -> bool {
    kind_of(meta).is_some()
}

impl Runs {
    /// Lets `handler` work on the errands of a kind, in place of an earlier one. To be called before housekeeping begins.
    pub fn handle_errands(&self, kind: &'static str, handler: Arc<dyn ErrandHandler>) {
        let mut handlers = self.0.errands.0.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(known, _)| *known != kind);
        handlers.push((kind, handler));
    }

    /// Begins an errand, or keeps a record about the subject that no replica works on.
    ///
    /// # Errors
    ///
    /// The log does not take it, or has as many records of the subject as it may.
    pub async fn begin_errand(&self, subject: &Subject, value: Value, works: bool) -> Result<(), LogError> {
        let mut nth = self.errands(subject).await?.len();
        let lease = loop {
            let meta = RunMeta {
                run_id: subject.key(nth),
                thread_id: subject.thread(),
                agent: String::new(),
                owner: subject.owner.clone(),
                opened_at: self.now(),
            };
            match self.run_log().open(meta, self.lease_until()).await {
                Ok(lease) => break lease,
                Err(LogError::Exists(_)) if nth < RECORDS => nth += 1,
                Err(error) => return Err(error),
            }
        };
        let value = Arc::new(value);
        self.run_log().annotate(&lease, Note::Checkpoint(Arc::clone(&value))).await?;
        match self.0.errands.get(subject.kind).filter(|_| works) {
            Some(handler) => self.work(handler, lease, subject.owner.clone(), value),
            None if works => self.run_log().release(vec![lease]).await?,
            None => self.end_errand(&lease).await?,
        }
        Ok(())
    }

    /// Returns the records of a subject, in the order in which they were begun.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub async fn errands(&self, subject: &Subject) -> Result<Vec<ErrandRecord>, LogError> {
        let (thread_id, owner) = (Some(subject.thread()), Some(subject.owner.clone()));
        let query = RunQuery { thread_id, owner, ..RunQuery::default() };
        let states = self.run_log().list(query, RECORDS).await?;
        let record = |state: RunState| {
            let (key, is_over) = (state.meta.run_id, state.closed_at.is_some());
            Some(ErrandRecord { key, value: state.checkpoint?, is_over })
        };
        let mut records: Vec<ErrandRecord> =
            states.into_iter().filter(|state| is_errand(&state.meta)).filter_map(record).collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(records)
    }

    /// Ends an errand, wherever it is worked on.
    ///
    /// # Errors
    ///
    /// The log cannot be used.
    pub async fn cancel_errand(&self, errand: &RunId) -> Result<(), LogError> {
        match self.run_log().control(errand, Control::Cancel).await {
            Ok(()) | Err(LogError::Closed(_) | LogError::NotFound(_) | LogError::RunTooLong { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Works on an errand whose replica is gone.
    pub(crate) async fn take_up_errand(&self, run: &RunState) -> Result<(), LogError> {
        let handler = kind_of(&run.meta).and_then(|kind| self.0.errands.get(kind));
        let keep = i64::try_from(self.setup().settings.keep.as_millis()).unwrap_or(i64::MAX);
        let is_old = run.meta.opened_at < Timestamp(self.now().0.saturating_sub(keep));
        if handler.is_none() && !is_old {
            return Ok(());
        }
        let lease = match self.run_log().take_over(&run.meta.run_id, self.now(), self.lease_until()).await {
            Ok(lease) => lease,
            Err(LogError::Held { .. } | LogError::Closed(_) | LogError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Saved after the run was listed, perhaps.
        let value = self.run_log().state(&lease.run_id).await?.checkpoint;
        match handler.zip(value) {
            Some((handler, value)) => self.work(handler, lease, run.meta.owner.clone(), value),
            None => self.end_errand(&lease).await?,
        }
        Ok(())
    }

    fn work(&self, handler: Arc<dyn ErrandHandler>, lease: Lease, owner: String, value: Arc<Value>) {
        let runs = self.clone();
        tokio::spawn(async move {
            let held = runs.hold(&lease);
            let errand = Errand { runs: runs.clone(), lease: lease.clone(), owner, value };
            tokio::select! {
                biased;
                () = held.lost.cancelled() => return,
                is_cancelled = runs.errand_cancelled(&lease) => {
                    if !is_cancelled {
                        return;
                    }
                }
                () = handler.work(errand) => {}
            }
            if let Err(error) = runs.end_errand(&lease).await {
                tracing::warn!(errand = lease.run_id.as_str(), %error, "an errand was not ended: it is done again");
            }
        });
    }

    /// Waits until the errand is cancelled. Returns `false` if it is no longer this replica's.
    async fn errand_cancelled(&self, lease: &Lease) -> bool {
        let mut seen = 0;
        loop {
            match self.run_log().controls(lease, seen).await {
                Ok(messages) if messages.contains(&Control::Cancel) => return true,
                Ok(messages) => seen += messages.len(),
                Err(error) if error.is_temporary() => tokio::time::sleep(LOG_PAUSE).await,
                Err(_) => return false,
            }
        }
    }

    async fn end_errand(&self, lease: &Lease) -> Result<(), LogError> {
        let meta = self.run_log().state(&lease.run_id).await?.meta;
        let end = Remains::default().end(&meta, RunFailure::new(OVER, "the errand is over"));
        self.run_log().append(lease, end, self.now()).await.map(drop).map_err(LogError::from)
    }
}
