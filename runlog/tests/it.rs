//! The engines against the conformance suite, and what only one of them has.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test says no"
)]

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::{conform, conform_shared, events, meta};
use aqueduct_runlog::{Follow, LogError, LogLimits, MemoryLog, RunLog, RunMeta, RunQuery};
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
async fn memory_holds_no_more_bytes_than_it_may() {
    let log = MemoryLog::new(LogLimits { bytes: 100_000, ..LogLimits::default() });
    let (mut said, most) = (0, 10_000);
    for run in 0..most {
        let lease = log.open(meta(&run.to_string()), UNTIL).await.unwrap();
        log.append(&lease, events(20), Timestamp(run)).await.unwrap();
        said = run;
    }
    let kept = log.list(RunQuery::default(), usize::MAX).await.unwrap();
    assert!((2..100).contains(&kept.len()), "{} runs are kept", kept.len());
    assert!(log.state(&RunId::from(said.to_string())).await.is_ok(), "the newest is");
    let lease = log.open(meta("open"), UNTIL).await.unwrap();
    let mut all = events(2_000);
    let end = all.pop().unwrap();
    log.append(&lease, all, Timestamp(1)).await.unwrap();
    let refused = log.append(&lease, events(1)[..1].to_vec(), Timestamp(1)).await.unwrap_err();
    assert!(matches!(*refused.error, LogError::RunTooLong { limit: "bytes", .. }), "{refused}");
    log.append(&lease, vec![end], Timestamp(1)).await.expect("an end is always taken");
    let next = log.open(meta("next"), UNTIL).await.unwrap();
    log.append(&next, events(1), Timestamp(2)).await.expect("what ended makes room");
    assert!(log.state(&lease.run_id).await.is_err());
}

fn owned(id: &str, owner: &str) -> RunMeta {
    RunMeta { owner: owner.to_owned(), ..meta(id) }
}

/// An owner that floods the log forgets runs of its own; one that keeps little loses nothing to it.
#[tokio::test]
async fn memory_of_one_owner_never_costs_another_that_holds_less() {
    for limits in [
        LogLimits { bytes: 100_000, ..LogLimits::default() },
        LogLimits { bytes_per_owner: 50_000, ..LogLimits::default() },
        LogLimits { runs: 20, ..LogLimits::default() },
    ] {
        let log = MemoryLog::new(limits);
        let lease = log.open(owned("little", "ann"), UNTIL).await.unwrap();
        log.append(&lease, events(20), Timestamp(0)).await.unwrap();
        for run in 0..1_000 {
            let lease = log.open(owned(&run.to_string(), "bob"), UNTIL).await.unwrap();
            log.append(&lease, events(20), Timestamp(run)).await.unwrap();
        }
        let kept = log.list(RunQuery::default(), usize::MAX).await.unwrap();
        assert!((2..100).contains(&kept.len()), "{limits:?}: {} runs are kept", kept.len());
        assert!(log.state(&RunId::from("little")).await.is_ok(), "{limits:?}: ann has hers");
        assert!(log.state(&RunId::from("999")).await.is_ok(), "{limits:?}: bob has his newest");
    }
}

/// An owner whose runs are all under way finds its limit; one that holds less takes the room of one that holds more.
#[tokio::test]
async fn memory_that_is_full_of_one_owners_runs_is_that_owners_trouble() {
    let log = MemoryLog::new(LogLimits { bytes: 100_000, bytes_per_owner: 90_000, ..LogLimits::default() });
    let little = log.open(owned("little", "ann"), UNTIL).await.unwrap();
    log.append(&little, events(20), Timestamp(0)).await.unwrap();
    let first = log.open(owned("first", "bob"), UNTIL).await.unwrap();
    let mut many = events(2_000);
    many.pop();
    log.append(&first, many, Timestamp(1)).await.unwrap();
    let refused = log.append(&first, events(1)[..1].to_vec(), Timestamp(1)).await.unwrap_err();
    assert!(matches!(*refused.error, LogError::RunTooLong { limit: "bytes_per_owner", .. }), "{refused}");
    assert!(log.state(&little.run_id).await.is_ok(), "nothing of ann's makes room for it");
    log.append(&first, events(1)[events(1).len() - 1..].to_vec(), Timestamp(2)).await.expect("its end");
    let next = log.open(owned("next", "ann"), UNTIL).await.unwrap();
    log.append(&next, events(1)[..1].to_vec(), Timestamp(3)).await.expect("room of the one that holds more");
    assert!(log.state(&first.run_id).await.is_err());
    assert!(log.state(&little.run_id).await.is_ok());
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

#[cfg(feature = "disk")]
#[tokio::test]
async fn notes_on_the_disk_outlive_the_process() {
    use aqueduct_runlog::{DiskLog, Note};
    use serde_json::json;

    let folder = tempfile::tempdir().unwrap();
    let open = || DiskLog::open(folder.path(), LogLimits::default()).unwrap();
    let log = open();
    let lease = log.open(meta("a"), UNTIL).await.unwrap();
    log.annotate(&lease, Note::Input(Arc::new(json!({ "asked": "x" })))).await.unwrap();
    log.annotate(&lease, Note::Checkpoint(Arc::new(json!({ "task": 1 })))).await.unwrap();
    drop(log);
    let log = open();
    assert_eq!(log.input(&lease.run_id).await.unwrap().as_deref(), Some(&json!({ "asked": "x" })));
    assert_eq!(log.state(&lease.run_id).await.unwrap().checkpoint.as_deref(), Some(&json!({ "task": 1 })));
}
