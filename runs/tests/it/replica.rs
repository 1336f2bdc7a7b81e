//! The duties of a replica: it renews its leases, reports its watchers, and takes over the runs of others. On paused time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_core::service::{Caller, RunService as _};
use aqueduct_core::{RunInput, Timestamp, Update};
use aqueduct_runlog::{Lease, MemoryLog, RunLog};
use aqueduct_runs::{Runs, Settings};
use futures_util::stream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::troubled_log::Troubled;

const LEASE: Duration = Duration::from_secs(3);

/// Returns a replica whose clock is the paused one.
fn replica<L: RunLog>(log: &Arc<L>, begun: Instant, limit: usize) -> Runs {
    let clock = Arc::new(move || Timestamp(1_000_000 + i64::try_from(begun.elapsed().as_millis()).unwrap()));
    let settings = Settings::default().with_lease(LEASE).with_limit(limit);
    let mute = |_: RunInput| stream::pending::<Update>();
    let runs = Runs::builder().agent("mute", mute).shared_log(Arc::clone(log) as _);
    runs.clock(clock).settings(settings).build()
}

async fn start(runs: &Runs, run: &str) -> aqueduct_core::service::StartedRun {
    runs.start(&Caller::default(), "mute", RunInput::prompt("thread", run.to_owned(), "go")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_before_they_lapse() {
    let (log, begun) = (Arc::new(MemoryLog::default()), Instant::now());
    let (one, other) = (replica(&log, begun, 9), replica(&log, begun, 9));
    let _started = start(&one, "r").await;
    tokio::spawn(one.clone().run_housekeeping());
    for _ in 0..20 {
        sleep(LEASE / 6).await;
        let state = log.state(&"r".into()).await.unwrap();
        let left = state.lease_until.0 - one.now().0;
        assert!(left >= 1_500, "two renewals may fail before the lease lapses: {left} ms are left");
        other.sweep_once().await.unwrap();
    }
    assert_eq!(log.state(&"r".into()).await.unwrap().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn leases_are_counted_until_their_run_ends() {
    let (log, begun) = (Arc::new(MemoryLog::default()), Instant::now());
    let runs = replica(&log, begun, 9);
    assert_eq!(runs.leases(), 0);
    let _first = start(&runs, "r").await;
    let _second = start(&runs, "s").await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(runs.leases(), 2);
    for id in ["r", "s"] {
        assert!(runs.cancel(&Caller::default(), &id.into()).await.unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(runs.leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_replica_does_not_take_over_the_runs_that_it_drives() {
    let (log, begun) = (Arc::new(MemoryLog::default()), Instant::now());
    let runs = replica(&log, begun, 9);
    let _started = start(&runs, "r").await;
    sleep(LEASE * 2).await;
    runs.sweep_once().await.unwrap();
    let state = log.state(&"r".into()).await.unwrap();
    assert_eq!((state.epoch, state.closed_at), (1, None), "its renewal is late, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn lapsed_runs_are_taken_over_within_a_second() {
    let (log, begun) = (Arc::new(MemoryLog::default()), Instant::now());
    let (one, other) = (replica(&log, begun, 9), replica(&log, begun, 9));
    let _started = start(&one, "r").await;
    tokio::spawn(other.clone().run_housekeeping());
    sleep(Duration::from_millis(2_999)).await;
    assert_eq!(log.state(&"r".into()).await.unwrap().epoch, 1);
    sleep(Duration::from_secs(1)).await;
    let state = log.state(&"r".into()).await.unwrap();
    assert_eq!(state.epoch, 2);
    assert!(state.closed_at.is_some(), "its agent cannot be resumed, so the run ends");
}

#[tokio::test(start_paused = true)]
async fn the_owner_is_told_of_watchers_elsewhere_as_long_as_there_is_one() {
    let (log, begun) = (Arc::new(MemoryLog::default()), Instant::now());
    let (one, other) = (replica(&log, begun, 9), replica(&log, begun, 9));
    let _started = start(&one, "r").await;
    tokio::spawn(one.clone().run_housekeeping());
    let until = || async { log.state(&"r".into()).await.unwrap().watched_until };
    let watch = || other.watch(&Caller::default(), &"r".into(), 0);
    let (first, second) = (watch().await.unwrap(), watch().await.unwrap());
    sleep(Duration::from_millis(1)).await;
    assert!(until().await > other.now(), "at once");
    tokio::spawn(other.clone().run_housekeeping());
    sleep(LEASE * 3).await;
    assert!(until().await > other.now(), "again and again");
    drop(first);
    sleep(LEASE * 3).await;
    assert!(until().await > other.now(), "the second one still watches");
    drop(second);
    sleep(LEASE * 3).await;
    assert!(until().await <= other.now(), "no watcher is left");
}

#[tokio::test(start_paused = true)]
async fn a_replica_sends_five_heartbeats_within_the_silence() {
    let log = Arc::new(Troubled::default());
    tokio::spawn(replica(&log, Instant::now(), 9).run_housekeeping());
    let silence = Settings::default().silence;
    sleep(silence + silence / 10).await;
    assert_eq!(*log.beats.lock().unwrap(), [silence; 6], "one at once, then five");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_reports_an_earlier_lease_as_lost_ends_no_run() {
    let (log, begun) = (Arc::new(Troubled::default()), Instant::now());
    let runs = replica(&log, begun, 9);
    let _started = start(&runs, "r").await;
    let lease = |epoch| Lease { run_id: "r".into(), epoch };
    *log.lost.lock().unwrap() = Some(lease(0));
    tokio::spawn(runs.clone().run_housekeeping());
    sleep(LEASE * 2).await;
    assert_eq!(runs.leases(), 1, "the run was opened again while its last lease was renewed");
    *log.lost.lock().unwrap() = Some(lease(1));
    sleep(LEASE).await;
    assert_eq!(runs.leases(), 0);
}

/// A run whose owner renews nothing, and a replica that sweeps. The lease of the run lapses after 3 s.
struct Abandoned {
    log: Arc<Troubled>,
    begun: Instant,
    _owner: (Runs, aqueduct_core::service::StartedRun),
}

impl Abandoned {
    async fn new() -> Self {
        let (log, begun) = (Arc::new(Troubled::default()), Instant::now());
        let (one, other) = (replica(&log, begun, 9), replica(&log, begun, 9));
        let started = start(&one, "r").await;
        tokio::spawn(other.run_housekeeping());
        Self { log, begun, _owner: (one, started) }
    }

    /// Returns the epoch of the run so many milliseconds after the begin.
    async fn epoch_at(&self, millis: u64) -> u64 {
        sleep_until(self.begun + Duration::from_millis(millis)).await;
        self.log.state(&"r".into()).await.unwrap().epoch
    }
}

#[tokio::test(start_paused = true)]
async fn owners_have_a_lease_to_renew_after_the_log_was_unavailable() {
    let abandoned = Abandoned::new().await;
    abandoned.log.refuses_sweeps.store(true, Ordering::SeqCst);
    assert_eq!(abandoned.epoch_at(3_100).await, 1);
    abandoned.log.refuses_sweeps.store(false, Ordering::SeqCst);
    // Sweeps are 600 ms apart. The last one that failed was at 3,000 ms.
    assert_eq!(abandoned.epoch_at(6_100).await, 1, "at the end of the lease");
    assert_eq!(abandoned.epoch_at(6_700).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_released_run_is_taken_over_although_the_log_was_unavailable() {
    let abandoned = Abandoned::new().await;
    abandoned.log.refuses_sweeps.store(true, Ordering::SeqCst);
    assert_eq!(abandoned.epoch_at(700).await, 1);
    abandoned.log.refuses_sweeps.store(false, Ordering::SeqCst);
    abandoned.log.release(vec![Lease { run_id: "r".into(), epoch: 1 }]).await.unwrap();
    assert_eq!(abandoned.epoch_at(1_300).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_answers_after_two_thirds_of_a_lease_was_unavailable_for_owners_too() {
    for (takes, epoch) in [(2_000, 2), (2_001, 1)] {
        let abandoned = Abandoned::new().await;
        assert_eq!(abandoned.epoch_at(3_100).await, 1);
        // The sweep at 3,600 ms is the first one after the end of the lease.
        abandoned.log.sweep_millis.store(takes, Ordering::SeqCst);
        assert_eq!(abandoned.epoch_at(5_700).await, epoch, "{takes} ms");
    }
}
