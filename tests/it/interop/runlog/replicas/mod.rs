//! Gateway processes that share a Redis: replicas are killed with -9, or stopped and continued, under clients that come back
//! elsewhere.

mod deaths;
mod gateways;
mod sdk;
mod stream;

use std::time::{Duration, Instant};

use aqueduct_tests::process::{payloads, post_whole};
use serde_json::Value;

use super::server::Server;
use gateways::configuration;
pub(crate) use gateways::{
    Alive, Speech, host, on_disk, on_disk_at, signal, task_at, upstream, with_upstream_by_default,
};
use stream::joined;
pub(crate) use stream::{Seen, check, spawn_clients, spawn_clients_slowly, texts, whole};

/// A quarter of a minute.
const SPEECH: Speech = Speech { words: 150, pace: Duration::from_millis(100) };

/// A replica that was stopped long enough to be taken for dead wakes up, and adds nothing to the runs it drove.
#[test]
fn a_replica_that_was_stopped_is_fenced_when_it_goes_on() {
    let server = Server::start();
    let folder = configuration(&server, SPEECH);
    let alive = Alive::default();
    let (owner, other) = (alive.start(folder.path()), alive.start(folder.path()));
    let on_owner = Alive::only(&owner);
    let clients = spawn_clients(10, &["slow"], &on_owner, "stopped");
    on_owner.wait_for(10);
    signal(&owner, "-STOP");
    let ended: Vec<(String, Vec<Value>)> = (0..10)
        .map(|turn| {
            let run = format!("stopped-{turn}");
            // Waits until the other gateway has ended it.
            let events = whole(&host(&other), &run);
            assert_eq!(events.last().unwrap()["code"], "gateway_lost");
            (run, events)
        })
        .collect();
    signal(&owner, "-CONT");
    for client in clients {
        // They watched at the owner all the time, and see the end that the other gateway made.
        let (run, seen) = client.join().unwrap();
        let known = &ended.iter().find(|(known, _)| *known == run).unwrap().1;
        check(&run, &seen, known);
    }
    std::thread::sleep(Duration::from_secs(1));
    for (run, events) in &ended {
        let now = joined(&whole(&host(&other), run));
        assert_eq!(now, joined(events), "{run}: the old owner wrote after the end");
    }
}

/// Any replica stops a run, whichever drives it.
#[test]
fn a_run_is_cancelled_from_any_replica() {
    let server = Server::start();
    let folder = configuration(&server, Speech { words: 600, ..SPEECH });
    let alive = Alive::default();
    let (owner, other) = (alive.start(folder.path()), alive.start(folder.path()));
    let on_owner = Alive::only(&owner);
    let clients = spawn_clients(3, &["slow"], &on_owner, "cancelled");
    on_owner.wait_for(3);
    for turn in 0..3 {
        let begun = Instant::now();
        let answer = post_whole(&format!("http://{}/runs/cancelled-{turn}/cancel", host(&other)), "{}");
        assert!(answer.contains(r#"{"cancelled":true}"#), "{answer}");
        let end = whole(&host(&other), &format!("cancelled-{turn}"));
        println!("cancelled from another replica in {:?}", begun.elapsed());
        assert_eq!(end.last().unwrap()["type"], "RUN_FINISHED", "{:?}", end.last());
        assert_eq!(end.last().unwrap()["outcome"]["type"], "cancelled", "{:?}", end.last());
        let again = post_whole(&format!("http://{}/runs/cancelled-{turn}/cancel", host(&other)), "{}");
        assert!(again.contains(r#"{"cancelled":false}"#), "{again}");
    }
    for client in clients {
        let (run, seen) = client.join().unwrap();
        check(&run, &seen, &whole(&host(&owner), &run));
    }
    let missing = post_whole(&format!("http://{}/runs/nobodys/cancel", host(&other)), "{}");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(payloads(&missing).is_empty());
}
