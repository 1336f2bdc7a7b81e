//! [`DiskLog`]: the engine on the disk of one machine. Survives the end of the process and power loss.
//!
//! ```text
//! callers ──► writer thread (checks, group commit, fdatasync) ──► fjall
//! readers ──► views: the last events, in memory ── older events ──► fjall, on a blocking thread
//! ```
//!
//! One process at a time uses a folder. When a process starts, the runs that were open have lapsed leases: their owner is
//! gone, and the sweeper ends them.
//!
//! A disk that fails (full, say) refuses everything until it can be written again (`recovery`). No other user of the machine
//! can read the files (`modes`).
//!
//! A folder with damaged files is not opened (`salvage`): [`check`] and [`repair`] say and keep what can be read.
//!
//! The engine cannot be shared by replicas: those need an engine that several processes can reach.

mod command;
mod modes;
mod recovery;
mod salvage;
mod store;
mod view;
mod writer;

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::claims::Claims;
use crate::error::{LogError, Refused};
use crate::limits::LogLimits;
use crate::log::{Control, Lease, LogFuture, LogScope, Note, Page, RunLog, RunMeta, RunQuery, RunState};
use command::Command;
use recovery::{Recovery, SharedStore};
pub use salvage::{DamagedFile, LogReport, RunReport, TornTail, check, repair};
use store::Store;
use view::{View, Views};
use writer::{QUEUE, Writer};

/// A run log on the disk.
///
/// # Examples
///
/// ```no_run
/// use aqueduct_runlog::{LogLimits, disk::DiskLog};
///
/// let log = DiskLog::open("/var/lib/aqueduct/runs".as_ref(), LogLimits::default())?;
/// # Ok::<(), aqueduct_runlog::LogError>(())
/// ```
#[derive(Debug)]
pub struct DiskLog {
    commands: Option<mpsc::Sender<Command>>,
    views: Arc<Views>,
    store: SharedStore,
    thread: Option<std::thread::JoinHandle<()>>,
    claims: Claims,
    /// A note about the modes of the files, if other users could read them.
    access: Option<String>,
    /// The tail that was cut from the journal when the folder was opened.
    torn: Option<TornTail>,
}

impl DiskLog {
    /// Opens the log in a folder, and creates the folder if it does not exist. Blocks while it reads the stored runs.
    ///
    /// # Errors
    ///
    /// [`LogError`] if the folder cannot be used, is open elsewhere, is damaged, or holds bytes of a newer version.
    pub fn open(folder: &Path, limits: LogLimits) -> Result<Self, LogError> {
        let access = modes::tighten(folder).note(folder);
        let torn = salvage::before_open(folder)?;
        let store = Store::open(folder)?;
        let views = Arc::new(Views::default());
        let found = store.load().map_err(|error| unsound(folder, &error))?;
        let store = SharedStore::new(store);
        let writer = Writer::new(store.clone(), Recovery::new(folder), limits, Arc::clone(&views), found);
        let (commands, receiver) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("run-log".to_owned()).spawn(|| writer.run(receiver));
        let thread =
            thread.map_err(|error| LogError::Unavailable(format!("no thread for the disk: {error}")))?;
        let (commands, thread, claims) = (Some(commands), Some(thread), Claims::default());
        Ok(Self { commands, views, store, thread, claims, access, torn })
    }

    /// Returns a note for the operator about the modes of the files: other users could read them when
    /// the log was opened, or still can. Returns `None` if neither is the case.
    pub fn access_note(&self) -> Option<&str> {
        self.access.as_deref()
    }

