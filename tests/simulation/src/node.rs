//! [`Node`]: the way from one replica to the shared log, with everything that can go wrong on it.
//!
//! ```text
//!   up ──► cut (calls fail after `PATIENCE`) ──► up
//!    ├───► paused (calls wait, and reach the log late: a process that was stopped and continued) ──► up
//!    └───► crashed (no call ever returns: nothing of this replica is seen any more)
//! ```
//!
//! Calls take time both ways. An acknowledgement may be lost: the call is then made again by the same rules as in the
//! Redis engine, and fails if that is lost too. A writer keeps what it appended, for a log that comes back without it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::{
    Control, Lease, LogError, LogScope, Note, Page, Refused, RunLog, RunMeta, RunQuery, RunState,
};
use serde_json::Value;

use crate::news::News;
use crate::random::Random;
use crate::server::{Appended, Server};
use crate::trace::{Trace, locked};

/// How long a call waits for a log that cannot be reached.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What a replica can do at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Up,
    /// The log cannot be reached from it.
    Cut,
    /// It does nothing, and will go on.
    Paused,
    /// It is gone.
    Crashed,
}

/// How often calls go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weather {
    /// The longest usual way of a call, in milliseconds.
    pub delay: u64,
    /// How many of a thousand calls take up to a second.
    pub slow: u64,
    /// How many of a thousand calls lose their acknowledgement.
    pub lost: u64,
}

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
struct Pen {
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
pub struct Node {
    name: String,
    shared: Shared,
    trace: Trace,
    weather: Weather,
    random: Mutex<Random>,
    status: News<Status>,
    pens: Mutex<BTreeMap<RunId, Pen>>,
}

impl Node {
    /// Returns the way of a replica to the log.
    pub fn new(name: String, shared: Shared, trace: Trace, weather: Weather, random: Random) -> Self {
        let status = News::new(Status::Up);
        Self { name, shared, trace, weather, random: Mutex::new(random), status, pens: Mutex::default() }
    }

    /// Returns the name of the replica.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a line of this replica to the trace.
    pub fn note(&self, what: impl FnOnce() -> String) {
        self.trace.note(&self.name, what);
    }

    /// Returns what the replica can do now.
    pub fn status(&self) -> Status {
        self.status.get()
    }

    /// Changes what the replica can do. A crash is final.
    pub fn set(&self, status: Status) {
        self.note(|| format!("is {status:?}"));
        self.status.change(|now| {
            if *now != Status::Crashed {
                *now = status;
            }
        });
    }

    /// Waits until the replica does something again; without end if it is gone.
    pub async fn alive(&self) {
        self.until(|status| matches!(status, Status::Up | Status::Cut)).await;
    }

    /// Waits until the replica is gone.
    pub async fn crashed(&self) {
        self.until(|status| status == Status::Crashed).await;
    }

    async fn until(&self, is_met: impl Fn(Status) -> bool) {
        self.status.until(is_met).await;
    }

    /// Waits until the log can be reached.
    async fn reach(&self) -> Result<(), LogError> {
        self.alive().await;
        let is_up = tokio::time::timeout(PATIENCE, self.until(|status| status == Status::Up)).await;
        self.alive().await;
        is_up.map_err(|_| LogError::Unavailable("the log cannot be reached".to_owned()))
    }

    fn delay(&self) -> Duration {
        let mut random = locked(&self.random);
        let Weather { delay, slow, .. } = self.weather;
        if random.chance(slow) { random.millis(delay, 1_000) } else { random.millis(0, delay) }
    }

