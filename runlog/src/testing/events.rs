//! Rules of events: numbers, reading, ends, limits, trimming, expiry.
//!
//! Every rule runs on an empty log. The name of the function is the rule; the comment before it is
//! the reason, and the failure that the rule excludes.

use std::sync::Arc;

use aqueduct_core::testing::{run_to_end, scenarios};
use aqueduct_core::{BlockEvent, Timestamp};

use super::{agents, append, events, meta, numbered, open};
use crate::error::LogError;
use crate::limits::LogLimits;
use crate::log::RunLog;

/// Checks all rules of this module, those about limits on logs with small limits.
pub(super) async fn check(make: &impl AsyncFn(LogLimits) -> Arc<dyn RunLog>) {
    let plain = async || make(LogLimits::default()).await;
    numbers_are_contiguous_and_reading_is_strictly_after(&*plain().await).await;
    events_of_every_kind_come_back_as_they_were(&*plain().await).await;
    a_terminal_event_closes_the_run(&*plain().await).await;
    a_refused_batch_leaves_nothing_and_comes_back(&*plain().await).await;
    let limits = LogLimits { events_per_run: 3, ..LogLimits::default() };
    a_run_that_never_ends_is_stopped_but_may_end(&*make(limits).await).await;
    let limits = LogLimits { bytes_per_run: 10, ..LogLimits::default() };
    bytes_are_counted(&*make(limits).await).await;
    what_was_trimmed_is_told_as_gone(&*plain().await).await;
    runs_expire_after_their_end(&*plain().await).await;
}

/// A watcher resumes by the last number it received. A gap, or an event that is read twice, would
/// be lost or shown twice after a reconnect. All pages of all sizes are compared with the appended
/// events, also after the run has ended.
async fn numbers_are_contiguous_and_reading_is_strictly_after(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let events = events(10);
    let mut head = 0;
    for batch in events.chunks(3) {
        head = append(log, &lease, batch, 2).await.unwrap();
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

/// An engine that stores bytes must not change an event. The comparison of events ignores
/// properties of agents, so those are compared separately.
async fn events_of_every_kind_come_back_as_they_were(log: &dyn RunLog) {
    for (name, source) in scenarios() {
        let lease = open(log, name).await;
        let events = run_to_end(source);
        append(log, &lease, &events, 2).await.unwrap();
        let page = log.read(&lease.run_id, 0, usize::MAX).await.unwrap();
        assert_eq!(page.events, numbered(&events), "{name}");
        let read: Vec<_> = page.events.iter().map(|event| agents(&event.event)).collect();
        assert_eq!(read, events.iter().map(agents).collect::<Vec<_>>(), "{name}: agents");
    }
}

/// The end is part of the append that contains the terminal event: there is no time at which a run
/// has a terminal event and is open. A closed run accepts neither events nor a takeover.
async fn a_terminal_event_closes_the_run(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let events = events(1);
    append(log, &lease, &events, 7).await.unwrap();
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!((state.head, state.closed_at), (events.len() as u64, Some(Timestamp(7))));
    let again = append(log, &lease, &events[..1], 8).await;
    assert_eq!(again, Err(LogError::Closed(lease.run_id.clone())));
    let late = log.take_over(&lease.run_id, Timestamp(i64::MAX), Timestamp(i64::MAX)).await;
    assert_eq!(late, Err(LogError::Closed(lease.run_id)));
}

/// A batch is appended completely or not at all, and the caller gets it back, because it retries or
/// ends the run. An empty batch is valid and returns the head.
async fn a_refused_batch_leaves_nothing_and_comes_back(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let mut batch = events(2);
    batch.reverse();
    let refused = log.append(&lease, batch.clone(), Timestamp(2)).await.unwrap_err();
    assert_eq!(*refused.error, LogError::AfterTerminal(lease.run_id.clone()));
    assert_eq!(refused.events, batch, "what is refused comes back");
    assert_eq!(log.state(&lease.run_id).await.unwrap().head, 0);
    assert_eq!(append(log, &lease, &[], 2).await, Ok(0), "nothing can be appended, and changes nothing");
}

/// Without this limit a source in a loop would fill the log. The terminal event is accepted beyond
/// it, otherwise the failure could not be logged and the run would stay open.
async fn a_run_that_never_ends_is_stopped_but_may_end(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let all = events(5);
    let refused = log.append(&lease, all[..5].to_vec(), Timestamp(1)).await.unwrap_err();
    assert!(matches!(*refused.error, LogError::RunTooLong { limit: "events_per_run", .. }), "{refused:?}");
    assert_eq!(refused.events, all[..5]);
    append(log, &lease, &all[..3], 1).await.unwrap();
    let last = append(log, &lease, &all[3..4], 1).await;
    assert!(matches!(last, Err(LogError::RunTooLong { limit: "events_per_run", .. })), "{last:?}");
    assert_eq!(append(log, &lease, &all[3..], 2).await, Ok(all.len() as u64), "there is room for the end");
}

/// The limit in bytes applies to the sum of all batches, not to one.
async fn bytes_are_counted(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let texts: Vec<BlockEvent> = events(3).into_iter().filter(|event| !event.is_terminal()).collect();
    let refused = append(log, &lease, &texts, 1).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "bytes_per_run", .. })), "{refused:?}");
    append(log, &lease, &texts[..3], 1).await.unwrap();
    let refused = append(log, &lease, &texts[3..], 1).await;
    assert!(matches!(refused, Err(LogError::RunTooLong { limit: "bytes_per_run", .. })), "{refused:?}");
}

