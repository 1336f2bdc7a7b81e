//! Rules of leases: opening, takeover, renewal, lists of runs.
//!
//! A lease is the right to append. These rules make it safe that a replica continues a run whose
//! owner is silent: at every time at most one lease can append, and a lost lease can never append
//! again (fencing by the epoch).

use std::sync::Arc;

use aqueduct_core::{RunId, Timestamp};
use futures_util::future;

use super::{UNTIL, append, events, meta, open};
use crate::error::LogError;
use crate::log::{Lease, RunLog, RunMeta, RunPlace, RunQuery, RunState};

/// A time after all leases of the suite.
const LATER: Timestamp = Timestamp(UNTIL.0 + 1);

/// Checks all rules of this module, each on a log of its own.
pub(super) async fn check(make: &impl AsyncFn() -> Arc<dyn RunLog>) {
    a_run_is_opened_once(&*make().await).await;
    runs_are_listed_by_thread_and_owner_in_pages(&*make().await).await;
    a_lease_is_held_until_it_lapses(&*make().await).await;
    a_lease_taken_over_cannot_append(&*make().await).await;
    of_several_who_take_over_one_succeeds(&*make().await).await;
    a_renewed_lease_is_held_on_and_a_lost_one_is_told(&*make().await).await;
    lapsed_leases_are_listed(&*make().await).await;
    a_released_lease_can_be_taken_over_at_once(&*make().await).await;
    who_watches_elsewhere_is_known(&*make().await).await;
}

/// Returns the ids of runs, in the order of the list.
fn ids(states: &[RunState]) -> Vec<&str> {
    states.iter().map(|state| state.meta.run_id.as_str()).collect()
}

/// An id names one run: a client that repeats its request must not start a second run. Ids are
/// chosen by clients, so engines must accept any text, also braces, NUL and control characters.
async fn a_run_is_opened_once(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    assert_eq!(log.open(meta("a"), UNTIL).await, Err(LogError::Exists(RunId::from("a"))));
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!((&state.meta, state.epoch, state.lease_until), (&meta("a"), lease.epoch, UNTIL));
    assert_eq!((state.earliest, state.head, state.closed_at), (1, 0, None));
    let strange = meta("{b}:* \u{1f}\0");
    log.open(strange.clone(), UNTIL).await.unwrap();
    assert_eq!(log.state(&strange.run_id).await.unwrap().meta, strange, "an id may be any text");
}

/// Lists are ordered by the time of opening, then by id, in either direction, and pages continue
/// after the last run of the page before: a list that changes between two pages neither repeats nor
/// omits a run. The query by thread and by owner must agree with a filter of the whole list.
async fn runs_are_listed_by_thread_and_owner_in_pages(log: &dyn RunLog) {
    for (id, thread, owner, at) in
        [("d", "t1", "ada", 4), ("b", "t1", "bob", 2), ("a", "t2", "ada", 2), ("c", "t1", "ada", 3)]
    {
        let meta = RunMeta {
            thread_id: thread.into(),
            owner: owner.to_owned(),
            opened_at: Timestamp(at),
            ..meta(id)
        };
        log.open(meta, UNTIL).await.unwrap();
    }
    let query = RunQuery::default();
    assert_eq!(ids(&log.list(query.clone(), 9).await.unwrap()), ["a", "b", "c", "d"]);
    let first = log.list(query.clone(), 3).await.unwrap();
    let rest =
        log.list(RunQuery { after: first.last().map(RunState::place), ..query.clone() }, 3).await.unwrap();
    assert_eq!((ids(&first), ids(&rest)), (vec!["a", "b", "c"], vec!["d"]));
    let thread = RunQuery { thread_id: Some("t1".into()), ..query.clone() };
    assert_eq!(ids(&log.list(thread.clone(), 9).await.unwrap()), ["b", "c", "d"]);
    assert_eq!(ids(&log.list(thread.clone(), 2).await.unwrap()), ["b", "c"]);
    let ada = RunQuery { owner: Some("ada".to_owned()), ..thread };
    assert_eq!(ids(&log.list(ada.clone(), 9).await.unwrap()), ["c", "d"]);
    assert_eq!(ids(&log.list(ada.clone(), 1).await.unwrap()), ["c"]);
    let after = RunPlace { opened_at: Timestamp(3), run_id: RunId::from("c") };
    assert_eq!(ids(&log.list(RunQuery { after: Some(after), ..ada }, 9).await.unwrap()), ["d"]);
    let ada = RunQuery { owner: Some("ada".to_owned()), ..RunQuery::default() };
    assert_eq!(ids(&log.list(ada.clone(), 9).await.unwrap()), ["a", "c", "d"]);
    let newest = RunQuery { newest_first: true, ..ada };
    let first = log.list(newest.clone(), 2).await.unwrap();
    let rest = RunQuery { after: first.last().map(RunState::place), ..newest };
    assert_eq!((ids(&first), ids(&log.list(rest, 2).await.unwrap())), (vec!["d", "c"], vec!["a"]));
    let all = RunQuery { newest_first: true, ..query };
    assert_eq!(ids(&log.list(all, 9).await.unwrap()), ["d", "c", "b", "a"]);
}

