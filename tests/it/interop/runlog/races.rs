//! Take-over races: two owners write at the same time, and only one of them is the owner.

use std::sync::Arc;

use aqueduct_core::Timestamp;
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{Follow, Lease, LogError, LogLimits, RedisLog, RunLog};
use futures_util::StreamExt as _;

use super::server::Server;
use super::{HELD, LAPSED, end, said, say};

const RACES: u64 = 1_000;
/// Events that the new owner writes.
const NEW: u64 = 5;

/// Writes until it is fenced; gives how many of its events were acknowledged.
pub(super) async fn write_until_fenced(log: Arc<RedisLog>, lease: Lease) -> u64 {
    for number in 1.. {
        match log.append(&lease, vec![say("old", number)], Timestamp(1)).await.map_err(LogError::from) {
            Ok(head) => assert_eq!(head, number),
            Err(LogError::Fenced { .. } | LogError::Closed(_)) => return number - 1,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("numbers do not end")
}

/// 1,000 times an owner continues to append while another takes over: nothing of it is stored or shown after the fence,
/// and every append that was acknowledged is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_owner_writes_nothing() {
    let server = Server::start();
    let log = || Arc::new(server.log("races", LogLimits::default()));
    let (old_log, new_log, watching) = (log(), log(), log());
    let mut stored_before = 0;
    for race in 0..RACES {
        let old = old_log.open(meta(&format!("race-{race}")), LAPSED).await.unwrap();
        let run = old.run_id.clone();
        let follow = Follow::new(Arc::clone(&watching) as Arc<dyn RunLog>, run.clone(), 0);
        let shown = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
        let zombie = tokio::spawn(write_until_fenced(Arc::clone(&old_log), old.clone()));
        tokio::time::sleep(std::time::Duration::from_micros(race % 40 * 100)).await;
        let new = new_log.take_over(&run, Timestamp(1), HELD).await.unwrap();
        let fence = new_log.state(&run).await.unwrap().head;
        for number in 1..=NEW {
            let head = new_log.append(&new, vec![say("new", number)], Timestamp(2)).await.unwrap();
            assert_eq!(head, fence + number, "race {race}: somebody else appended after the fence");
        }
        new_log.append(&new, vec![end()], Timestamp(2)).await.unwrap();
        let acknowledged = zombie.await.unwrap();
        assert_eq!(acknowledged, fence, "race {race}: acknowledged and stored differ");
        stored_before += fence;
        let mut wanted: Vec<String> = (1..=fence).map(|number| said(&say("old", number))).collect();
        wanted.extend((1..=NEW).map(|number| said(&say("new", number))).chain([said(&end())]));
        assert_eq!(shown.await.unwrap(), wanted, "race {race}: what was shown");
        let stored = Follow::new(Arc::clone(&new_log) as Arc<dyn RunLog>, run, 0);
        let stored: Vec<String> = stored.map(|event| said(&event.unwrap().event)).collect().await;
        assert_eq!(stored, wanted, "race {race}: what is stored");
    }
    println!("{RACES} races: {stored_before} events before the fences, none after");
    assert!(stored_before > RACES, "the old owners wrote too little for a race");
}
