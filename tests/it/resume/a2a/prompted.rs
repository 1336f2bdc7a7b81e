//! A log whose runs are written by a test: the gateway opens runs, and its own appends are dropped.
//!
//! The gateway's recorder and the caller that started the run receive each event as it arrives. All other watchers are
//! held until the run has ended, and receive the rest at once: the content is the same, and thousands of them cost
//! little.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, ThreadId, Timestamp};
use aqueduct_runlog::{Control, Lease, LogError, Note, Page, Refused, RunLog, RunMeta, RunQuery, RunState};
use serde_json::Value;
use tokio::sync::watch;

/// The watchers that receive events as they arrive: the recorder and the caller that started the run.
pub(super) const LIVE: usize = 2;

/// By run and number: how many watchers have requested what follows that number.
type Asked = HashMap<(RunId, u64), usize>;

pub(super) struct Prompted {
    log: Arc<dyn RunLog>,
    leases: watch::Sender<HashMap<ThreadId, Lease>>,
    asked: watch::Sender<Asked>,
    ended: watch::Sender<HashSet<RunId>>,
}

impl Prompted {
    pub(super) fn new(log: Arc<dyn RunLog>) -> Self {
        let (leases, asked, ended) = Default::default();
        Self { log, leases, asked, ended }
    }

    /// The lease of the first run of a thread, once it is there.
    pub(super) async fn lease(&self, thread: &str) -> Lease {
        let mut leases = self.leases.subscribe();
        let found = leases.wait_for(|leases| leases.contains_key(thread)).await.unwrap();
        found[thread].clone()
    }

    /// Appends for the gateway.
    pub(super) async fn prompt(&self, lease: &Lease, event: &BlockEvent) {
        self.log.append(lease, vec![event.clone()], Timestamp(i64::MAX)).await.unwrap();
        if event.is_terminal() {
            self.ended.send_modify(|ended| {
                ended.insert(lease.run_id.clone());
            });
        }
    }

    /// Waits until so many watchers have received event `number` of a run and wait for the next.
    pub(super) async fn taken(&self, run: &RunId, number: u64, watchers: usize) {
        let place = (run.clone(), number);
        let mut asked = self.asked.subscribe();
        asked.wait_for(|asked| asked.get(&place).is_some_and(|count| *count >= watchers)).await.unwrap();
    }
}

impl RunLog for Prompted {
    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>> {
        Box::pin(async move {
            let thread = meta.thread_id.clone();
            let lease = self.log.open(meta, until).await?;
            self.leases.send_modify(|leases| drop(leases.insert(thread, lease.clone())));
            Ok(lease)
        })
    }

    fn append(&self, _: &Lease, _: Vec<BlockEvent>, _: Timestamp) -> BoxFuture<'_, Result<u64, Refused>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        let place = (run.clone(), after);
        Box::pin(async move {
            let mut is_live = false;
            self.asked.send_modify(|asked| {
                let count = asked.entry(place.clone()).or_default();
                *count += 1;
                is_live = *count <= LIVE;
            });
            if !is_live {
                self.ended.subscribe().wait_for(|ended| ended.contains(&place.0)).await.unwrap();
            }
            self.log.changed(&place.0, after).await
        })
    }

    fn take_over(
        &self,
        run: &RunId,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.log.take_over(run, now, until)
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> BoxFuture<'_, Result<Vec<Lease>, LogError>> {
        self.log.renew(leases, until)
    }

    fn annotate(&self, lease: &Lease, note: Note) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.annotate(lease, note)
    }

    fn claim(
        &self,
        key: String,
        value: String,
        now: Timestamp,
        until: Timestamp,
    ) -> BoxFuture<'_, Result<String, LogError>> {
        self.log.claim(key, value, now, until)
    }

    fn input(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Arc<Value>>, LogError>> {
        self.log.input(run)
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> BoxFuture<'_, Result<Page, LogError>> {
        self.log.read(run, after, max)
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.watched(run, until)
    }

    fn state(&self, run: &RunId) -> BoxFuture<'_, Result<RunState, LogError>> {
        self.log.state(run)
    }

    fn list(&self, query: RunQuery, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        self.log.list(query, max)
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> BoxFuture<'_, Result<Vec<RunState>, LogError>> {
        self.log.lapsed(now, max)
    }

    fn control(&self, run: &RunId, message: Control) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.control(run, message)
    }

    fn controls(&self, lease: &Lease, seen: usize) -> BoxFuture<'_, Result<Vec<Control>, LogError>> {
        self.log.controls(lease, seen)
    }

    fn trim(&self, run: &RunId, earliest: u64) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.trim(run, earliest)
    }

    fn expire(&self, before: Timestamp) -> BoxFuture<'_, Result<usize, LogError>> {
        self.log.expire(before)
    }
}
