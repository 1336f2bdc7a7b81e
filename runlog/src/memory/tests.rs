//! The limits of memory, at their exact value.

use super::*;
use crate::testing::{events, meta};

/// Returns a log with a run of three events that has not ended, and its lease.
fn with_run(limits: LogLimits) -> (MemoryLog, Lease) {
    let log = MemoryLog::new(limits);
    let lease = log.open_now(meta("a"), Timestamp(9)).unwrap();
    log.append_now(&lease, events(3)[..3].to_vec(), Timestamp(1)).unwrap();
    (log, lease)
}

#[test]
fn a_log_that_holds_exactly_its_limit_takes_one_more_batch() {
    let (log, _) = with_run(LogLimits::default());
    let held = usize::try_from(log.runs().owners.bytes()).unwrap();
    let of_all = |bytes| LogLimits { bytes, ..LogLimits::default() };
    let of_owner = |bytes_per_owner| LogLimits { bytes_per_owner, ..LogLimits::default() };
    for (name, limits) in [("bytes", of_all(held)), ("bytes_per_owner", of_owner(held))] {
        let (log, lease) = with_run(limits);
        assert_eq!(log.append_now(&lease, events(1)[..1].to_vec(), Timestamp(2)).ok(), Some(4), "{name}");
        let refused = log.append_now(&lease, events(1)[..1].to_vec(), Timestamp(2)).map_err(LogError::from);
        assert!(matches!(&refused, Err(LogError::RunTooLong { limit, .. }) if *limit == name), "{refused:?}");
    }
}

#[tokio::test]
async fn a_page_is_read_without_waiting() {
    let (log, lease) = with_run(LogLimits::default());
    let page = log.read_now(&lease.run_id, 1, 10);
    assert_eq!(page, Some(log.read(&lease.run_id, 1, 10).await));
    assert_eq!(page.unwrap().unwrap().events.len(), 2);
    assert!(matches!(log.read_now(&"b".into(), 0, 10), Some(Err(LogError::NotFound(_)))));
}

#[test]
fn notes_and_trimmed_events_are_counted_exactly() {
    let (log, lease) = with_run(LogLimits::default());
    let bytes = || log.runs().owners.bytes();
    let before = bytes();
    let note = Note::Checkpoint(serde_json::json!("four").into());
    log.run(&lease.run_id).unwrap().annotate(&lease, note, &log.limits).unwrap();
    assert_eq!(bytes(), before + 4);
    log.run(&lease.run_id).unwrap().trim(2);
    assert_eq!(bytes(), before + 4 - count(size_of::<BlockEvent>()), "one event, which has no content");
    log.append_now(&lease, events(1), Timestamp(2)).unwrap();
    assert_eq!(log.expire_now(Timestamp(3)), 1);
    assert_eq!(bytes(), 0);
}

#[test]
fn a_sweep_packs_the_runs_that_have_ended() {
    let (log, lease) = with_run(LogLimits::default());
    let swept = || {
        assert_eq!(log.expire_now(Timestamp(0)), 0);
        log.run(&lease.run_id).unwrap().is_packed()
    };
    assert!(!swept(), "the run is open");
    log.append_now(&lease, events(1), Timestamp(2)).unwrap();
    assert!(swept());
}
