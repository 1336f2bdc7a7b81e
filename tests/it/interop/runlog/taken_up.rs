//! Runs of real A2A agents whose gateway is killed with -9 in the middle: another gateway takes them up (Redis), or the
//! same one when it is started again (disk). Every client ends with the whole answer.

use std::path::Path;

use aqueduct_tests::process::Program;
use serde_json::Value;

use super::replicas::{Alive, Seen, check, whole};
use super::server::Server;
use crate::interop::variable;

/// Runs at a time, and what each counts to: 40 ms a word.
const RUNS: usize = 8;
const WORDS: usize = 100;

/// A scripted agent on the SDK.
pub(super) fn agent() -> Program {
    let python = variable("AQUEDUCT_INTEROP_A2A_PY_1_3");
    let script = variable("AQUEDUCT_INTEROP_A2A_SCRIPTS").join("server_1_3.py");
    Program::start(python, &[script.to_str().unwrap()])
}

fn configure(folder: &Path, agent: &Program, log: &str) {
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[log]\nlevel = \"error\"\n[runs]\nlease = \"2s\"\n{log}\n\
         [agents.slow]\na2a = {{ url = \"{}\" }}\n",
        agent.address
    );
    std::fs::write(folder.join("aqueduct.toml"), config).unwrap();
}

fn answer(events: &[Value]) -> String {
    let contents = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    contents.map(|event| event["delta"].as_str().unwrap()).collect()
}

/// Starts runs on a gateway, kills it once all agents have spoken, and lets `revive` say where they go on.
fn survive(gateway: Program, alive: &Alive, revive: impl FnOnce() -> Option<Program>) {
    let clients: Vec<_> = (0..RUNS)
        .map(|turn| {
            let (alive, run) = (alive.clone(), format!("kept-{turn}"));
            std::thread::spawn(move || {
                let seen = Seen::follow_words(&run, &alive, 0, &format!("many {WORDS} 40"));
                (run, seen)
            })
        })
        .collect();
    alive.wait_for_words(RUNS);
    alive.kill(gateway);
    let revived = revive();
    let words: Vec<String> = (0..WORDS).map(|number| number.to_string()).collect();
    let wanted = words.join(" ") + " ";
    for client in clients {
        let (run, seen) = client.join().unwrap();
        let end = seen.events.last().unwrap();
        assert_eq!(end["type"], "RUN_FINISHED", "{run}: {end}");
        assert_eq!(answer(&seen.events), wanted, "{run}");
        assert!(seen.connections > 0, "{run} did not notice");
        check(&run, &seen, &whole(&alive.any(0), &run));
        println!("{run}: the longest pause was {:?}", seen.longest_pause);
    }
    drop(revived);
}

#[test]
fn another_gateway_takes_up_the_runs() {
    let (agent, server) = (agent(), Server::start());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redis-url"), server.url()).unwrap();
    configure(folder.path(), &agent, "log = \"redis\"\nredis = \"file:redis-url\"");
    let alive = Alive::default();
    let owner = alive.start(folder.path());
    let other = alive.start(folder.path());
    // All begin at the first one.
    survive(owner, &alive, || Some(other));
}

#[test]
fn a_gateway_takes_up_its_own_runs_from_disk() {
    let agent = agent();
    let folder = tempfile::tempdir().unwrap();
    configure(
        folder.path(),
        &agent,
        &format!("log = \"disk\"\nfolder = \"{}/runs\"", folder.path().display()),
    );
    let alive = Alive::default();
    let first = alive.start(folder.path());
    survive(first, &alive, || Some(alive.start(folder.path())));
}
