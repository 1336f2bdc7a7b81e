//! R20: all replicas are killed with -9 and started again. Every run ends: those whose agent works on with its answer, the
//! others with `gateway_lost`.

use std::time::{Duration, Instant};

use aqueduct_tests::process::Program;

use super::super::runlog::replicas::{Alive, on_disk, upstream, with_upstream_by_default};
use super::super::runlog::server::Server;
use super::{Tally, finished, runs, since, spawn, speech};

/// When a run must have ended that cannot go on, and one whose agent has ended.
const ENDED: Duration = Duration::from_secs(30);
const AGENTS: &[&str] = &["task", "slow"];

fn survive(folder: &std::path::Path, replicas: usize, runs: usize, speech: super::Speech) {
    let alive = Alive::default();
    let mut gateways: Vec<Program> = (0..replicas).map(|_| alive.start(folder)).collect();
    let clients = spawn(runs, AGENTS, &alive, "restarted");
    gateways.drain(..).for_each(|gateway| alive.kill(gateway));
    let begun = Instant::now();
    let _again: Vec<Program> = (0..replicas).map(|_| alive.start(folder)).collect();
    let lasts = speech.pace * u32::try_from(speech.words).unwrap();
    let mut tally = Tally::default();
    let (mut ended, mut latest) = (0, Duration::ZERO);
    for (turn, client) in clients.into_iter().enumerate() {
        let (run, seen) = client.join().unwrap();
        tally.add(&run, &seen, &alive);
        // An agent that works on ends its run when it ends.
        let from = match AGENTS[turn % AGENTS.len()] {
            "task" => {
                finished(&run, &seen, speech);
                begun.max(seen.first_at.unwrap() + lasts)
            }
            _ => {
                let end = seen.events.last().unwrap();
                assert_eq!(end["code"], "gateway_lost", "{run}: {end}");
                ended += 1;
                begun
            }
        };
        latest = latest.max(since(from, seen.last_at));
    }
    println!(
        "{runs} runs, {replicas} replicas killed and started again: {ended} ended with gateway_lost, {} went on; \
         the last ended {latest:?} after the restart, or after its agent",
        runs - ended
    );
    assert!(latest <= ENDED + tally.late(speech.pace), "{latest:?}");
}

#[test]
fn every_run_ends_after_the_death_of_all_replicas() {
    let runs = runs();
    let speech = speech(runs, Duration::from_secs(20));
    let server = Server::start();
    let (agent, _kept) = upstream(speech);
    survive(with_upstream_by_default(&server, speech, &agent).path(), 3, runs, speech);
}

/// The same with a log on disk, of one gateway.
#[test]
fn every_run_on_disk_ends_after_the_death_of_its_gateway() {
    let runs = runs();
    let speech = speech(runs, Duration::from_secs(20));
    let (agent, _kept) = upstream(speech);
    survive(on_disk(speech, &agent).path(), 1, runs, speech);
}
