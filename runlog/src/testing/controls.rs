//! Rules of control messages to the lease holder.
//!
//! Messages are stored with the run, not delivered to a process: the owner may change between
//! sending and reading. So a reader gives the number of messages that it has seen, and reading
//! removes none.

use std::sync::Arc;

use aqueduct_core::{InterruptReply, RunId, Timestamp};
use futures_util::future;
use serde_json::json;

use super::{UNTIL, append, events, open};
use crate::error::LogError;
use crate::limits::LogLimits;
use crate::log::{Control, RunLog};

/// Checks all rules of this module, the last one on a log with small limits.
pub(super) async fn check(make: &impl AsyncFn(LogLimits) -> Arc<dyn RunLog>) {
    let plain = async || make(LogLimits::default()).await;
    messages_reach_the_owner_in_order(&*plain().await).await;
    an_owner_that_waits_is_woken(&*plain().await).await;
    who_takes_over_sees_all_and_who_lost_is_told(&*plain().await).await;
    a_run_that_ended_takes_no_message(&*plain().await).await;
    let limits = LogLimits { controls_per_run: 2, messages_per_run: 1, ..LogLimits::default() };
    messages_are_bounded(&*make(limits).await).await;
    a_queue_that_is_full_takes_a_cancel(&*make(limits).await).await;
}

/// Returns a reply with values of every JSON kind: engines encode it.
fn reply() -> Control {
    let payload = Some(json!({ "answer": [1, 2.5, null, "yes"] }));
    Control::Reply(InterruptReply { id: "i1".into(), resolved: true, payload })
}

/// The owner applies messages in the order of sending: a cancel after a reply must not precede it.
async fn messages_reach_the_owner_in_order(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    log.control(&lease.run_id, reply()).await.unwrap();
    log.control(&lease.run_id, Control::Cancel).await.unwrap();
    assert_eq!(log.controls(&lease, 0).await, Ok(vec![reply(), Control::Cancel]));
    assert_eq!(log.controls(&lease, 0).await.unwrap().len(), 2, "asking takes nothing away");
    assert_eq!(log.controls(&lease, 1).await, Ok(vec![Control::Cancel]));
    let nowhere = RunId::from("nowhere");
    assert_eq!(log.control(&nowhere, Control::Cancel).await, Err(LogError::NotFound(nowhere.clone())));
}

/// A message wakes the owner. Polling would delay a cancel by its interval.
async fn an_owner_that_waits_is_woken(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    for seen in 0..5 {
        let send = async {
            tokio::task::yield_now().await;
            log.control(&lease.run_id, Control::Cancel).await.unwrap();
        };
        let (got, ()) = future::join(log.controls(&lease, seen), send).await;
        assert_eq!(got, Ok(vec![Control::Cancel]));
    }
}

/// The new owner receives all messages from the first one on, because the former owner may have
/// died before it handled them. The former owner, which still waits, gets an error and stops.
async fn who_takes_over_sees_all_and_who_lost_is_told(log: &dyn RunLog) {
    let old = open(log, "a").await;
    log.control(&old.run_id, Control::Cancel).await.unwrap();
    let take = async {
        tokio::task::yield_now().await;
        log.take_over(&old.run_id, Timestamp(UNTIL.0 + 1), Timestamp(5_000)).await.unwrap()
    };
    let (told, new) = future::join(log.controls(&old, 1), take).await;
    assert_eq!(told, Err(LogError::Fenced { run: old.run_id.clone(), epoch: old.epoch }));
    assert_eq!(log.controls(&new, 0).await, Ok(vec![Control::Cancel]));
}

/// The wait of an owner ends with its run, and a sender gets an error instead of a message that no
/// owner reads.
async fn a_run_that_ended_takes_no_message(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let end = async {
        tokio::task::yield_now().await;
        append(log, &lease, &events(1), 2).await.unwrap();
    };
    let (told, ()) = future::join(log.controls(&lease, 0), end).await;
    assert_eq!(told, Err(LogError::Closed(lease.run_id.clone())));
    assert_eq!(log.control(&lease.run_id, Control::Cancel).await, Err(LogError::Closed(lease.run_id)));
}

/// Messages between replicas have a limit below that of cancels and replies: a run whose queue is
/// full of them can still be cancelled.
async fn messages_are_bounded(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let message = || Control::Message(json!({ "any": ["thing", 1] }));
    log.control(&lease.run_id, message()).await.unwrap();
    assert_eq!(log.controls(&lease, 0).await, Ok(vec![message()]));
    let refused = log.control(&lease.run_id, message()).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "messages_per_run", .. })), "{refused:?}");
    for _ in 0..2 {
        log.control(&lease.run_id, Control::Cancel).await.unwrap();
    }
    let refused = log.control(&lease.run_id, Control::Cancel).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "controls_per_run", .. })), "{refused:?}");
}

/// The last place is reserved for a cancel: a sender whose cancel is refused knows that the owner has one.
async fn a_queue_that_is_full_takes_a_cancel(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    log.control(&lease.run_id, Control::Message(json!(1))).await.unwrap();
    log.control(&lease.run_id, reply()).await.unwrap();
    let refused = log.control(&lease.run_id, reply()).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "controls_per_run", .. })), "{refused:?}");
    log.control(&lease.run_id, Control::Cancel).await.unwrap();
    assert_eq!(log.controls(&lease, 2).await, Ok(vec![Control::Cancel]));
    let refused = log.control(&lease.run_id, Control::Cancel).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "controls_per_run", .. })), "{refused:?}");
}
