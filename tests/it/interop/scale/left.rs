//! R11: replicas that are told to stop (SIGTERM) under load. Nothing is lost, doubled or cancelled.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use aqueduct_tests::process::Program;

use super::super::runlog::replicas::{Alive, host, signal, upstream, with_upstream_by_default};
use super::super::runlog::server::Server;
use super::{Tally, runs, since, spawn, speech};

/// When a load balancer must see it, on a machine with other work.
const UNREADY: Duration = Duration::from_secs(1);
/// When every client must have gone on elsewhere.
const MOVED: Duration = Duration::from_secs(10);
/// How long a gateway may take to leave: the limit of Kubernetes is 30 s.
const LEFT: Duration = Duration::from_secs(25);

fn is_ready(host: &str) -> std::io::Result<bool> {
    let mut socket = TcpStream::connect(host)?;
    write!(socket, "GET /readyz HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut response = String::new();
    socket.read_to_string(&mut response)?;
    Ok(!response.starts_with("HTTP/1.0 503"))
}

/// Tells a gateway to stop. Returns how long it said to be ready.
fn tell(gateway: &Program) -> Duration {
    let begun = Instant::now();
    signal(gateway, "-TERM");
    while is_ready(&host(gateway)).unwrap() {
        assert!(begun.elapsed() < UNREADY * 10, "it says to be ready");
    }
    begun.elapsed()
}

#[test]
fn every_stream_of_a_replica_that_leaves_moves_to_the_other() {
    let runs = runs();
    let speech = speech(runs, Duration::from_secs(45));
    let server = Server::start();
    let (agent, _kept) = upstream(speech);
    let folder = with_upstream_by_default(&server, speech, &agent);
    let alive = Alive::default();
    let mut old = alive.start(folder.path());
    let clients = spawn(runs, &["task"], &alive, "moved");
    let _new = alive.start(folder.path());
    // It judges others, and takes runs over, once it has been there for longer than their silence.
    std::thread::sleep(Duration::from_secs(3));
    alive.forget(&old);
    let begun = Instant::now();
    let unready = tell(&old);
    assert!(old.ends_within(LEFT), "it does not leave");
    let left = begun.elapsed();
    let (tally, all) = Tally::of(clients, &alive, speech);
    let moved = all.iter().map(|seen| since(begun, seen.moved_at)).max().unwrap();
    println!(
        "{runs} streams, a word every {:?}: not ready after {unready:?}, all moved within {moved:?}, left after {left:?}; \
         gaps p99 {:?}, longest {:?}",
        speech.pace,
        tally.percentile(99),
        tally.percentile(100)
    );
    assert_eq!(tally.came_back, runs, "every client moves");
    assert!(unready <= UNREADY, "{unready:?}");
    assert!(moved <= MOVED + tally.late(speech.pace) + speech.pace, "{moved:?}");
}

#[test]
fn a_rolling_restart_of_three_loses_nothing() {
    let runs = runs();
    let speech = speech(runs, Duration::from_secs(45));
    let server = Server::start();
    let (agent, _kept) = upstream(speech);
    let folder = with_upstream_by_default(&server, speech, &agent);
    let alive = Alive::default();
    let mut gateways: Vec<Program> = (0..3).map(|_| alive.start(folder.path())).collect();
    let clients = spawn(runs, &["task"], &alive, "rolled");
    let mut took = Vec::new();
    for _ in 0..3 {
        let mut old = gateways.remove(0);
        gateways.push(alive.start(folder.path()));
        alive.forget(&old);
        let begun = Instant::now();
        tell(&old);
        assert!(old.ends_within(LEFT), "it does not leave");
        took.push(begun.elapsed());
    }
    let (tally, _) = Tally::of(clients, &alive, speech);
    println!(
        "{runs} runs, 3 restarts that took {took:?}: {} clients moved; gaps p99 {:?}, longest {:?}",
        tally.came_back,
        tally.percentile(99),
        tally.percentile(100)
    );
    assert!(tally.came_back >= runs / 2, "the restarts hit few");
}
