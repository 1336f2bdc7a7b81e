//! R3: three replicas with the default settings, which are killed with -9 one after another and replaced.

use std::time::Duration;

use aqueduct_tests::process::Program;

use super::super::runlog::replicas::{Alive, upstream, with_upstream_by_default};
use super::super::runlog::server::Server;
use super::{Tally, number, runs, spawn, speech};

/// The time between two kills: the replica that is started must have been there for longer than the silence by which it
/// judges others.
const BETWEEN_KILLS: Duration = Duration::from_secs(7);

/// What clients may wait for.
const P99: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(12);

#[test]
fn the_runs_of_killed_replicas_go_on_within_three_seconds() {
    let (runs, kills) = (runs(), number("AQUEDUCT_SCALE_KILLS", 3));
    let speech = speech(runs, BETWEEN_KILLS * u32::try_from(kills + 1).unwrap());
    let server = Server::start();
    let (agent, _kept) = upstream(speech);
    let folder = with_upstream_by_default(&server, speech, &agent);
    let alive = Alive::default();
    let mut gateways: Vec<Program> = (0..3).map(|_| alive.start(folder.path())).collect();
    let clients = spawn(runs, &["task"], &alive, "killed");
    std::thread::sleep(BETWEEN_KILLS);
    for _ in 0..kills {
        alive.kill(gateways.remove(0));
        gateways.push(alive.start(folder.path()));
        std::thread::sleep(BETWEEN_KILLS);
    }
    let (tally, _) = Tally::of(clients, &alive, speech);
    let (p50, p99, longest) = (tally.percentile(50), tally.percentile(99), tally.percentile(100));
    println!(
        "{runs} runs, a word every {:?}, {kills} kills: {} clients came back {} times; gaps p50 {p50:?}, p99 {p99:?}, \
         longest {longest:?}; {:?} before the first kill",
        speech.pace,
        tally.came_back,
        tally.gaps.len(),
        tally.quiet
    );
    assert!(tally.came_back > 0, "the kills hit no client");
    // The agent itself is silent for a pace.
    let late = tally.late(speech.pace) + speech.pace;
    assert!(p99 <= P99 + late, "p99 {p99:?}");
    assert!(longest <= LONGEST + late, "longest {longest:?}");
}