/// A lease is held up to and including its last millisecond. A new lease has a higher epoch, by
/// which the engine recognises the former one.
async fn a_lease_is_held_until_it_lapses(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    let held = Err(LogError::Held { run: lease.run_id.clone(), until: UNTIL });
    assert_eq!(log.take_over(&lease.run_id, UNTIL, LATER).await, held);
    let new = log.take_over(&lease.run_id, LATER, Timestamp(2_000)).await.unwrap();
    assert!(new.epoch > lease.epoch, "a later lease has a higher epoch");
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!((state.epoch, state.lease_until), (new.epoch, Timestamp(2_000)));
    let nowhere = RunId::from("nowhere");
    assert_eq!(log.take_over(&nowhere, LATER, LATER).await, Err(LogError::NotFound(nowhere.clone())));
}

/// The former owner may be alive and slow, not dead: its append after the takeover is refused and
/// leaves no event. A forged epoch above the current one is refused as well.
async fn a_lease_taken_over_cannot_append(log: &dyn RunLog) {
    let old = open(log, "a").await;
    let events = events(3);
    append(log, &old, &events[..2], 2).await.unwrap();
    let new = log.take_over(&old.run_id, LATER, Timestamp(2_000)).await.unwrap();
    let zombie = append(log, &old, &events[2..3], 3).await;
    assert_eq!(zombie, Err(LogError::Fenced { run: old.run_id.clone(), epoch: old.epoch }));
    let head = append(log, &new, &events[2..], 3).await.unwrap();
    assert_eq!(head, events.len() as u64, "nothing of the old owner is stored");
    let forged = Lease { run_id: old.run_id, epoch: new.epoch + 5 };
    assert!(append(log, &forged, &[], 3).await.is_err());
}

/// Several replicas detect a lapsed lease at once. Exactly one gets the lease, otherwise two would
/// drive the run.
async fn of_several_who_take_over_one_succeeds(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    for round in 1..=10 {
        let now = Timestamp(round * 10_000);
        let tries = (0..8).map(|_| log.take_over(&lease.run_id, now, Timestamp(now.0 + 5)));
        let won: Vec<_> = future::join_all(tries).await.into_iter().filter_map(Result::ok).collect();
        assert_eq!(won.len(), 1, "round {round}");
    }
}

