//! [`SimulatedLog`]: the engine in memory as a log that replicas share, with everything that can go wrong on the way to it.
//!
//! Calls take time both ways, fail after 1.5 s while the replica is cut off, and wait while it is paused. An
//! acknowledgement may be lost: the call is then made again by the same rules as in the engine on Redis, and fails if that is lost
//! too. A writer keeps what it appended, for a log that comes back without it.
//!
//! Worlds with the engine on Redis itself: [`redis`](crate::redis).

pub mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::{
    Control, Lease, LogError, LogScope, Note, Page, Refused, RunLog, RunMeta, RunQuery, RunState,
};
use serde_json::Value;

use self::server::{Appended, Server};
use crate::news::News;
use crate::node::Node;
use crate::trace::locked;

/// How long a call waits for a log that cannot be reached.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The log that all replicas share, and the news of its changes: by run, because a world in which every change woke everything
/// that waits would do little else.
#[derive(Debug, Clone)]
pub struct Shared {
    server: Arc<Mutex<Server>>,
    versions: Arc<Mutex<BTreeMap<RunId, Arc<News<u64>>>>>,
}

impl Shared {
    /// Returns a log that replicas share.
    pub fn new(server: Server) -> Self {
        Self { server: Arc::new(Mutex::new(server)), versions: Arc::default() }
    }

    /// Returns the news of one run.
    fn news(&self, run: &RunId) -> Arc<News<u64>> {
        let mut versions = locked(&self.versions);
        Arc::clone(versions.entry(run.clone()).or_insert_with(|| Arc::new(News::new(0))))
    }

    /// Makes a call at a time of the world, and wakes what waits for the runs that it changed.
    fn call<T>(&self, now: i64, op: impl FnOnce(&mut Server, i64) -> T) -> T {
        let (answer, changed) = {
            let mut server = locked(&self.server);
            let before = server.changes();
            let answer = op(&mut server, now);
            (answer, server.changed_since(before))
        };
        for run in changed {
            self.news(&run).change(|version| *version += 1);
        }
        answer
    }

    /// Uses the log, as the world does.
    pub fn with<T>(&self, call: impl FnOnce(&mut Server) -> T) -> T {
        let answer = call(&mut locked(&self.server));
        let all: Vec<_> = locked(&self.versions).values().cloned().collect();
        for news in &all {
            news.change(|version| *version += 1);
        }
        answer
    }
}

/// A run that this replica writes.
#[derive(Debug, Clone)]
struct Writer {
    epoch: u64,
    head: u64,
    /// All that was acknowledged under this epoch, and the number before it. Worlds are short.
    from: u64,
    window: Vec<BlockEvent>,
    notes: Vec<Note>,
}

/// A message in the trace, without tokens.
fn kind(message: &Control) -> String {
    match message {
        Control::Message(_) => "a message".to_owned(),
        message => format!("{message:?}"),
    }
}

/// The log, as one replica reaches it.
#[derive(Debug)]
pub struct SimulatedLog {
    node: Arc<Node>,
    shared: Shared,
    writers: Mutex<BTreeMap<RunId, Writer>>,
}

impl SimulatedLog {
    /// Returns the log of a replica.
    pub fn new(node: Arc<Node>, shared: Shared) -> Self {
        Self { node, shared, writers: Mutex::default() }
    }

    /// Waits until the log can be reached.
    async fn reach(&self) -> Result<(), LogError> {
        self.node.alive().await;
        let is_up = tokio::time::timeout(PATIENCE, self.node.up()).await;
        self.node.alive().await;
        is_up.map_err(|_| LogError::Unavailable("the log cannot be reached".to_owned()))
    }