/// A watcher that starts before the trimmed part gets an error with the earliest number, instead of
/// a stream with a gap. The last event is always kept: numbering continues from it.
async fn what_was_trimmed_is_told_as_gone(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let all = events(6);
    let (first, rest) = all.split_at(6);
    append(log, &lease, first, 1).await.unwrap();
    log.trim(&lease.run_id, 4).await.unwrap();
    assert_eq!(log.state(&lease.run_id).await.unwrap().earliest, 4);
    let gone = |earliest| Err(LogError::Gone { run: lease.run_id.clone(), earliest });
    assert_eq!(log.read(&lease.run_id, 2, 10).await, gone(4));
    let page = log.read(&lease.run_id, 3, 10).await.unwrap();
    assert_eq!(page.events, numbered(&all)[3..6], "what is kept keeps its numbers");
    log.trim(&lease.run_id, 2).await.unwrap();
    assert_eq!(log.read(&lease.run_id, 2, 10).await, gone(4), "what is gone does not come back");
    assert_eq!(append(log, &lease, rest, 2).await, Ok(all.len() as u64), "trimming changes no number");
    log.trim(&lease.run_id, u64::MAX).await.unwrap();
    let head = all.len() as u64;
    assert_eq!(log.read(&lease.run_id, 0, 10).await, gone(head), "the head is always kept");
    assert_eq!(log.read(&lease.run_id, head - 1, 10).await.unwrap().events, numbered(&all)[all.len() - 1..]);
}

/// The time to live starts at the end of a run, so that a long run does not expire while it is
/// read. After expiry the id is free, and a new run of that id has none of the old events.
async fn runs_expire_after_their_end(log: &dyn RunLog) {
    let running = open(log, "running").await;
    let ended = open(log, "ended").await;
    append(log, &ended, &events(1), 100).await.unwrap();
    assert_eq!(log.expire(Timestamp(100)).await, Ok(0), "its time to live runs from its end");
    assert_eq!(log.expire(Timestamp(101)).await, Ok(1));
    assert_eq!(log.expire(Timestamp(101)).await, Ok(0));
    let nothing = LogError::NotFound(ended.run_id.clone());
    assert_eq!(log.read(&ended.run_id, 0, 1).await, Err(nothing.clone()));
    assert_eq!(log.state(&ended.run_id).await, Err(nothing));
    assert!(log.state(&running.run_id).await.is_ok(), "a run that goes on does not expire");
    log.open(meta("ended"), Timestamp(9)).await.expect("the id of a run that is gone is free");
    assert_eq!(log.read(&ended.run_id, 0, 10).await.unwrap().head, 0, "and nothing of it is left");
}
