//! Random faults, from a seed: three replicas on a Redis with a replica of its own, a gateway with its log on disk, an agent
//! behind a proxy that is asked over A2A and AG-UI, and clients that come back. Replicas are killed, stopped and continued, and
//! told to leave; Redis pauses, crashes, fails over and is full; the disk is full; the agent's connections are cut. Every client
//! puts together the stream that the log holds.
//!
//! `cargo xtask soak --seed 7 --minutes 30` runs it. With `AQUEDUCT_SOAK_LOGS` set to a folder, the gateways' logs are kept there.
//! `AQUEDUCT_SOAK_FAULTS` and `AQUEDUCT_SOAK_PAUSE_MS` choose the faults and the shortest pause between them, to look for one cause.

#![expect(
    clippy::print_stdout,
    reason = "the seed, and what was survived, is what one wants to know of this test"
)]

mod gateways;
mod proxy;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aqueduct_tests::process::Program;

use super::runlog::replicas::{Alive, Seen, Speech, check, host, signal, texts, upstream};
use super::runlog::server::Server;
use gateways::{DiskGateway, Gateways};
use proxy::Proxy;

const SPEECH: Speech = Speech { words: 25, pace: Duration::from_millis(400) };

/// How a run may end that cannot go on: its request was cut before the agent had it, or was not sent because the ones before
/// it were cut.
const HONEST: [&str; 3] = ["gateway_lost", "upstream_ended", "upstream_circuit_open"];

/// Clients of the gateway with its log on disk: one in so many.
const ON_DISK: usize = 10;

/// One client in so many calls over AG-UI.
const POSTED: usize = 4;

/// A run without events for so long hangs. The agent emits something every 0.4 s; the longest fault lasts 5 s, and a
/// server that was away is not swept for another lease.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// How long a fail-over waits for the replica of a server that was killed.
const CATCHES_UP: Duration = Duration::from_secs(10);

/// Connections to the agent are kept for the next request for 60 s, up to 32 for each way to call it.
const IDLE: Duration = Duration::from_secs(90);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Numbers from a seed (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pause(&mut self, from: u64, to: u64) {
        std::thread::sleep(Duration::from_millis(from + self.roll(to - from)));
    }
}

/// What the clients did.
#[derive(Default)]
struct Tally {
    finished: AtomicUsize,
    /// Runs that could not go on ([`HONEST`]).
    lost: AtomicUsize,
    came_back: AtomicUsize,
    /// Runs over AG-UI.
    posted: AtomicUsize,
    posted_lost: AtomicUsize,
}

/// One client: run after run, until it is stopped. `prefix` names its runs.
fn client(prefix: &str, turn: usize, alive: &Alive, tally: &Tally, over: &AtomicBool) {
    let mut count = 0;
    let is_posted = turn % POSTED == POSTED - 1;
    let (agent, finished, lost) = if is_posted {
        ("posted", &tally.posted, &tally.posted_lost)
    } else {
        ("task", &tally.finished, &tally.lost)
    };
    while !over.load(Ordering::Relaxed) {
        count += 1;
        let run = format!("{prefix}-{turn}-{count}");
        let Some(seen) = Seen::follow_through(&run, agent, alive, turn + count, HANGS_AFTER) else {
            // Refused: the gateway leaves, or the log is away.
            std::thread::sleep(Duration::from_millis(200));
            continue;
        };
        let end = seen.events.last().unwrap();
        if end["type"] == "RUN_FINISHED" {
            let all = texts(&seen.events);
            // Whether the log lacks the words too tells a fault of the writer from one of the watcher.
            let logged = || texts(&Seen::whole_through(&run, alive, turn));
            let summary = seen.summary();
            assert!(
                all.contains(&SPEECH.text()),
                "{run}: {all:?}, then {end}; {summary}; the log has {:?}",
                logged()
            );
            finished.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(HONEST.iter().any(|code| end["code"] == *code), "{run}: {end}");
            println!("{run} ({agent}): {end}");
            lost.fetch_add(1, Ordering::Relaxed);
        }
        tally.came_back.fetch_add(usize::from(seen.connections > 0), Ordering::Relaxed);
        check(&run, &seen, &Seen::whole_through(&run, alive, turn));
    }
}

