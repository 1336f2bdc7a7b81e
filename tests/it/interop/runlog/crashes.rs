//! The server is killed with -9 and comes back on its append-only file, which may lack its last second.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{Follow, LogLimits, RunLog};
use futures_util::StreamExt as _;

use super::server::Server;
use super::{HELD, end, said, say};

const CRASHES: usize = 3;

/// Writers go on through crashes of the server, and nothing that was acknowledged is missing in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_survive_a_crash_of_the_server() {
    let mut server = Server::start();
    let log = Arc::new(server.log("crashes", LogLimits::default()));
    let watching = Arc::new(server.log("crashes", LogLimits::default()));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let runs: Vec<_> = (0..20)
        .map(|run| {
            let (log, watching, stopped) = (Arc::clone(&log), Arc::clone(&watching), stopped.clone());
            tokio::spawn(async move {
                let lease = log.open(meta(&format!("run-{run}")), HELD).await.unwrap();
                let follow = Follow::new(watching as Arc<dyn RunLog>, lease.run_id.clone(), 0);
                let shown = tokio::spawn(follow.map(|event| said(&event.unwrap().event)).collect::<Vec<_>>());
                let mut written = Vec::new();
                while !*stopped.borrow() {
                    let number = written.len() as u64 + 1;
                    let head = log.append(&lease, vec![say("writer", number)], Timestamp(1)).await.unwrap();
                    assert_eq!(head, number);
                    written.push(said(&say("writer", number)));
                }
                log.append(&lease, vec![end()], Timestamp(2)).await.unwrap();
                written.push(said(&end()));
                let stored = Follow::new(log as Arc<dyn RunLog>, lease.run_id, 0);
                let stored: Vec<String> = stored.map(|event| said(&event.unwrap().event)).collect().await;
                assert_eq!(stored, written, "what is stored");
                assert_eq!(shown.await.unwrap(), written, "what was shown");
                written.len()
            })
        })
        .collect();
    for _ in 0..CRASHES {
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.crash();
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.send_replace(true);
    let mut events = 0;
    for run in runs {
        events += run.await.unwrap();
    }
    println!("{CRASHES} crashes of the server: {events} events, all of them there");
}
