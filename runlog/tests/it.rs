//! The engines against the conformance suite, and what only one of them has.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test says no")]

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::{conform, events};
use aqueduct_runlog::{Follow, LogError, MemoryLimits, MemoryLog, RunLog, RunMeta};
use futures_util::{FutureExt as _, StreamExt as _};

fn meta(id: &str) -> RunMeta {
    RunMeta {
        run_id: RunId::from(id),
        thread_id: "thread".into(),
        agent: "agent".to_owned(),
        owner: String::new(),
        opened_at: Timestamp(0),
    }
}

#[tokio::test]
async fn memory_conforms() {
    conform(MemoryLog::default).await;
}

#[tokio::test]
async fn memory_forgets_the_run_that_ended_first_when_it_is_full() {
    let log = MemoryLog::new(MemoryLimits { runs: 2, ..MemoryLimits::default() });
    for id in ["first", "second"] {
        let lease = log.open(meta(id)).await.unwrap();
        log.append(&lease, events(1), Timestamp(5)).await.unwrap();
    }
    log.open(meta("third")).await.unwrap();
    assert!(log.state(&RunId::from("first")).await.is_err());
    log.open(meta("fourth")).await.unwrap();
    assert_eq!(log.open(meta("fifth")).await, Err(LogError::Full { max: 2 }), "what runs is never forgotten");
}

#[tokio::test]
async fn memory_stops_a_run_that_never_ends_but_takes_its_end() {
    let log = MemoryLog::new(MemoryLimits { events_per_run: 3, ..MemoryLimits::default() });
    let lease = log.open(meta("a")).await.unwrap();
    let all = events(5);
    let refused = log.append(&lease, all.iter().take(5).cloned().collect(), Timestamp(1)).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "events_per_run", .. })), "{refused:?}");
    log.append(&lease, all.iter().take(3).cloned().collect(), Timestamp(1)).await.unwrap();
    log.append(&lease, all.last().cloned().into_iter().collect(), Timestamp(2)).await.unwrap();
}

#[tokio::test]
async fn memory_counts_bytes() {
    let log = MemoryLog::new(MemoryLimits { bytes_per_run: 10, ..MemoryLimits::default() });
    let lease = log.open(meta("a")).await.unwrap();
    let texts: Vec<_> = events(3).into_iter().filter(|event| !event.is_terminal()).collect();
    let refused = log.append(&lease, texts, Timestamp(1)).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "bytes_per_run", .. })), "{refused:?}");
}

#[tokio::test]
async fn a_watcher_that_has_seen_everything_waits() {
    let log = Arc::new(MemoryLog::default());
    let lease = log.open(meta("a")).await.unwrap();
    let mut follow = Follow::new(Arc::clone(&log) as Arc<dyn RunLog>, RunId::from("a"), 0);
    assert!(follow.next().now_or_never().is_none());
    log.append(&lease, events(1), Timestamp(1)).await.unwrap();
    assert!(follow.next().now_or_never().is_some());
}
