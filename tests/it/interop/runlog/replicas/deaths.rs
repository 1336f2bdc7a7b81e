//! 200 runs and more on three replicas, which are killed one after another and replaced; then Redis is killed too. Every
//! fourth run asks an A2A agent, which another gateway asks again; the others end where their gateway died. Half of the first
//! 200 clients are plain ones, half go through `sdk/typescript`.

use std::time::Duration;

use aqueduct_tests::process::Program;

use super::super::server::Server;
use super::gateways::{Alive, LEASE, MARGIN, Speech, upstream, with_upstream};
use super::sdk::SdkClients;
use super::stream::{Seen, check, spawn_clients, texts, whole};

/// Lasts as long as all deaths together.
const SPEECH: Speech = Speech { words: 50, pace: Duration::from_millis(500) };
const AGENTS: &[&str] = &["task", "slow", "slow", "slow"];

/// What became of the runs.
#[derive(Debug, Default)]
struct Tally {
    longest: Duration,
    /// Whose that was.
    slowest: String,
    /// The longest pause while no gateway was killed: the delay of the machine itself.
    quiet: Duration,
    came_back: usize,
    lost: usize,
    finished: usize,
    tasks_of_the_dead: usize,
}

impl Tally {
    /// Checks one run: its stream is complete, and has the content of the agent.
    fn add(&mut self, run: &str, agent: &str, seen: &Seen, alive: &Alive) {
        check(run, seen, &whole(&alive.any(0), run));
        if seen.longest_pause > self.longest {
            self.longest = seen.longest_pause;
            self.slowest = format!("{run} ({agent})");
        }
        self.quiet = self.quiet.max(seen.quiet_pause);
        self.came_back += usize::from(seen.connections > 0);
        let (end, texts, said) = (seen.events.last().unwrap(), texts(&seen.events), SPEECH.text());
        if end["type"] == "RUN_FINISHED" {
            assert!(texts.contains(&said), "{run}: {texts:?}");
            self.finished += 1;
            self.tasks_of_the_dead += usize::from(agent == "task" && seen.connections > 0);
        } else {
            assert_eq!((end["code"].as_str(), agent), (Some("gateway_lost"), "slow"), "{run}: {end}");
            let is_beginning = |text: &String| said.starts_with(text) || text == "I help";
            assert!(texts.iter().all(is_beginning), "{run}: {texts:?}");
            self.lost += 1;
        }
    }
}

#[test]
fn clients_survive_the_death_of_every_replica_and_of_redis() {
    let runs: usize = std::env::var("AQUEDUCT_RUNS").map_or(200, |runs| runs.parse().unwrap());
    let mut server = Server::start();
    let (agent, _kept) = upstream(SPEECH);
    let folder = with_upstream(&server, SPEECH, &agent);
    let alive = Alive::default();
    let mut gateways: Vec<Program> = (0..3).map(|_| alive.start(folder.path())).collect();
    let (plain, more) = (runs / 2, runs / 4);
    let mut sdk = SdkClients::start(runs - plain, AGENTS, &alive, "sdk");
    let mut clients = spawn_clients(plain, AGENTS, &alive, "first");
    let mut replace = |sdk: &mut SdkClients| {
        std::thread::sleep(Duration::from_secs(1));
        alive.kill(gateways.remove(0));
        gateways.push(alive.start(folder.path()));
        sdk.tell(&alive);
    };
    alive.wait_for(runs);
    replace(&mut sdk);
    replace(&mut sdk);
    // Some of these live on replicas that are not killed any more.
    clients.extend(spawn_clients(more, AGENTS, &alive, "second"));
    alive.wait_for(runs + more);
    replace(&mut sdk);
    // After a failure of the log no owner counts as dead within a lease: the runs of the third one are taken over
    // before that.
    std::thread::sleep(LEASE + MARGIN);
    server.crash();
    let mut tally = Tally::default();
    for (turn, client) in clients.into_iter().enumerate() {
        let (run, seen) = client.join().unwrap();
        let turn = if turn < plain { turn } else { turn - plain };
        tally.add(&run, AGENTS[turn % AGENTS.len()], &seen, &alive);
    }
    for (run, agent, seen) in sdk.join() {
        tally.add(&run, &agent, &seen, &alive);
    }
    let Tally { longest, slowest, quiet, came_back, lost, finished, tasks_of_the_dead } = tally;
    println!(
        "{} runs ({} through sdk/typescript), 3 replicas and Redis killed: {came_back} clients came back elsewhere, \
         {lost} runs were ended by a survivor, {finished} finished, of which {tasks_of_the_dead} of an A2A agent whose \
         client came back; the longest pause was {longest:?} of {slowest}, and {quiet:?} before the first \
         kill",
        runs + more,
        runs - plain
    );
    assert_eq!(lost + finished, runs + more, "no run ended otherwise");
    assert!(lost > 0 && tasks_of_the_dead > 0, "the kills hit nobody");
    // A machine that has much other work to do is late without any kill, and the more so where several processes have to
    // do something one after another: the old log is read, the agent asked, the client served.
    let late = quiet.saturating_sub(2 * SPEECH.pace) * 3;
    assert!(longest < LEASE + MARGIN + late, "the longest pause was {longest:?}, {quiet:?} without a kill");
}
