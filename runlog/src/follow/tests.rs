//! Watchers of engines that do not do what they should.

use std::sync::atomic::{AtomicU32, Ordering};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, Timestamp};
use aqueduct_core::{ContentBlock, RunInfo, SourceEvent, StreamContext, Update, wellknown};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::*;
use crate::error::Refused;
use crate::log::{Control, Lease, Note, RunMeta, RunQuery, RunState};
use crate::memory::MemoryLog;
use crate::testing::{events, meta};

/// A log that has lost the events above a number, and still knows that there were some; for the first reads, or for all.
struct Holed {
    log: MemoryLog,
    last: u64,
    reads: AtomicU32,
}

impl Holed {
    fn new(last: u64, reads: u32) -> Self {
        Self { log: MemoryLog::default(), last, reads: reads.into() }
    }
}

impl RunLog for Holed {
    fn open(&self, meta: RunMeta, until: Timestamp) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.log.open(meta, until)
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

    fn append(
        &self,
        lease: &Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, Refused>> {
        self.log.append(lease, events, now)
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
        let run = run.clone();
        Box::pin(async move {
            let mut page = self.log.read(&run, after, max).await?;
            let count_down = |left: u32| left.checked_sub(1);
            if self.reads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down).is_ok() {
                page.events.retain(|event| event.number <= self.last);
            }
            Ok(page)
        })
    }

    fn changed(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<(), LogError>> {
        self.log.changed(run, after)
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

#[tokio::test]
async fn a_head_without_events_is_told_and_not_read_for_ever() {
    let log = Arc::new(Holed::new(3, u32::MAX));
    let lease = log.open(meta("a"), Timestamp(9)).await.unwrap();
    log.append(&lease, events(5), Timestamp(1)).await.unwrap();
    let seen: Vec<_> = Follow::new(log, lease.run_id.clone(), 0).with_page(2).collect().await;
    let numbers: Vec<_> = seen.iter().filter_map(|event| event.as_ref().ok()).map(|e| e.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(seen.last(), Some(&Err(LogError::Lost { run: lease.run_id, from: 4 })));
}

#[tokio::test]
async fn one_empty_read_is_tolerated() {
    let log = Arc::new(Holed::new(0, 1));
    let lease = log.open(meta("a"), Timestamp(9)).await.unwrap();
    log.append(&lease, events(2), Timestamp(1)).await.unwrap();
    let seen: Vec<_> = Follow::new(log, lease.run_id, 0).map(|event| event.map(|e| e.number)).collect().await;
    assert_eq!(seen.first(), Some(&Ok(1)), "{seen:?}");
    assert!(seen.iter().all(Result::is_ok), "{seen:?}");
}

#[tokio::test]
async fn a_watcher_is_shown_with_its_run_and_position() {
    let follow = Follow::new(Arc::new(MemoryLog::default()), "a".into(), 7);
    let shown = format!("{follow:?}");
    assert!(shown.starts_with("Follow") && shown.contains("\"a\"") && shown.contains("after: 7"), "{shown}");
}

#[tokio::test]
async fn notes_in_logs_of_version_0_1_are_not_shown() {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for name in [wellknown::INPUT, wellknown::UPSTREAM] {
        let note = ContentBlock::custom(name, json!({ "messages": [] }));
        context.handle_update(Update::new(note)).unwrap();
    }
    context.handle_update(Update::text("shown")).unwrap();
    context.handle_event(SourceEvent::finished()).unwrap();
    let log = Arc::new(MemoryLog::default());
    let lease = log.open(meta("a"), Timestamp(1)).await.unwrap();
    let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
    let all = events.len();
    log.append(&lease, events, Timestamp(2)).await.unwrap();
    let seen: Vec<_> = Follow::new(log, lease.run_id, 0).map(Result::unwrap).collect().await;
    assert_eq!(seen.len(), all - 2);
    assert!(seen.iter().all(|event| !matches!(event.event, BlockEvent::Custom(_))), "{seen:?}");
    assert_eq!(seen.last().unwrap().number, all as u64);
}
