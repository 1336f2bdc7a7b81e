//! The suite that every engine passes (feature `testing`). An engine's tests call [`conform`] with a way to make an
//! empty log; a panic names the rule that is broken.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a panic is how a test says no"
)]

use std::sync::Arc;

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunOutcome, SourceEvent, StreamContext, Timestamp, Update};
use futures_util::{StreamExt as _, future};

use crate::follow::Follow;
use crate::log::{Lease, LogError, RunLog, RunMeta};

/// Checks all rules, each on a log of its own.
pub async fn conform<L: RunLog>(make: impl Fn() -> L) {
    numbers_are_contiguous_and_reading_is_strictly_after(&make()).await;
    a_terminal_event_closes_the_run(&make()).await;
    a_run_is_opened_once(&make()).await;
    a_lease_taken_over_cannot_append(&make()).await;
    a_refused_batch_leaves_nothing(&make()).await;
    runs_expire_after_their_end(&make()).await;
    watchers_see_everything_in_order_wherever_they_start(Arc::new(make())).await;
    a_watcher_of_what_is_not_there_is_told(Arc::new(make())).await;
}

/// Events of a small run, the last one terminal.
pub fn events(texts: usize) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for n in 0..texts {
        context.handle_update(Update::text(format!("text {n} "))).unwrap();
    }
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).unwrap();
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn meta(id: &str) -> RunMeta {
    RunMeta {
        run_id: RunId::from(id),
        thread_id: "thread".into(),
        agent: "agent".to_owned(),
        owner: "owner".to_owned(),
        opened_at: Timestamp(1),
    }
}

fn numbered(events: &[BlockEvent]) -> Vec<NumberedEvent> {
    (1..).zip(events).map(|(number, event)| NumberedEvent { number, event: event.clone() }).collect()
}

async fn numbers_are_contiguous_and_reading_is_strictly_after(log: &impl RunLog) {
    let lease = log.open(meta("a")).await.unwrap();
    let events = events(10);
    let mut head = 0;
    for batch in events.chunks(3) {
        head = log.append(&lease, batch.to_vec(), Timestamp(2)).await.unwrap();
    }
    assert_eq!(head, events.len() as u64, "append gives the number of the last event");
    for after in 0..=head {
        for max in [1, 4, 100] {
            let page = log.read(&lease.run_id, after, max).await.unwrap();
            let wanted: Vec<_> =
                numbered(&events).into_iter().filter(|e| e.number > after).take(max).collect();
            assert_eq!(page.events, wanted, "reading {max} after {after}");
            assert_eq!((page.head, page.closed), (head, true));
        }
    }
    let beyond = log.read(&lease.run_id, u64::MAX, 10).await.unwrap();
    assert!(beyond.events.is_empty(), "nothing is after everything");
}

async fn a_terminal_event_closes_the_run(log: &impl RunLog) {
    let lease = log.open(meta("a")).await.unwrap();
    let events = events(1);
    log.append(&lease, events.clone(), Timestamp(7)).await.unwrap();
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!((state.head, state.closed_at), (events.len() as u64, Some(Timestamp(7))));
    let again = log.append(&lease, vec![events[0].clone()], Timestamp(8)).await;
    assert_eq!(again, Err(LogError::Closed(lease.run_id.clone())));
    assert_eq!(log.take_over(&lease.run_id).await, Err(LogError::Closed(lease.run_id)));
}

async fn a_run_is_opened_once(log: &impl RunLog) {
    log.open(meta("a")).await.unwrap();
    assert_eq!(log.open(meta("a")).await, Err(LogError::Exists(RunId::from("a"))));
    log.open(meta("b")).await.unwrap();
    let listed: Vec<_> = log.list().await.unwrap().into_iter().map(|state| state.meta).collect();
    assert_eq!(listed, [meta("a"), meta("b")]);
}

async fn a_lease_taken_over_cannot_append(log: &impl RunLog) {
    let old = log.open(meta("a")).await.unwrap();
    let events = events(3);
    log.append(&old, events[..2].to_vec(), Timestamp(2)).await.unwrap();
    let new = log.take_over(&old.run_id).await.unwrap();
    assert!(new.epoch > old.epoch, "a later lease has a higher epoch");
    let zombie = log.append(&old, vec![events[2].clone()], Timestamp(3)).await;
    assert_eq!(zombie, Err(LogError::Fenced { run: old.run_id.clone(), epoch: old.epoch }));
    let head = log.append(&new, events[2..].to_vec(), Timestamp(3)).await.unwrap();
    assert_eq!(head, events.len() as u64, "nothing of the old owner is stored");
    let forged = Lease { run_id: old.run_id, epoch: new.epoch + 5 };
    assert!(log.append(&forged, Vec::new(), Timestamp(3)).await.is_err());
}

async fn a_refused_batch_leaves_nothing(log: &impl RunLog) {
    let lease = log.open(meta("a")).await.unwrap();
    let mut batch = events(2);
    batch.reverse();
    let refused = log.append(&lease, batch, Timestamp(2)).await;
    assert_eq!(refused, Err(LogError::AfterTerminal(lease.run_id.clone())));
    assert_eq!(log.state(&lease.run_id).await.unwrap().head, 0);
}

async fn runs_expire_after_their_end(log: &impl RunLog) {
    let running = log.open(meta("running")).await.unwrap();
    let ended = log.open(meta("ended")).await.unwrap();
    log.append(&ended, events(1), Timestamp(100)).await.unwrap();
    assert_eq!(log.expire(Timestamp(100)).await, Ok(0), "its time to live runs from its end");
    assert_eq!(log.expire(Timestamp(101)).await, Ok(1));
    assert_eq!(log.read(&ended.run_id, 0, 1).await, Err(LogError::NotFound(ended.run_id.clone())));
    assert!(log.state(&running.run_id).await.is_ok(), "a run that goes on does not expire");
}

async fn watchers_see_everything_in_order_wherever_they_start(log: Arc<impl RunLog>) {
    let lease = log.open(meta("a")).await.unwrap();
    let events = events(40);
    let numbered = numbered(&events);
    let watch = |after: usize, page: usize| {
        let log: Arc<dyn RunLog> = Arc::clone(&log) as Arc<dyn RunLog>;
        let wanted = numbered[after..].to_vec();
        let follow = Follow::new(log, lease.run_id.clone(), after as u64).with_page(page);
        async move {
            let seen: Vec<_> = follow.map(Result::unwrap).collect().await;
            assert_eq!(seen, wanted, "a watcher from {after} with pages of {page}");
        }
    };
    let watchers =
        (0..=events.len()).flat_map(|after| [1, 7, 256].map(|page| watch(after, page))).collect::<Vec<_>>();
    let write = async {
        for batch in events.chunks(2) {
            log.append(&lease, batch.to_vec(), Timestamp(2)).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    future::join(future::join_all(watchers), write).await;
}

async fn a_watcher_of_what_is_not_there_is_told(log: Arc<impl RunLog>) {
    let mut follow = Follow::new(log, RunId::from("nowhere"), 0);
    assert_eq!(follow.next().await, Some(Err(LogError::NotFound(RunId::from("nowhere")))));
    assert_eq!(follow.next().await, None);
}
