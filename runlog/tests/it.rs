//! The engines against the conformance suite, and what only one of them has.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test says no")]

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::{conform, conform_shared, events, meta};
use aqueduct_runlog::{Follow, LogError, LogLimits, MemoryLog, RunLog};
use futures_util::{FutureExt as _, StreamExt as _};

const UNTIL: Timestamp = Timestamp(1_000);

#[tokio::test]
async fn memory_conforms() {
    conform(async |limits| Arc::new(MemoryLog::new(limits)) as Arc<dyn RunLog>).await;
    conform_shared(async |limits| Arc::new(MemoryLog::new(limits)) as Arc<dyn RunLog>).await;
}

#[cfg(feature = "disk")]
#[tokio::test]
async fn disk_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    conform(async |limits| {
        count.set(count.get() + 1);
        let log = aqueduct_runlog::DiskLog::open(&folder.path().join(count.get().to_string()), limits);
        Arc::new(log.unwrap()) as Arc<dyn RunLog>
    })
    .await;
}

#[tokio::test]
async fn memory_forgets_the_run_that_ended_first_when_it_is_full() {
    let log = MemoryLog::new(LogLimits { runs: 2, ..LogLimits::default() });
    for id in ["first", "second"] {
        let lease = log.open(meta(id), UNTIL).await.unwrap();
        log.append(&lease, events(1), Timestamp(5 + i64::from(id == "second"))).await.unwrap();
    }
    log.open(meta("third"), UNTIL).await.unwrap();
    assert!(log.state(&RunId::from("first")).await.is_err());
    log.open(meta("fourth"), UNTIL).await.unwrap();
    let refused = log.open(meta("fifth"), UNTIL).await;
    assert_eq!(refused, Err(LogError::Full { max: 2 }), "what runs is never forgotten");
}

#[tokio::test]
async fn a_watcher_that_has_seen_everything_waits() {
    let log = Arc::new(MemoryLog::default());
    let lease = log.open(meta("a"), UNTIL).await.unwrap();
    let mut follow = Follow::new(Arc::clone(&log) as Arc<dyn RunLog>, RunId::from("a"), 0);
    assert!(follow.next().now_or_never().is_none());
    log.append(&lease, events(1), Timestamp(1)).await.unwrap();
    assert!(follow.next().now_or_never().is_some());
}