/// Everything that can fail.
struct World {
    alive: Alive,
    files: Gateways,
    disk: DiskGateway,
    gateways: Vec<Program>,
    leaving: Vec<Program>,
    servers: Vec<Server>,
    /// Which of the servers leads.
    leader: usize,
    redis: Proxy,
    agent: Proxy,
    dice: Dice,
}

/// A kind of fault: its name, its weight among the others, and what it does.
type Fault = (&'static str, u64, fn(&mut World));

const FAULTS: [Fault; 10] = [
    ("kill", 2, World::kill),
    ("stop and continue", 2, World::stop_and_continue),
    ("SIGTERM", 4, World::leave),
    ("Redis paused", 2, World::pause_redis),
    ("Redis killed", 2, World::crash_redis),
    ("Redis failed over", 2, World::fail_over),
    ("disk full", 2, World::fill_disk),
    ("kill, on disk", 2, World::kill_on_disk),
    ("Redis full", 1, World::fill_redis),
    ("upstream cut", 1, World::cut_agent),
];

/// Returns the faults of the trial: all, or those whose names `AQUEDUCT_SOAK_FAULTS` lists, separated by semicolons.
fn chosen_faults() -> Vec<Fault> {
    let chosen = std::env::var("AQUEDUCT_SOAK_FAULTS").ok();
    let is_chosen =
        |name: &str| chosen.as_ref().is_none_or(|chosen| chosen.split(';').any(|one| one == name));
    let faults: Vec<Fault> = FAULTS.into_iter().filter(|(name, ..)| is_chosen(name)).collect();
    assert!(!faults.is_empty(), "`AQUEDUCT_SOAK_FAULTS` names none of {:?}", FAULTS.map(|(name, ..)| name));
    faults
}

impl World {
    /// Lets one of the faults happen, and returns its name.
    fn fault(&mut self, faults: &[Fault]) -> &'static str {
        let mut roll = self.dice.roll(faults.iter().map(|(_, weight, _)| weight).sum());
        for (name, weight, happen) in faults {
            if roll < *weight {
                happen(self);
                return name;
            }
            roll -= weight;
        }
        unreachable!("the roll is below the sum of the weights");
    }

    fn cut_agent(&mut self) {
        self.agent.cut();
    }

    fn kill_on_disk(&mut self) {
        self.disk.kill();
    }

    fn any(&mut self) -> usize {
        usize::try_from(self.dice.roll(3)).unwrap()
    }

    fn kill(&mut self) {
        let index = self.any();
        let old = self.gateways.remove(index);
        self.alive.kill(old);
        self.gateways.push(self.files.start(&self.alive));
    }

    fn stop_and_continue(&mut self) {
        let index = self.any();
        signal(&self.gateways[index], "-STOP");
        self.dice.pause(500, 5_000);
        signal(&self.gateways[index], "-CONT");
    }

    fn leave(&mut self) {
        let index = self.any();
        let old = self.gateways.remove(index);
        self.gateways.push(self.files.start(&self.alive));
        signal(&old, "-TERM");
        self.alive.forget(&old);
        self.leaving.push(old);
    }

    fn leading(&self) -> &Server {
        &self.servers[self.leader]
    }

    fn pause_redis(&mut self) {
        self.leading().signal("-STOP");
        self.dice.pause(500, 3_000);
        self.leading().signal("-CONT");
    }

    fn crash_redis(&mut self) {
        let leader = self.leader;
        self.servers[leader].crash();
    }

    /// The other server leads, with all that the first one had. A replica that has not caught up after an earlier fault cannot
    /// lead: the leader refuses.
    fn fail_over(&mut self) {
        let (old, new) = (self.leader, 1 - self.leader);
        let command = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 5000", self.servers[new].port());
        let begun = Instant::now();
        while let Err(refused) = self.servers[old].try_tell(&command) {
            assert!(refused.contains("not online"), "{refused}");
            if begun.elapsed() > CATCHES_UP {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let begun = Instant::now();
        while !self.servers[new].is_leader() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if self.servers[new].is_leader() {
            self.leader = new;
            self.redis.lead_to(&format!("127.0.0.1:{}", self.servers[new].port()));
        }
    }

    fn fill_disk(&mut self) {
        self.disk.limit_files("0");
        self.dice.pause(500, 8_000);
        self.disk.limit_files("unlimited");
    }

    fn fill_redis(&mut self) {
        self.leading().tell("CONFIG SET maxmemory 1");
        self.dice.pause(500, 4_000);
        self.leading().tell("CONFIG SET maxmemory 0");
    }
}

/// Open files and memory (KiB) of a gateway.
fn held(gateway: &Program) -> (usize, u64) {
    let process = Path::new("/proc").join(gateway.id().to_string());
    let files = std::fs::read_dir(process.join("fd")).unwrap().count();
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (files, memory.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn three_replicas_survive_random_faults() {
    let (seed, seconds) = (number("AQUEDUCT_SOAK_SEED", 1), number("AQUEDUCT_SOAK_SECONDS", 60));
    let clients = usize::try_from(number("AQUEDUCT_SOAK_CLIENTS", 300)).unwrap();
    println!("seed {seed}, {seconds} s, {clients} clients");
    let servers = vec![Server::start(), Server::start()];
    servers[1].tell(&format!("REPLICAOF 127.0.0.1 {}", servers[0].port()));
    let redis = Proxy::to(&format!("127.0.0.1:{}", servers[0].port()));
    let (speaker, _kept) = upstream(SPEECH);
    let agent = Proxy::to(&host(&speaker));
    let files = Gateways::on_redis(&format!("redis://{}", redis.address), SPEECH, &agent.address);
    let disk = DiskGateway::start(SPEECH, &agent.address);
    let alive = Alive::default();
    let gateways: Vec<Program> = (0..3).map(|_| files.start(&alive)).collect();
    let before = held(&gateways[0]);
    let (over, tally) = (Arc::new(AtomicBool::new(false)), Arc::new(Tally::default()));
    let running: Vec<JoinHandle<()>> = (0..clients)
        .map(|turn| {
            let is_on_disk = turn % ON_DISK == ON_DISK - 1;
            let (prefix, alive) = if is_on_disk { ("disk", &disk.alive) } else { ("soak", &alive) };
            let (alive, over, tally) = (alive.clone(), Arc::clone(&over), Arc::clone(&tally));
            std::thread::spawn(move || client(prefix, turn, &alive, &tally, &over))
        })
        .collect();
    let (leaving, leader, dice) = (Vec::new(), 0, Dice(seed));
    let mut world = World { alive, files, disk, gateways, leaving, servers, leader, redis, agent, dice };
    let begun = Instant::now();
    let (chosen, pause) = (chosen_faults(), number("AQUEDUCT_SOAK_PAUSE_MS", 2_000));
    let mut faults = Vec::new();
    while begun.elapsed() < Duration::from_secs(seconds) {
        world.dice.pause(pause, 3 * pause);
        faults.push(world.fault(&chosen));
        world.leaving.retain_mut(|gateway| !gateway.ends_within(Duration::ZERO));
    }
    over.store(true, Ordering::Relaxed);
    let hung = running.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
    assert_eq!(hung, 0, "clients that lost, doubled or hung (seed {seed}): {faults:?}");
    for gateway in &mut world.leaving {
        assert!(gateway.ends_within(Duration::from_secs(30)), "a gateway does not leave");
    }
    let [finished, lost, came_back] =
        [&tally.finished, &tally.lost, &tally.came_back].map(|count| count.load(Ordering::Relaxed));
    println!("{} faults: {faults:?}", faults.len());
    println!("{finished} runs finished, {lost} could not go on, {came_back} came back");
    let [posted, posted_lost] =
        [&tally.posted, &tally.posted_lost].map(|count| count.load(Ordering::Relaxed));
    println!("over AG-UI {posted} runs finished, {posted_lost} could not go on");
    assert!(posted > 0 || clients < POSTED, "no run over AG-UI finished");
    assert!(finished > 0 && came_back > 0, "nothing happened");
    assert!(lost * 20 <= finished, "too many runs could not go on");
    for gateway in world.gateways.iter().chain([world.disk.gateway()]) {
        let ended = Instant::now();
        // Connections of clients that have gone are closed in a moment, those to the agent once they have been idle for long.
        while held(gateway).0 > before.0 + 16 && ended.elapsed() < IDLE {
            std::thread::sleep(Duration::from_secs(1));
        }
        let after = held(gateway);
        println!("files and KiB of a fresh gateway {before:?}, now {after:?}");
        assert!(after.0 <= before.0 + 16, "open files: {before:?}, {after:?}");
        assert!(after.1 <= before.1 * 3 + 65_536, "memory: {before:?}, {after:?}");
    }
    drop(world);
    drop(speaker);
}
