//! Rules of following a run with [`Follow`].
//!
//! These rules run a writer and many watchers at the same time, so they also find a missed wake-up:
//! the test would not end.

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use futures_util::{StreamExt as _, future};

use super::{UNTIL, append, events, numbered, open};
use crate::error::LogError;
use crate::follow::Follow;
use crate::log::RunLog;

/// Checks all rules of this module, each on a log of its own.
pub(super) async fn check(make: &impl AsyncFn() -> Arc<dyn RunLog>) {
    watchers_see_everything_in_order_wherever_they_start(make().await).await;
    watchers_see_nothing_of_a_fenced_owner(make().await).await;
    a_watcher_of_what_is_not_there_is_told(make().await).await;
}

/// A watcher receives all events after its number, in order and without gaps, whether it starts
/// before, during or after the run, and with pages of any size. One watcher per number and page
/// size.
async fn watchers_see_everything_in_order_wherever_they_start(log: Arc<dyn RunLog>) {
    let lease = open(&*log, "a").await;
    let events = events(40);
    let numbered = numbered(&events);
    let watch = |after: usize, page: usize| {
        let wanted = numbered[after..].to_vec();
        let follow = Follow::new(Arc::clone(&log), lease.run_id.clone(), after as u64).with_page(page);
        async move {
            let seen: Vec<_> = follow.map(Result::unwrap).collect().await;
            assert_eq!(seen, wanted, "a watcher from {after} with pages of {page}");
        }
    };
    let watchers =
        (0..=events.len()).flat_map(|after| [1, 7, 256].map(|page| watch(after, page))).collect::<Vec<_>>();
    let write = async {
        for batch in events.chunks(2) {
            append(&*log, &lease, batch, 2).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    future::join(future::join_all(watchers), write).await;
}

/// Watchers do not notice a takeover: they receive the events of the former owner up to it, those
/// of the new owner after it, and none that was refused.
async fn watchers_see_nothing_of_a_fenced_owner(log: Arc<dyn RunLog>) {
    let old = open(&*log, "a").await;
    let events = events(20);
    let follow = Follow::new(Arc::clone(&log), old.run_id.clone(), 0);
    let watch = async { follow.map(Result::unwrap).collect::<Vec<_>>().await };
    let write = async {
        append(&*log, &old, &events[..5], 2).await.unwrap();
        let new = log.take_over(&old.run_id, Timestamp(UNTIL.0 + 1), Timestamp(5_000)).await.unwrap();
        for event in &events[5..] {
            assert!(append(&*log, &old, std::slice::from_ref(&events[3]), 3).await.is_err());
            append(&*log, &new, std::slice::from_ref(event), 3).await.unwrap();
        }
    };
    let (seen, ()) = future::join(watch, write).await;
    assert_eq!(seen, numbered(&events));
}

/// The stream of an unknown run yields one error and ends. It must not wait for a run that may
/// never exist.
async fn a_watcher_of_what_is_not_there_is_told(log: Arc<dyn RunLog>) {
    let mut follow = Follow::new(log, RunId::from("nowhere"), 0);
    assert_eq!(follow.next().await, Some(Err(LogError::NotFound(RunId::from("nowhere")))));
    assert_eq!(follow.next().await, None);
}
