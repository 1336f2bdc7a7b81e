//! The engine on Redis against the simulated server: it is a log, and a failover of the server leaves no run that never ends.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{BlockEvent, Timestamp};
use aqueduct_runlog::testing::{conform, conform_shared, events, meta};
use aqueduct_runlog::{Control, Lease, LogLimits, Note, RedisLog, RunLog, RunQuery, RunState};
use aqueduct_tests_simulation::node::{Node, Status, Weather};
use aqueduct_tests_simulation::random::Random;
use aqueduct_tests_simulation::redis::Redis;
use aqueduct_tests_simulation::trace::Trace;
use serde_json::json;

/// The time at which the server begins.
const EPOCH: i64 = 1_000_000;
/// The end of the first lease, and a time after it.
const UNTIL: Timestamp = Timestamp(EPOCH + 3_000);
const LATER: Timestamp = Timestamp(EPOCH + 60_000);
/// The time without heartbeat after which a replica counts as dead.
const SILENCE: Duration = Duration::from_secs(2);

fn log_over(redis: &Redis, name: &str, weather: Weather, limits: LogLimits) -> Arc<RedisLog> {
    let node = Node::new(name.to_owned(), Trace::new(false), weather, Random::new(7, name));
    Arc::new(redis.log(&Arc::new(node), limits).unwrap())
}

fn log_of(redis: &Redis, name: &str, limits: LogLimits) -> Arc<RedisLog> {
    log_over(redis, name, Weather::default(), limits)
}

async fn empty_log(limits: LogLimits) -> Arc<dyn RunLog> {
    let redis = Redis::new(0, Trace::new(false), None);
    std::future::ready(log_of(&redis, "a", limits) as Arc<dyn RunLog>).await
}

/// A server, its clock, and two replicas that have sent a heartbeat.
async fn replicas() -> (Redis, Trace, [Arc<RedisLog>; 2]) {
    let trace = Trace::new(false);
    let redis = Redis::new(EPOCH, trace.clone(), None);
    let replicas = ["a", "b"].map(|name| log_of(&redis, name, LogLimits::default()));
    for replica in &replicas {
        replica.beat(SILENCE).await.unwrap();
    }
    (redis, trace, replicas)
}

async fn append(log: &RedisLog, lease: &Lease, events: &[BlockEvent]) {
    log.append(lease, events.to_vec(), Timestamp(EPOCH + 10)).await.unwrap();
}

/// Appends all events but the last, waits, and appends the last. Returns a time of the world in between.
async fn append_in_two(log: &RedisLog, lease: &Lease, trace: &Trace) -> i64 {
    let all = events(2);
    let (last, first) = all.split_last().unwrap();
    append(log, lease, first).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let between = trace.now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    append(log, lease, std::slice::from_ref(last)).await;
    between
}