    /// Makes a call.
    async fn call<T>(&self, mut op: impl FnMut(&mut Server, i64) -> T) -> Result<T, LogError> {
        for is_again in [false, true] {
            tokio::time::sleep(self.delay()).await;
            self.reach().await?;
            let answer = self.shared.call(self.trace.now(), &mut op);
            let is_lost = locked(&self.random).chance(self.weather.lost);
            if !is_lost {
                tokio::time::sleep(self.delay()).await;
                self.alive().await;
                return Ok(answer);
            }
            self.note(|| format!("acknowledgement lost, again: {is_again}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.alive().await;
        Err(LogError::Unavailable("the acknowledgement was lost".to_owned()))
    }

    /// Waits until the log has an answer about a run.
    async fn wait<T>(&self, run: &RunId, mut op: impl FnMut(&Server) -> Option<T>) -> T {
        let news = self.shared.news(run);
        loop {
            tokio::time::sleep(self.delay()).await;
            // A subscription waits for a log that cannot be reached; it does not fail.
            self.until(|status| status == Status::Up).await;
            let version = news.get();
            if let Some(answer) = op(&locked(&self.shared.server)) {
                return answer;
            }
            news.until(|now| now != version).await;
        }
    }

    fn nonce(&self) -> u64 {
        locked(&self.random).number()
    }

    fn take_pen(&self, lease: &Lease, head: u64) {
        let pen = Pen { epoch: lease.epoch, head, from: head, window: Vec::new(), notes: Vec::new() };
        locked(&self.pens).insert(lease.run_id.clone(), pen);
    }

    fn pen(&self, lease: &Lease) -> Option<Pen> {
        locked(&self.pens).get(&lease.run_id).filter(|pen| pen.epoch == lease.epoch).cloned()
    }

    async fn open_run(&self, meta: RunMeta, until: Timestamp) -> Result<Lease, LogError> {
        let nonce = self.nonce();
        let run = meta.run_id.clone();
        let lease = self.call(|server, at| server.open(at, meta.clone(), until, nonce)).await?;
        self.note(|| format!("open {run}: {:?}", lease.as_ref().map(|lease| lease.epoch)));
        let lease = lease?;
        self.take_pen(&lease, 0);
        Ok(lease)
    }

    async fn take_over_run(&self, run: RunId, now: Timestamp, until: Timestamp) -> Result<Lease, LogError> {
        let nonce = self.nonce();
        let taken = self.call(|server, at| server.take_over(at, &run, now, until, nonce)).await?;
        self.note(|| {
            format!("take over {run}: {:?}", taken.as_ref().map(|(lease, head)| (lease.epoch, *head)))
        });
        let (lease, head) = taken?;
        self.take_pen(&lease, head);
        Ok(lease)
    }

    /// Appends a batch; what the log lost before it is appended again first.
    async fn write(&self, lease: &Lease, events: &[BlockEvent], time: Timestamp) -> Result<u64, LogError> {
        let Some(pen) = self.pen(lease) else {
            return Err(LogError::Fenced { run: lease.run_id.clone(), epoch: lease.epoch });
        };
        let (run, first) = (&lease.run_id, pen.head + 1);
        loop {
            match self.call(|server, at| server.append(at, lease, first, events, time)).await?? {
                Appended::Head(head) => return Ok(head),
                Appended::Behind(behind) => {
                    self.note(|| format!("{run} lost events after {behind}"));
                    let lost = LogError::Lost { run: run.clone(), from: behind + 1 };
                    let skipped = behind.checked_sub(pen.from).ok_or(lost)?;
                    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
                    for note in &pen.notes {
                        self.call(|server, at| server.annotate(at, lease, note.clone())).await??;
                    }
                    let missing: Vec<BlockEvent> = pen.window.iter().skip(skipped).cloned().collect();
                    self.call(|server, at| server.append(at, lease, behind + 1, &missing, time)).await??;
                }
            }
        }
    }

    async fn append_run(
        &self,
        lease: Lease,
        events: Vec<BlockEvent>,
        time: Timestamp,
    ) -> Result<u64, Refused> {
        let written = self.write(&lease, &events, time).await;
        self.note(|| format!("append {}/{} {} events: {written:?}", lease.run_id, lease.epoch, events.len()));
        match written {
            Ok(head) => {
                if let Some(pen) = locked(&self.pens).get_mut(&lease.run_id) {
                    pen.head = head;
                    pen.window.extend(events);
                }
                Ok(head)
            }
            Err(error) => Err(Refused::new(error, events)),
        }
    }

    async fn annotate_run(&self, lease: Lease, note: Note) -> Result<(), LogError> {
        self.call(|server, at| server.annotate(at, &lease, note.clone())).await??;
        if let Some(pen) = locked(&self.pens).get_mut(&lease.run_id) {
            pen.notes.push(note);
        }
        Ok(())
    }
}

impl RunLog for Node {
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
        Box::pin(async move { self.call(|server, at| server.renew(at, leases.clone(), until)).await? })
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
        let (run, nonce) = (run.clone(), self.nonce());
        Box::pin(async move {
            self.note(|| format!("control {run}: {}", kind(&message)));
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
