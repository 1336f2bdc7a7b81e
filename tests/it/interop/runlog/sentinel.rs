//! The run log on servers that Sentinel watches: the leader dies, its replica leads, and runs go on.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{Follow, RedisConfig, RedisLog, RunLog};
use futures_util::StreamExt as _;

use super::cluster::{until, until_replicated};
use super::server::Server;
use super::{HELD, end, said, say};

/// How long these tests wait for servers to agree before they give up.
const PATIENCE: Duration = Duration::from_secs(60);

fn log(url: &str, service: &str) -> RedisLog {
    let (sentinel, patience) = (Some(service.to_owned()), PATIENCE);
    RedisLog::new(&RedisConfig { sentinel, patience, ..RedisConfig::new(url) }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_go_on_when_the_leader_dies() {
    let leader = Server::start();
    let replica = Server::start_replica_of(&leader);
    until(&leader, "INFO replication", "state=online");
    let sentinel = Server::start_sentinel(&leader, "runs");
    until(&sentinel, "SENTINEL REPLICAS runs", &replica.port().to_string());
    // The first address has no listener.
    let url = format!("redis://127.0.0.1:1,redis://127.0.0.1:{}", sentinel.port());
    let (writer, other) = (Arc::new(log(&url, "runs")), Arc::new(log(&url, "runs")));
    let lease = writer.open(meta("a"), HELD).await.unwrap();
    let follow = Follow::new(other as Arc<dyn RunLog>, RunId::from("a"), 0);
    let watcher = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
    let mut leader = Some(leader);
    for number in 1..=300 {
        let head = writer.append(&lease, vec![say("writer", number)], Timestamp(5)).await.unwrap();
        assert_eq!(head, number);
        if number == 100 {
            until_replicated(leader.as_ref().unwrap());
            drop(leader.take());
        }
    }
    writer.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    let mut wanted: Vec<String> = (1..=300).map(|number| said(&say("writer", number))).collect();
    wanted.push(said(&end()));
    assert_eq!(tokio::time::timeout(PATIENCE, watcher).await.unwrap().unwrap(), wanted);
    assert!(replica.is_leader());
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_named() {
    let leader = Server::start();
    let sentinel = Server::start_sentinel(&leader, "runs");
    let log = log(&format!("redis://127.0.0.1:{}", sentinel.port()), "run");
    let refused = log.check().await.unwrap_err();
    assert!(refused.is_temporary() && refused.to_string().contains("no service `run`"), "{refused}");
}
