//! Rules of notes: the input and the checkpoint of a run, stored beside its events.

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use serde_json::{Value, json};

use super::{UNTIL, append, events, open};
use crate::error::LogError;
use crate::limits::LogLimits;
use crate::log::{Note, RunLog, RunQuery};

/// Checks all rules of this module, the last one on a log with a small limit.
pub(super) async fn check(make: &impl AsyncFn(LogLimits) -> Arc<dyn RunLog>) {
    let plain = async || make(LogLimits::default()).await;
    notes_are_kept_beside_the_events(&*plain().await).await;
    the_last_checkpoint_counts(&*plain().await).await;
    only_the_holder_of_the_lease_annotates(&*plain().await).await;
    notes_go_with_their_run(&*plain().await).await;
    let limits = LogLimits { bytes_per_run: 100, ..LogLimits::default() };
    notes_count_as_content(&*make(limits).await).await;
}

fn input(value: Value) -> Note {
    Note::Input(Arc::new(value))
}

fn checkpoint(value: Value) -> Note {
    Note::Checkpoint(Arc::new(value))
}

/// Notes have no number: a watcher that counts events must not see a gap. The checkpoint is part of
/// the state and of lists, because a takeover reads it from there; the input is read alone, because
/// it may be large.
async fn notes_are_kept_beside_the_events(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    assert_eq!(log.input(&lease.run_id).await, Ok(None));
    assert_eq!(log.state(&lease.run_id).await.unwrap().checkpoint, None);
    let asked = json!({ "messages": [{ "text": "h\u{1f}\u{1f600}i", "n": [1, 2.5, null] }] });
    let task = json!({ "task": "t1" });
    log.annotate(&lease, input(asked.clone())).await.unwrap();
    log.annotate(&lease, checkpoint(task.clone())).await.unwrap();
    assert_eq!(append(log, &lease, &events(1), 2).await, Ok(events(1).len() as u64), "notes have no number");
    assert_eq!(log.input(&lease.run_id).await.unwrap().as_deref(), Some(&asked));
    assert_eq!(log.state(&lease.run_id).await.unwrap().checkpoint.as_deref(), Some(&task));
    let listed = log.list(RunQuery::default(), 9).await.unwrap();
    assert_eq!(listed[0].checkpoint.as_deref(), Some(&task));
}

/// A checkpoint replaces the one before it. Equal values in a row are accepted: a retry sends the
/// same value again.
async fn the_last_checkpoint_counts(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    for task in ["t1", "t2", "t2"] {
        log.annotate(&lease, checkpoint(json!({ "task": task }))).await.unwrap();
    }
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!(state.checkpoint.as_deref(), Some(&json!({ "task": "t2" })));
}

/// A fenced owner must not overwrite the checkpoint of the new owner. The checkpoint of the former
/// owner stays: the new owner resumes from it.
async fn only_the_holder_of_the_lease_annotates(log: &dyn RunLog) {
    let old = open(log, "a").await;
    log.annotate(&old, checkpoint(json!("old"))).await.unwrap();
    let new = log.take_over(&old.run_id, Timestamp(UNTIL.0 + 1), Timestamp(2_000)).await.unwrap();
    let fenced = Err(LogError::Fenced { run: old.run_id.clone(), epoch: old.epoch });
    assert_eq!(log.annotate(&old, checkpoint(json!("late"))).await, fenced);
    let state = log.state(&new.run_id).await.unwrap();
    assert_eq!(state.checkpoint.as_deref(), Some(&json!("old")), "it outlives its writer");
    append(log, &new, &events(1), 3).await.unwrap();
    assert_eq!(log.annotate(&new, input(json!(1))).await, Err(LogError::Closed(new.run_id.clone())));
}

/// Notes are deleted with their run, so that a new run of the same id does not start with an old
/// input.
async fn notes_go_with_their_run(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    log.annotate(&lease, input(json!("asked"))).await.unwrap();
    log.annotate(&lease, checkpoint(json!("there"))).await.unwrap();
    append(log, &lease, &events(1), 10).await.unwrap();
    log.expire(Timestamp(11)).await.unwrap();
    let nothing = LogError::NotFound(RunId::from("a"));
    assert_eq!(log.input(&lease.run_id).await, Err(nothing));
    open(log, "a").await;
    assert_eq!(log.input(&lease.run_id).await, Ok(None));
    assert_eq!(log.state(&lease.run_id).await.unwrap().checkpoint, None);
}

/// Notes count against the bytes of the run, because they use the same storage. A refused note
/// leaves the stored one unchanged.
async fn notes_count_as_content(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    log.annotate(&lease, input(json!("x".repeat(60)))).await.unwrap();
    let refused = log.annotate(&lease, checkpoint(json!("y".repeat(60)))).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "bytes_per_run", .. })), "{refused:?}");
    assert_eq!(log.state(&lease.run_id).await.unwrap().checkpoint, None, "what is refused is not kept");
}
