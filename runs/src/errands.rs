//! [`Errand`]: a background job that belongs to no run and survives its replica, such as delivering push notifications.
//!
//! ```text
//! begin_errand ──► a run without events in the log, leased here ──► the handler works, saves its progress ──► ended
//!                     │ the replica crashes or shuts down: the lease lapses              (the record stays readable)
//!                     └──► the sweeper of another replica takes the lease ──► its handler continues from the saved progress
//! ```
//!
//! The log stores an errand as a run with a lease and a checkpoint, without agent and events: no client sees it, and no
//! driver drives it. Handlers are registered by kind. A replica without a handler for the kind leaves a lapsed errand to
//! other replicas, but ends it once it is older than the retention time of ended runs.
//!
//! Invariants: one replica works on an errand at a time, as long as leases hold; after a takeover the work since the last
//! save is repeated; the records of one subject are in the order in which they were created.

use std::sync::{Arc, PoisonError};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{RunFailure, RunId, ThreadId, Timestamp};
use aqueduct_runlog::{Control, Lease, LogError, Note, Remains, RunMeta, RunQuery, RunState};
use serde_json::Value;

use crate::driver::LOG_PAUSE;
use crate::runs::Runs;

/// The first character of an errand's thread id and the separator of its parts. A client cannot forge an errand by a thread
/// id that starts with it: an errand also has an empty agent.
const MARK: char = '\u{1e}';

/// The most errands of one subject.
const RECORDS: usize = 1_000;

/// The failure code of the event that closes an errand in the log. The errand has not failed; no watcher reads the event.
const OVER: &str = "errand_over";

/// Works on errands of one kind.
pub trait ErrandHandler: Send + Sync + 'static {
    /// Works until the errand is done. The future is dropped if the errand is cancelled, or if this replica loses the
    /// lease.
    fn work(&self, errand: Errand) -> BoxFuture<'static, ()>;
}

/// The subject of an errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The stored form of the principal that the errand belongs to.
    pub owner: String,
    /// The kind, which selects the handler.
    pub kind: &'static str,
    /// The name of the subject, in a form that the creator of the errand chooses.
    pub name: String,
}

impl Subject {
    /// Returns the thread that contains all errands of the subject.
    fn thread(&self) -> ThreadId {
        ThreadId::new(format!("{MARK}{}{MARK}{}", self.kind, self.name))
    }

    /// Returns the key of the nth errand of the subject.
    fn key(&self, nth: usize) -> RunId {
        // No client can choose such an id.
        RunMeta::key(
            &self.owner,
            &RunId::from(format!("{MARK}{}{MARK}{}{MARK}{nth:06}", self.kind, self.name)),
        )
    }
}

/// An errand as the log holds it.
#[derive(Debug, Clone)]
pub struct ErrandRecord {
    /// The key in the log.
    pub key: RunId,
    /// The value that was saved last.
    pub value: Arc<Value>,
    /// Set if the errand is done or cancelled, so that no replica works on it.
    pub is_over: bool,
}

/// An errand that this replica works on.
#[derive(Debug)]
pub struct Errand {
    runs: Runs,
    lease: Lease,
    owner: String,
    value: Arc<Value>,
}

impl Errand {
    /// Returns the stored form of the principal that the errand belongs to.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the value that was saved last, here or at another replica.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// Saves the progress of the work.
    ///
    /// # Errors
    ///
    /// Returns an error if the log refuses the value. The work can continue; if this replica is then lost, the next one
    /// repeats the work since the last successful save.
    pub async fn save(&mut self, value: Value) -> Result<(), LogError> {
        self.value = Arc::new(value);
        self.runs.run_log().annotate(&self.lease, Note::Checkpoint(Arc::clone(&self.value))).await
    }
}