    /// Returns the tail that was cut from the journal when the log was opened: a write that was stopped
    /// in the middle. Returns `None` if nothing was cut.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Sends a command to the writer thread and waits for its answer.
    async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, LogError> {
        let gone = || LogError::Unavailable("the thread that writes to the disk has ended".to_owned());
        let (answer, answered) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or_else(gone)?;
        commands.send(make(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Reads events that are no longer in memory, on a blocking thread: the disk may take long.
    async fn read_older(
        &self,
        view: &Arc<View>,
        after: u64,
        max: usize,
    ) -> Result<Vec<aqueduct_core::service::NumberedEvent>, LogError> {
        let gone = || LogError::Unavailable("the disk is closed".to_owned());
        let (store, view) = (self.store.get()?, Arc::clone(view));
        let read = move || store.read(&view.run_id, view.place, after, max);
        tokio::task::spawn_blocking(read).await.map_err(|_| gone())?
    }

    /// Reads the input of a run from the disk, on a blocking thread.
    async fn read_input(&self, view: Arc<View>) -> Result<Option<Arc<Value>>, LogError> {
        let gone = || LogError::Unavailable("the disk is closed".to_owned());
        let store = self.store.get()?;
        let read = move || store.input(&view.run_id, view.place);
        tokio::task::spawn_blocking(read).await.map_err(|_| gone())?
    }

    /// Returns a page from memory, or from the disk if it starts before the events in memory. Only
    /// synced events are returned, from either.
    async fn read_page(&self, run: &RunId, after: u64, max: usize) -> Result<Page, LogError> {
        let view = self.views.get(run)?;
        let glance = view.glance(after, max)?;
        let events = if let Some(events) = glance.events {
            events
        } else {
            let mut events = self.read_older(&view, after, max).await?;
            // Events on the disk beyond the head of the view may not be synced yet.
            events.retain(|event| event.number <= glance.head);
            events
        };
        if let Some(first) = events.first()
            && first.number != after + 1
        {
            // The run was trimmed or deleted during the read.
            view.glance(after, 0)?;
            return Err(LogError::NotFound(run.clone()));
        }
        Ok(Page { events, head: glance.head, closed: glance.closed })
    }
}

/// Returns the error for stored bytes that cannot be decoded when the folder is opened.
fn unsound(folder: &Path, error: &LogError) -> LogError {
    let folder = folder.display().to_string();
    LogError::Damaged { file: folder.clone(), folder, what: error.to_string() }
}

/// Waits until what was asked is written and the folder is free.
impl Drop for DiskLog {
    fn drop(&mut self) {
        self.commands = None;
        self.store.set(None);
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has already been reported.
            thread.join().ok();
        }
    }
}

impl RunLog for DiskLog {
    fn open(&self, meta: RunMeta, until: Timestamp) -> LogFuture<'_, Lease> {
        Box::pin(async move { self.ask(|answer| Command::Open { meta, until, answer }).await? })
    }

    fn take_over(&self, run: &RunId, now: Timestamp, until: Timestamp) -> LogFuture<'_, Lease> {
        let run = run.clone();
        Box::pin(async move { self.ask(|answer| Command::TakeOver { run, now, until, answer }).await? })
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> LogFuture<'_, Vec<Lease>> {
        Box::pin(async move { self.ask(|answer| Command::Renew { leases, until, answer }).await? })
    }

    fn append(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> LogFuture<'_, u64, Refused> {
        let lease = lease.clone();
        Box::pin(async move {
            let asked = self.ask(|answer| Command::Append { lease, events, now, answer }).await;
            // The thread ended together with the batch, so there are no events to return.
            asked.unwrap_or_else(|error| Err(Refused::new(error, Vec::new())))
        })
    }

    fn annotate(&self, lease: &Lease, note: Note) -> LogFuture<'_, ()> {
        let lease = lease.clone();
        Box::pin(async move { self.ask(|answer| Command::Annotate { lease, note, answer }).await? })
    }

    fn input(&self, run: &RunId) -> LogFuture<'_, Option<Arc<Value>>> {
        let view = self.views.get(run);
        Box::pin(async move { self.read_input(view?).await })
    }

    fn scope(&self) -> LogScope {
        LogScope::Machine
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> LogFuture<'_, Page> {
        let run = run.clone();
        Box::pin(async move { self.read_page(&run, after, max).await })
    }

    fn changed(&self, run: &RunId, after: u64) -> LogFuture<'_, ()> {
        let view = self.views.get(run);
        Box::pin(async move {
            let view = view?;
            view.signal.changed(&view.run_id, after).await
        })
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> LogFuture<'_, ()> {
        let run = run.clone();
        Box::pin(async move { self.ask(|answer| Command::Watched { run, until, answer }).await? })
    }

    fn state(&self, run: &RunId) -> LogFuture<'_, RunState> {
        Box::pin(std::future::ready(self.views.get(run).map(|view| view.state())))
    }

    fn list(&self, query: RunQuery, max: usize) -> LogFuture<'_, Vec<RunState>> {
        Box::pin(std::future::ready(Ok(self.views.select(&query, max, |run| query.wants(run)))))
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> LogFuture<'_, Vec<RunState>> {
        Box::pin(std::future::ready(Ok(self.views.lapsed(now, max))))
    }

    fn control(&self, run: &RunId, message: Control) -> LogFuture<'_, ()> {
        let run = run.clone();
        Box::pin(async move { self.ask(|answer| Command::Control { run, message, answer }).await? })
    }

    fn controls(&self, lease: &Lease, seen: usize) -> LogFuture<'_, Vec<Control>> {
        let (view, lease) = (self.views.get(&lease.run_id), lease.clone());
        Box::pin(async move { view?.controls(&lease, seen).await })
    }

    fn claim(&self, key: String, value: String, now: Timestamp, until: Timestamp) -> LogFuture<'_, String> {
        let held = self.claims.claim(key, value, now, until);
        Box::pin(std::future::ready(Ok(held)))
    }

    fn check(&self) -> LogFuture<'_, ()> {
        Box::pin(async move { self.ask(|answer| Command::Check { answer }).await? })
    }

    fn trim(&self, run: &RunId, earliest: u64) -> LogFuture<'_, ()> {
        let run = run.clone();
        Box::pin(async move { self.ask(|answer| Command::Trim { run, earliest, answer }).await? })
    }

    fn expire(&self, before: Timestamp) -> LogFuture<'_, usize> {
        Box::pin(async move { self.ask(|answer| Command::Expire { before, answer }).await? })
    }
}