/// Renewal reports lost leases instead of failing: one lost lease must not keep the others from
/// being renewed. It must not extend the lease of another owner.
async fn a_renewed_lease_is_held_on_and_a_lost_one_is_told(log: &dyn RunLog) {
    let (kept, ended, taken) = (open(log, "kept").await, open(log, "ended").await, open(log, "taken").await);
    let gone = Lease { run_id: RunId::from("gone"), epoch: 1 };
    append(log, &ended, &events(1), 5).await.unwrap();
    log.take_over(&taken.run_id, LATER, Timestamp(3_000)).await.unwrap();
    let all = vec![kept.clone(), ended.clone(), taken.clone(), gone.clone()];
    let mut lost = log.renew(all, Timestamp(2_000)).await.unwrap();
    lost.sort_by(|a, b| a.run_id.cmp(&b.run_id));
    assert_eq!(lost, [ended, gone, taken.clone()]);
    assert_eq!(log.state(&kept.run_id).await.unwrap().lease_until, Timestamp(2_000));
    assert_eq!(log.state(&taken.run_id).await.unwrap().lease_until, Timestamp(3_000), "it is another's");
    assert!(log.take_over(&kept.run_id, LATER, LATER).await.is_err(), "a renewed lease is held on");
    assert_eq!(log.renew(Vec::new(), UNTIL).await, Ok(Vec::new()));
}

/// The sweeper finds runs to take over by this list. A renewed, taken over or closed run is not in
/// it.
async fn lapsed_leases_are_listed(log: &dyn RunLog) {
    let (a, b, ended) = (open(log, "a").await, open(log, "b").await, open(log, "ended").await);
    append(log, &ended, &events(1), 5).await.unwrap();
    assert_eq!(log.lapsed(UNTIL, 9).await, Ok(Vec::new()), "a lease lasts until its time is over");
    assert_eq!(ids(&log.lapsed(LATER, 9).await.unwrap()), ["a", "b"]);
    assert_eq!(log.lapsed(LATER, 1).await.unwrap().len(), 1);
    log.renew(vec![a], Timestamp(5_000)).await.unwrap();
    assert_eq!(ids(&log.lapsed(LATER, 9).await.unwrap()), ["b"]);
    log.take_over(&b.run_id, LATER, Timestamp(5_000)).await.unwrap();
    assert_eq!(log.lapsed(LATER, 9).await, Ok(Vec::new()));
}

/// A replica that shuts down releases its leases, so that others need not wait until they lapse. A
/// lease that is already lost cannot be released: that would end the lease of the new owner.
async fn a_released_lease_can_be_taken_over_at_once(log: &dyn RunLog) {
    let (kept, left, ended) = (open(log, "kept").await, open(log, "left").await, open(log, "ended").await);
    append(log, &ended, &events(1), 5).await.unwrap();
    log.release(vec![left.clone(), ended.clone()]).await.unwrap();
    let lapsed = log.lapsed(Timestamp(2), 9).await.unwrap();
    assert!(ids(&lapsed) == ["left"] && lapsed[0].is_released(), "{lapsed:?}");
    assert!(log.take_over(&kept.run_id, Timestamp(2), UNTIL).await.is_err(), "another's lease stays");
    let taken = log.take_over(&left.run_id, Timestamp(2), UNTIL).await.unwrap();
    log.release(vec![left.clone()]).await.unwrap();
    assert!(!log.state(&left.run_id).await.unwrap().is_released(), "a lost lease cannot be released");
    append(log, &taken, &events(1), 3).await.unwrap();
}

/// The latest reported time counts, also if an earlier one arrives later. It does not change the
/// lease.
async fn who_watches_elsewhere_is_known(log: &dyn RunLog) {
    let lease = open(log, "a").await;
    assert_eq!(log.state(&lease.run_id).await.unwrap().watched_until, Timestamp(i64::MIN));
    log.watched(&lease.run_id, Timestamp(70)).await.unwrap();
    log.watched(&lease.run_id, Timestamp(60)).await.unwrap();
    let state = log.state(&lease.run_id).await.unwrap();
    assert_eq!((state.watched_until, state.lease_until), (Timestamp(70), UNTIL), "the latest counts");
    let nowhere = RunId::from("nowhere");
    assert_eq!(log.watched(&nowhere, UNTIL).await, Err(LogError::NotFound(nowhere.clone())));
}