/// Handlers by kind.
#[derive(Default)]
pub(crate) struct Handlers(std::sync::Mutex<Vec<(&'static str, Arc<dyn ErrandHandler>)>>);

aqueduct_core::debug_fields!(Handlers {});

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

/// Returns the number of an errand among those of its subject.
fn nth_of(key: &RunId) -> Option<usize> {
    key.as_str().rsplit(MARK).next()?.parse().ok()
}

/// Returns `true` for a run that is an errand.
pub(crate) fn is_errand(meta: &RunMeta) -> bool {
    kind_of(meta).is_some()
}

impl Runs {
    /// Registers the handler of a kind, or replaces it. Must be called before [`Runs::run_housekeeping`].
    pub fn handle_errands(&self, kind: &'static str, handler: Arc<dyn ErrandHandler>) {
        let mut handlers = self.0.errands.0.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.retain(|(known, _)| *known != kind);
        handlers.push((kind, handler));
    }

    /// Starts an errand with `value` as its first progress. If `works` is `false`, only stores a record about the subject,
    /// on which no replica works.
    ///
    /// # Errors
    ///
    /// Returns an error if the log refuses the record, or if the subject already has 1000 records.
    pub async fn begin_errand(&self, subject: &Subject, value: Value, works: bool) -> Result<(), LogError> {
        let records = self.errands(subject).await?;
        // Older records may have expired: the number of records says nothing about the last one.
        let mut nth = records.last().and_then(|last| nth_of(&last.key)).map_or(0, |last| last + 1);
        if records.len() >= RECORDS {
            let run = subject.key(nth);
            return Err(LogError::RunTooLong { run, limit: "errands", what: "records", max: RECORDS });
        }
        let tries = nth + RECORDS;
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
                Err(LogError::Exists(_)) if nth < tries => nth += 1,
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

    /// Returns the records of a subject, in the order in which they were created.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
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
        records.sort_by_key(|record| nth_of(&record.key));
        Ok(records)
    }

    /// Cancels an errand, whichever replica works on it.
    ///
    /// # Errors
    ///
    /// Returns an error if the log is unavailable.
    pub async fn cancel_errand(&self, errand: &RunId) -> Result<(), LogError> {
        match self.run_log().control(errand, Control::Cancel).await {
            // A full control queue contains a cancel.
            Ok(()) | Err(LogError::Closed(_) | LogError::NotFound(_) | LogError::RunTooLong { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes over a lapsed errand. Without a handler for its kind, ends an errand that is older than the retention time,
    /// and leaves a younger one to other replicas.
    pub(crate) async fn take_over_errand(&self, run: &RunState) -> Result<(), LogError> {
        let handler = kind_of(&run.meta).and_then(|kind| self.0.errands.get(kind));
        let keep = i64::try_from(self.setup().settings.keep.as_millis()).unwrap_or(i64::MAX);
        let is_old = run.meta.opened_at < Timestamp(self.now().0.saturating_sub(keep));
        if handler.is_none() && !is_old {
            return Ok(());
        }
        let Some(lease) = self.take_lease(&run.meta.run_id, self.now()).await? else { return Ok(()) };
        // The value may have been saved after the run was listed.
        let value = self.insist(|| self.run_log().state(&lease.run_id)).await?.checkpoint;
        match handler.zip(value) {
            Some((handler, value)) => self.work(handler, lease, run.meta.owner.clone(), value),
            None => self.end_errand(&lease).await?,
        }
        Ok(())
    }

    /// Spawns a task that holds the lease and runs the handler. The task ends the errand when the handler is done or the
    /// errand is cancelled, and only stops if the lease is lost.
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
                tracing::warn!(errand = lease.run_id.as_str(), %error, "an errand could not be ended: its work is repeated");
            }
        });
    }

    /// Waits until the errand is cancelled. Returns `false` if the log refuses the wait, because the lease is lost.
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

    /// Closes the log of an errand; its last value stays readable.
    async fn end_errand(&self, lease: &Lease) -> Result<(), LogError> {
        let meta = self.run_log().state(&lease.run_id).await?.meta;
        let end = Remains::default().end(&meta, RunFailure::new(OVER, "the errand is over"));
        self.run_log().append(lease, end, self.now()).await.map(drop).map_err(LogError::from)
    }
}