async fn lapsed(log: &RedisLog) -> Vec<RunState> {
    log.lapsed(LATER, 10).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_engine_on_the_simulated_server_is_a_log() {
    conform(empty_log).await;
    conform_shared(empty_log).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_a_failover_lost_is_appended_again_by_its_owner() {
    let (redis, trace, [a, b]) = replicas().await;
    let lease = a.open(meta("run"), UNTIL).await.unwrap();
    let between = append_in_two(&a, &lease, &trace).await;
    redis.fail_over(between);
    assert_eq!(b.state(&lease.run_id).await.unwrap().closed_at, None, "the server has lost the end");
    a.beat(SILENCE).await.unwrap();
    let state = b.state(&lease.run_id).await.unwrap();
    assert_eq!(state.closed_at, Some(Timestamp(EPOCH + 10)));
    assert_eq!(lapsed(&b).await, []);
    assert_eq!(b.expire(LATER).await.unwrap(), 1, "the list of ended runs has it again");
}

/// Opens a run at `a`, takes it over and ends it at `b`, and loses both in a failover `after` the end was sent. Returns the time of
/// the failover, too.
async fn lose_takeover_and_end(after: Duration) -> (Redis, i64, [Arc<RedisLog>; 2], Lease) {
    let trace = Trace::new(false);
    let redis = Redis::new(EPOCH, trace.clone(), None);
    let [a, b] = [("a", 0), ("b", 30)].map(|(name, delay)| {
        log_over(&redis, name, Weather { delay, ..Weather::default() }, LogLimits::default())
    });
    let lease = a.open(meta("run"), UNTIL).await.unwrap();
    let before = trace.now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let taken = b.take_over(&lease.run_id, LATER, Timestamp(LATER.0 + 3_000)).await.unwrap();
    let ending = tokio::spawn({
        let b = Arc::clone(&b);
        async move { b.append(&taken, events(2), Timestamp(EPOCH + 10)).await.is_ok() }
    });
    tokio::time::sleep(after).await;
    redis.fail_over(before);
    let failover = trace.now();
    ending.await.unwrap();
    (redis, failover, [a, b], lease)
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_takeover_and_end_a_failover_lost_is_found_whenever_that_was() {
    for millis in 0..250 {
        let (_, _, [a, b], _) = lose_takeover_and_end(Duration::from_millis(millis)).await;
        b.beat(SILENCE).await.unwrap();
        assert_eq!(lapsed(&a).await.len(), 1, "{millis} ms after the end");
    }
}

/// How a replica learns that its lease is lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Append,
    Note,
    Renewal,
}

/// Returns whether the run is listed before the replica that took it over learns of its loss, and after that. The replica that
/// listed the run again is gone; a second failover loses that and the takeover, and keeps what the server had `kept` after the first.
async fn is_found_after_two_failovers(kept: i64, loss: Loss) -> [bool; 2] {
    let (redis, failover, [a, b], lease) = lose_takeover_and_end(Duration::from_millis(100)).await;
    b.beat(SILENCE).await.unwrap();
    drop(b);
    let taken = a.take_over(&lease.run_id, LATER, Timestamp(LATER.0 + 3_000)).await.unwrap();
    redis.fail_over(failover + kept);
    let is_listed = !lapsed(&a).await.is_empty();
    let is_lost = match loss {
        Loss::Append => a.append(&taken, events(1), LATER).await.is_err(),
        Loss::Note => a.annotate(&taken, Note::Input(json!({}).into())).await.is_err(),
        Loss::Renewal => !a.renew(vec![taken], LATER).await.unwrap().is_empty(),
    };
    assert!(is_lost, "{loss:?}, {kept} ms");
    a.beat(SILENCE).await.unwrap();
    [is_listed, !lapsed(&a).await.is_empty()]
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_second_failover_left_in_no_list_is_found() {
    for loss in [Loss::Append, Loss::Note, Loss::Renewal] {
        let mut unlisted = 0;
        for kept in (0..200).step_by(5) {
            let [before, after] = is_found_after_two_failovers(kept, loss).await;
            unlisted += usize::from(!before);
            assert!(after, "{loss:?}, {kept} ms");
        }
        assert!(unlisted > 0, "{loss:?}");
    }
}

/// Cuts a replica off `after` it began to open a run, for longer than the lease, and returns `true` if the run, as soon as it
/// exists, is found by a sweeper that has looked for it before.
async fn is_found_after_a_cut(after: Duration) -> bool {
    let redis = Redis::new(EPOCH, Trace::new(false), None);
    let weather = Weather { delay: 30, ..Weather::default() };
    let node = Arc::new(Node::new("a".to_owned(), Trace::new(false), weather, Random::new(7, "a")));
    let a = Arc::new(redis.log(&node, LogLimits::default()).unwrap());
    let b = log_of(&redis, "b", LogLimits::default());
    let opening = tokio::spawn({
        let a = Arc::clone(&a);
        async move { a.open(meta("run"), UNTIL).await.is_ok() }
    });
    tokio::time::sleep(after).await;
    node.set(Status::Cut);
    lapsed(&b).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    node.set(Status::Up);
    tokio::time::sleep(Duration::from_secs(1)).await;
    opening.await.unwrap();
    let is_there = b.state(&meta("run").run_id).await.is_ok();
    !is_there || !lapsed(&b).await.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_created_after_its_lease_lapsed_is_found() {
    for millis in 0..150 {
        assert!(is_found_after_a_cut(Duration::from_millis(millis)).await, "cut off after {millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_created_after_a_failover_is_listed() {
    for millis in 0..150 {
        let trace = Trace::new(false);
        let redis = Redis::new(EPOCH, trace.clone(), None);
        let weather = Weather { delay: 30, ..Weather::default() };
        let a = log_over(&redis, "a", weather, LogLimits::default());
        a.beat(SILENCE).await.unwrap();
        let before = trace.now();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let opening = tokio::spawn({
            let a = Arc::clone(&a);
            async move { a.open(meta("run"), UNTIL).await }
        });
        tokio::time::sleep(Duration::from_millis(millis)).await;
        redis.fail_over(before);
        let lease = opening.await.unwrap().unwrap();
        if a.state(&lease.run_id).await.is_ok() {
            assert_eq!(lapsed(&a).await.len(), 1, "{millis} ms after the run was listed");
            assert_eq!(a.list(RunQuery::default(), 10).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_knows_after_a_failover_that_a_run_is_open_again() {
    let (redis, trace, [a, b]) = replicas().await;
    let lease = a.open(meta("run"), UNTIL).await.unwrap();
    let watching = tokio::spawn({
        let (b, run) = (Arc::clone(&b), lease.run_id.clone());
        async move { b.changed(&run, 3).await }
    });
    let between = append_in_two(&a, &lease, &trace).await;
    watching.await.unwrap().unwrap();
    redis.fail_over(between);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let head = b.state(&lease.run_id).await.unwrap().head;
    let waits = tokio::time::timeout(Duration::from_millis(500), b.changed(&lease.run_id, head)).await;
    assert!(waits.is_err(), "a watcher that waits at the head returns at once, and reads in a loop");
    a.beat(SILENCE).await.unwrap();
    b.changed(&lease.run_id, head).await.unwrap();
    let page = b.read(&lease.run_id, 0, 10).await.unwrap();
    assert_eq!((page.head, page.closed), (head + 1, true));
}

#[tokio::test(start_paused = true)]
async fn a_message_after_a_failover_that_lost_earlier_ones_reaches_the_owner() {
    let (redis, trace, [a, b]) = replicas().await;
    let lease = a.open(meta("run"), UNTIL).await.unwrap();
    let run = &lease.run_id;
    let message = |text: &str| Control::Message(text.into());
    b.control(run, message("kept")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = trace.now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for text in ["seen and lost", "so too"] {
        b.control(run, message(text)).await.unwrap();
    }
    let mut seen = a.controls(&lease, 0).await.unwrap();
    assert_eq!(seen.len(), 3);
    redis.fail_over(before);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for text in ["next", "last"] {
        b.control(run, message(text)).await.unwrap();
        let received = async {
            loop {
                let messages = a.controls(&lease, seen.len()).await.unwrap();
                seen.extend(messages.iter().cloned());
                if !messages.is_empty() {
                    return messages;
                }
            }
        };
        let received = tokio::time::timeout(Duration::from_secs(5), received).await.unwrap();
        assert_eq!(received, [message(text)]);
    }
}