    /// Makes a call.
    async fn call<T>(&self, mut op: impl FnMut(&mut Server, i64) -> T) -> Result<T, LogError> {
        for is_again in [false, true] {
            tokio::time::sleep(self.node.delay()).await;
            self.reach().await?;
            let answer = self.shared.call(self.node.now(), &mut op);
            if !self.node.is_lost() {
                tokio::time::sleep(self.node.delay()).await;
                self.node.alive().await;
                return Ok(answer);
            }
            self.node.note(|| format!("acknowledgement lost, again: {is_again}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.node.alive().await;
        Err(LogError::Unavailable("the acknowledgement was lost".to_owned()))
    }

    /// Waits until the log has an answer about a run.
    async fn wait<T>(&self, run: &RunId, mut op: impl FnMut(&Server) -> Option<T>) -> T {
        let news = self.shared.news(run);
        loop {
            tokio::time::sleep(self.node.delay()).await;
            // A subscription waits for a log that cannot be reached; it does not fail.
            self.node.up().await;
            let version = news.get();
            if let Some(answer) = op(&locked(&self.shared.server)) {
                return answer;
            }
            news.until(|now| now != version).await;
        }
    }

    fn insert_writer(&self, lease: &Lease, head: u64) {
        let writer = Writer { epoch: lease.epoch, head, from: head, window: Vec::new(), notes: Vec::new() };
        locked(&self.writers).insert(lease.run_id.clone(), writer);
    }

    fn writer(&self, lease: &Lease) -> Option<Writer> {
        locked(&self.writers).get(&lease.run_id).filter(|writer| writer.epoch == lease.epoch).cloned()
    }

    async fn open_run(&self, meta: RunMeta, until: Timestamp) -> Result<Lease, LogError> {
        let nonce = self.node.nonce();
        let run = meta.run_id.clone();
        let lease = self.call(|server, at| server.open(at, meta.clone(), until, nonce)).await?;
        self.node.note(|| format!("open {run}: {:?}", lease.as_ref().map(|lease| lease.epoch)));
        let lease = lease?;
        self.insert_writer(&lease, 0);
        Ok(lease)
    }

    async fn take_over_run(&self, run: RunId, now: Timestamp, until: Timestamp) -> Result<Lease, LogError> {
        let nonce = self.node.nonce();
        let taken = self.call(|server, at| server.take_over(at, &run, now, until, nonce)).await;
        if taken.is_err() {
            locked(&self.shared.server).take_over_unknown(&run, nonce);
        }
        let taken = taken?;
        self.node.note(|| {
            format!("take over {run}: {:?}", taken.as_ref().map(|(lease, head)| (lease.epoch, *head)))
        });
        let (lease, head) = taken?;
        self.insert_writer(&lease, head);
        Ok(lease)
    }

    /// Appends a batch; what the log lost before it is appended again first.
    async fn write(&self, lease: &Lease, events: &[BlockEvent], time: Timestamp) -> Result<u64, LogError> {
        let Some(writer) = self.writer(lease) else {
            return Err(LogError::Fenced { run: lease.run_id.clone(), epoch: lease.epoch });
        };
        let first = writer.head + 1;
        loop {
            match self.call(|server, at| server.append(at, lease, first, events, time)).await?? {
                Appended::Head(head) => return Ok(head),
                Appended::Behind(behind) => self.restore(lease, &writer, behind, time).await?,
            }
        }
    }

    /// Appends again what the log lost after `behind`, with the notes.
    async fn restore(
        &self,
        lease: &Lease,
        writer: &Writer,
        behind: u64,
        time: Timestamp,
    ) -> Result<(), LogError> {
        let run = &lease.run_id;
        self.node.note(|| format!("{run} lost events after {behind}"));
        let lost = LogError::Lost { run: run.clone(), from: behind + 1 };
        let skipped = behind.checked_sub(writer.from).ok_or(lost)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        for note in &writer.notes {
            self.call(|server, at| server.annotate(at, lease, note.clone())).await??;
        }
        let missing: Vec<BlockEvent> = writer.window.iter().skip(skipped).cloned().collect();
        self.call(|server, at| server.append(at, lease, behind + 1, &missing, time)).await??;
        Ok(())
    }

    /// Extends or releases leases. As in the engine on Redis, what the log lost is appended again first.
    async fn renew_runs(&self, leases: Vec<Lease>, until: Timestamp) -> Result<Vec<Lease>, LogError> {
        let writers: Vec<(&Lease, Writer)> =
            leases.iter().filter_map(|lease| Some((lease, self.writer(lease)?))).collect();
        let renewed = self.call(|server, at| {
            let head = |(n, (lease, writer)): (usize, &(&Lease, Writer))| {
                let state = server.state(&lease.run_id).ok()?;
                let is_behind =
                    state.epoch == lease.epoch && state.closed_at.is_none() && state.head < writer.head;
                is_behind.then_some((n, state.head))
            };
            let behind: Vec<(usize, u64)> = writers.iter().enumerate().filter_map(head).collect();
            if behind.is_empty() { Ok(server.renew(at, leases.clone(), until)) } else { Err(behind) }
        });
        let behind = match renewed.await? {
            Ok(lost) => return lost,
            Err(behind) => behind,
        };
        for (n, head) in behind {
            let Some((lease, writer)) = writers.get(n) else { continue };
            match self.restore(lease, writer, head, Timestamp(self.node.now())).await {
                // The next append reports events that cannot be restored, or the fence.
                Ok(()) | Err(LogError::Lost { .. } | LogError::Fenced { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.call(|server, at| server.renew(at, leases.clone(), until)).await?
    }

    async fn append_run(
        &self,
        lease: Lease,
        events: Vec<BlockEvent>,
        time: Timestamp,
    ) -> Result<u64, Refused> {
        let written = self.write(&lease, &events, time).await;
        self.node
            .note(|| format!("append {}/{} {} events: {written:?}", lease.run_id, lease.epoch, events.len()));
        match written {
            Ok(head) => {
                if let Some(writer) = locked(&self.writers).get_mut(&lease.run_id) {
                    writer.head = head;
                    writer.window.extend(events);
                }
                Ok(head)
            }
            Err(error) => Err(Refused::new(error, events)),
        }
    }

    async fn annotate_run(&self, lease: Lease, note: Note) -> Result<(), LogError> {
        self.call(|server, at| server.annotate(at, &lease, note.clone())).await??;
        if let Some(writer) = locked(&self.writers).get_mut(&lease.run_id) {
            writer.notes.push(note);
        }
        Ok(())
    }
}

impl RunLog for SimulatedLog {
    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>> {
        Box::pin(self.open_run(meta, until))
    }

    fn take_over(
        &self,
        run: &RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<Lease, LogError>> {
        Box::pin(self.take_over_run(run.clone(), now, until))
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> BoxFuture<'_, Result<Vec<Lease>, LogError>> {
        Box::pin(self.renew_runs(leases, until))
    }

    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, Refused>> {
        Box::pin(self.append_run(lease.clone(), events, now))
    }

    fn annotate(&self, lease: &Lease, note: Note) -> BoxFuture<'_, Result<(), LogError>> {
        Box::pin(self.annotate_run(lease.clone(), note))
    }

    fn input(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Arc<Value>>, LogError>> {
        let run = run.clone();
        Box::pin(async move { self.wait(&run, |server| server.log().input(&run).now()).await })
    }

    fn scope(&self) -> LogScope {
        LogScope::Replicas
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>> {
        let run = run.clone();
        Box::pin(async move { self.call(|server, _| server.read(&run, after, max)).await? })
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move {
            let is_changed = |server: &Server| match server.is_changed(&run, after) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            self.wait(&run, is_changed).await
        })
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> BoxFuture<'_, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move { self.call(|server, at| server.watched(at, &run, until)).await? })
    }

    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>> {
        let run = run.clone();
        Box::pin(async move { self.call(|server, _| server.state(&run)).await? })
    }

    fn list(&self, query: RunQuery, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        Box::pin(async move {
            self.call(|server, _| server.log().list(query.clone(), max).now()).await?.unwrap_or_else(waits)
        })
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        Box::pin(async move {
            self.call(|server, _| server.log().lapsed(now, max).now()).await?.unwrap_or_else(waits)
        })
    }

    fn control(&self, run: &RunId, message: Control) -> BoxFuture<'_, Result<(), LogError>> {
        let (run, nonce) = (run.clone(), self.node.nonce());
        Box::pin(async move {
            self.node.note(|| format!("control {run}: {}", kind(&message)));
            self.call(|server, at| server.control(at, &run, message.clone(), nonce)).await?
        })
    }

    fn controls(&self, lease: &Lease, seen: usize) -> BoxFuture<'_, Result<Vec<Control>, LogError>> {
        let lease = lease.clone();
        Box::pin(async move { self.wait(&lease.run_id, |server| server.controls(&lease, seen)).await })
    }

    fn claim(
        &self,
        key: String,
        value: String,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<String, LogError>> {
        Box::pin(async move {
            self.call(|server, _| server.log().claim(key.clone(), value.clone(), now, until).now())
                .await?
                .unwrap_or_else(waits)
        })
    }

    fn relate(
        &self,
        run: &RunId,
        keys: Vec<String>,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move {
            self.call(|server, _| server.log().relate(&run, keys.clone(), until).now())
                .await?
                .unwrap_or_else(waits)
        })
    }

    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> BoxFuture<'_, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move {
            self.call(|server, _| server.log().unrelate(&run, keys.clone()).now())
                .await?
                .unwrap_or_else(waits)
        })
    }

    fn related(&self, keys: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<RunId>>, LogError>> {
        Box::pin(async move {
            self.call(|server, _| server.log().related(keys.clone()).now()).await?.unwrap_or_else(waits)
        })
    }

    fn trim(&self, run: &RunId, earliest: u64) -> BoxFuture<'_, Result<(), LogError>> {
        let run = run.clone();
        Box::pin(async move { self.call(|server, at| server.trim(at, &run, earliest)).await? })
    }

    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>> {
        Box::pin(async move { self.call(|server, at| server.expire(at, before)).await? })
    }
}

/// Futures of the engine in memory that are ready.
trait Now<T> {
    /// Returns what it comes to; `None` if it waits.
    fn now(self) -> Option<T>;
}

impl<T, F: Future<Output = T>> Now<T> for F {
    fn now(self) -> Option<T> {
        futures_util::FutureExt::now_or_never(self)
    }
}

fn waits<T>() -> Result<T, LogError> {
    Err(LogError::Unavailable("the engine in memory waits".to_owned()))
}
