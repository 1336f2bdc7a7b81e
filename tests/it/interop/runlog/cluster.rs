//! The run log on a Redis cluster: three nodes with a third of the slots each, one of which is configured.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::{conform, conform_shared, meta};
use aqueduct_runlog::{Follow, LogLimits, RedisConfig, RedisLog, RunLog};
use futures_util::StreamExt as _;

use super::server::Server;
use super::{HELD, end, said, say};

const NODES: usize = 3;
const SLOTS: usize = 16_384;

struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    fn start() -> Self {
        let cluster = Self { nodes: (0..NODES).map(|_| Server::start_node()).collect() };
        let first = &cluster.nodes[0];
        for (index, node) in cluster.nodes.iter().enumerate() {
            let (from, to) = (SLOTS * index / NODES, SLOTS * (index + 1) / NODES - 1);
            ask(node, &format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            ask(node, &format!("CLUSTER MEET 127.0.0.1 {} {}", first.port(), first.bus()));
        }
        for node in &cluster.nodes {
            while !ask(node, "CLUSTER INFO").contains("cluster_state:ok")
                || ask(node, "CLUSTER NODES").lines().count() < NODES
            {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        cluster
    }

    fn log(&self, prefix: &str, limits: LogLimits) -> RedisLog {
        let url = self.nodes[0].url();
        RedisLog::new(&RedisConfig { prefix: prefix.to_owned(), limits, ..RedisConfig::new(url) }).unwrap()
    }
}

/// Which node has a slot at the beginning.
fn owner(slot: usize) -> usize {
    slot * NODES / SLOTS
}

/// What a server answers to a line, as one text.
pub(super) fn ask(node: &Server, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    answer(&mut BufReader::new(stream), line)
}

fn answer(from: &mut BufReader<TcpStream>, question: &str) -> String {
    let mut head = String::new();
    from.read_line(&mut head).unwrap();
    let (kind, rest) = head.trim_end().split_at(1);
    match kind {
        "+" | ":" => rest.to_owned(),
        "$" => {
            let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
            from.read_exact(&mut text).unwrap();
            String::from_utf8(text).unwrap().trim_end().to_owned()
        }
        "*" => (0..rest.parse().unwrap()).map(|_| answer(from, question) + " ").collect(),
        _ => panic!("{question}: {head}"),
    }
}

/// Waits until the answer to a line has that text.
pub(super) fn until(server: &Server, line: &str, text: &str) {
    while !ask(server, line).contains(text) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the replica has acknowledged everything that the leader has. Redis acknowledges a write before its replicas have
/// it: an owner appends lost events again, but a run that no replica has is gone.
pub(super) fn until_replicated(leader: &Server) {
    let is_equal = |info: &str| {
        let number = |key: &str| {
            let rest = info.split_once(key)?.1;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        number("master_repl_offset:").is_some_and(|held| number(",offset=") == Some(held))
    };
    while !is_equal(&ask(leader, "INFO replication")) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_cluster_conforms() {
    let cluster = Cluster::start();
    let count = std::cell::Cell::new(0);
    let make = async |limits| {
        count.set(count.get() + 1);
        Arc::new(cluster.log(&format!("log{}", count.get()), limits)) as Arc<dyn RunLog>
    };
    conform(make).await;
    conform_shared(make).await;
    for node in &cluster.nodes {
        assert_ne!(ask(node, "DBSIZE"), "0", "the runs are on all nodes");
    }
}

/// A slot goes to another node while a run in it is written and watched: nothing is lost, doubled or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_while_its_slot_moves() {
    let cluster = Cluster::start();
    let (writer, other) =
        (Arc::new(cluster.log("move", LogLimits::default())), cluster.log("move", LogLimits::default()));
    let lease = writer.open(meta("mover"), HELD).await.unwrap();
    let follow = Follow::new(Arc::new(other) as Arc<dyn RunLog>, RunId::from("mover"), 0);
    let watcher = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
    let mut number = 0;
    let mut write = async |count: u64| {
        for _ in 0..count {
            number += 1;
            let head = writer.append(&lease, vec![say("writer", number)], Timestamp(5)).await.unwrap();
            assert_eq!(head, number);
        }
    };
    write(20).await;
    let slot: usize = ask(&cluster.nodes[0], "CLUSTER KEYSLOT move:{mover}:meta").parse().unwrap();
    let (from, to) = (&cluster.nodes[owner(slot)], &cluster.nodes[(owner(slot) + 1) % NODES]);
    let (source, target) = (ask(from, "CLUSTER MYID"), ask(to, "CLUSTER MYID"));
    ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
    ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
    write(20).await;
    let keys = ask(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    ask(from, &format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port()));
    // Here the old node has the slot but nothing of the run: it responds with ASK.
    write(20).await;
    assert!(ask(to, "INFO commandstats").contains("cmdstat_asking"), "nobody was sent to the new node");
    for node in [to, from] {
        ask(node, &format!("CLUSTER SETSLOT {slot} NODE {target}"));
    }
    write(20).await;
    writer.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    let mut wanted: Vec<String> = (1..=number).map(|number| said(&say("writer", number))).collect();
    wanted.push(said(&end()));
    assert_eq!(watcher.await.unwrap(), wanted);
}

/// A node dies for good, and its replica takes over: runs on it go on there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_go_on_at_the_replica_of_a_node_that_dies() {
    let mut cluster = Cluster::start();
    let patience = Duration::from_secs(60);
    let log = || {
        let own = RedisConfig::new(cluster.nodes[0].url());
        Arc::new(RedisLog::new(&RedisConfig { prefix: "fail".to_owned(), patience, ..own }).unwrap())
    };
    let (writer, other) = (log(), log());
    let slot: usize = ask(&cluster.nodes[0], "CLUSTER KEYSLOT fail:{mover}:meta").parse().unwrap();
    let dying = owner(slot);
    let replica = Server::start_node();
    let (first, id) = (&cluster.nodes[0], ask(&cluster.nodes[dying], "CLUSTER MYID"));
    ask(&replica, &format!("CLUSTER MEET 127.0.0.1 {} {}", first.port(), first.bus()));
    for node in cluster.nodes.iter().chain([&replica]) {
        while ask(node, "CLUSTER NODES").lines().count() < NODES + 1 {
            std::thread::sleep(Duration::from_millis(20));
        }
        ask(node, "CONFIG SET cluster-node-timeout 1000");
    }
    ask(&replica, &format!("CLUSTER REPLICATE {id}"));
    until(&cluster.nodes[dying], "INFO replication", "state=online");
    let lease = writer.open(meta("mover"), HELD).await.unwrap();
    let follow = Follow::new(other as Arc<dyn RunLog>, RunId::from("mover"), 0);
    let watcher = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
    for number in 1..=200 {
        let head = writer.append(&lease, vec![say("writer", number)], Timestamp(5)).await.unwrap();
        assert_eq!(head, number);
        if number == 100 {
            until_replicated(&cluster.nodes[dying]);
            drop(cluster.nodes.remove(dying));
        }
    }
    writer.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    let mut wanted: Vec<String> = (1..=200).map(|number| said(&say("writer", number))).collect();
    wanted.push(said(&end()));
    assert_eq!(tokio::time::timeout(patience, watcher).await.unwrap().unwrap(), wanted);
    assert!(replica.is_leader());
}

/// A node dies and returns, and so does the configured one: runs on it wait, and are complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_a_node_that_comes_back() {
    let mut cluster = Cluster::start();
    let (writer, other) = (
        Arc::new(cluster.log("die", LogLimits::default())),
        Arc::new(cluster.log("die", LogLimits::default())),
    );
    let runs: Vec<String> = (0..12).map(|run| format!("run-{run}")).collect();
    let watchers: Vec<_> = {
        let mut watchers = Vec::new();
        for run in &runs {
            writer.open(meta(run), HELD).await.unwrap();
            let follow = Follow::new(Arc::clone(&other) as Arc<dyn RunLog>, RunId::from(run.as_str()), 0);
            watchers.push(tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>()));
        }
        watchers
    };
    let wanted: Vec<String> = (1..=40).map(|number| said(&say("w", number))).chain([said(&end())]).collect();
    for number in 1..=40 {
        if number % 10 == 0 {
            cluster.nodes[usize::try_from(number / 10).unwrap() % NODES].crash();
        }
        for run in &runs {
            let lease = aqueduct_runlog::Lease { run_id: RunId::from(run.as_str()), epoch: 1 };
            writer.append(&lease, vec![say("w", number)], Timestamp(5)).await.unwrap();
        }
    }
    for run in &runs {
        let lease = aqueduct_runlog::Lease { run_id: RunId::from(run.as_str()), epoch: 1 };
        writer.append(&lease, vec![end()], Timestamp(5)).await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), wanted);
    }
}
