//! Gateway processes that share a Redis, and the agent that they ask.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_tests::process::Program;
use tempfile::TempDir;

use super::super::server::Server;
use crate::interop::variable;

pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// What is allowed beyond the lease: a look of the sweeper, the taking over, and coming back.
pub(crate) const MARGIN: Duration = Duration::from_secs(3);

/// The text of the agent, and its pace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speech {
    pub(crate) words: usize,
    pub(crate) pace: Duration,
}

impl Speech {
    /// Its answer.
    pub(crate) fn text(self) -> String {
        let words: Vec<String> = (1..=self.words).map(|word| format!("word{word}")).collect();
        words.join(" ")
    }

    fn script(self) -> String {
        format!(
            "[[step]]\nthinking = \"Hm.\"\n[[step]]\nagent = \"helper\"\ntext = \"I help\"\n\
             [[step]]\npace = \"{}ms\"\ntext = \"{}\"\n",
            self.pace.as_millis(),
            self.text()
        )
    }
}

const PLACE: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n[log]\nlevel = \"error\"\n";
const SLOW: &str = "[agents.slow]\nscript = { file = \"slow.toml\" }\n";

fn folder(speech: Speech, config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("slow.toml"), speech.script()).unwrap();
    std::fs::write(folder.path().join("aqueduct.toml"), config).unwrap();
    folder
}

fn start(folder: &Path) -> Program {
    let config = folder.join("aqueduct.toml");
    let program = variable("AQUEDUCT_INTEROP_GATEWAY");
    Program::start(program, &["serve", "--config", config.to_str().unwrap()])
}

/// Creates a folder with the configuration of a gateway on that Redis, whose agent `slow` is a script.
pub(crate) fn configuration(server: &Server, speech: Speech) -> TempDir {
    configured(server, speech, "")
}

/// As above, with an agent `task` over A2A.
pub(crate) fn with_upstream(server: &Server, speech: Speech, upstream: &Program) -> TempDir {
    configured(server, speech, &task(upstream))
}

/// The same with the lease that gateways have by default.
pub(crate) fn with_upstream_by_default(server: &Server, speech: Speech, upstream: &Program) -> TempDir {
    on_redis(server, speech, &format!("{SLOW}{}", task(upstream)))
}

/// The same with the Redis and the agent at these addresses; `posted` is that agent over AG-UI.
pub(crate) fn task_at(redis: &str, speech: Speech, agent: &str) -> TempDir {
    let agents = agents_at(agent);
    let config = format!("{PLACE}[runs]\nlog = \"redis\"\nredis = \"file:redis-url\"\n{SLOW}{agents}");
    let folder = folder(speech, &config);
    std::fs::write(folder.path().join("redis-url"), redis).unwrap();
    folder
}

fn agents_at(agent: &str) -> String {
    format!(
        "[agents.task]\na2a = {{ url = \"http://{agent}/a2a/slow\" }}\n\
         [agents.posted]\nagui = {{ url = \"http://{agent}/agents/slow\" }}\n"
    )
}

/// The same on disk.
pub(crate) fn on_disk(speech: Speech, upstream: &Program) -> TempDir {
    with_folder(speech, &task(upstream))
}

/// The same with the agent at that address.
pub(crate) fn on_disk_at(speech: Speech, agent: &str) -> TempDir {
    with_folder(speech, &agents_at(agent))
}

fn with_folder(speech: Speech, agents: &str) -> TempDir {
    let folder = folder(speech, "");
    let runs = folder.path().join("runs");
    let config = format!("{PLACE}[runs]\nlog = \"disk\"\nfolder = \"{}\"\n{SLOW}{agents}", runs.display());
    std::fs::write(folder.path().join("aqueduct.toml"), config).unwrap();
    folder
}

fn task(upstream: &Program) -> String {
    format!("[agents.task]\na2a = {{ url = \"http://{}/a2a/slow\" }}\n", host(upstream))
}

fn configured(server: &Server, speech: Speech, more: &str) -> TempDir {
    on_redis(server, speech, &format!("lease = \"{}ms\"\n{SLOW}{more}", LEASE.as_millis()))
}

fn on_redis(server: &Server, speech: Speech, more: &str) -> TempDir {
    let config = format!("{PLACE}[runs]\nlog = \"redis\"\nredis = \"file:redis-url\"\n{more}");
    let folder = folder(speech, &config);
    std::fs::write(folder.path().join("redis-url"), server.url()).unwrap();
    folder
}

/// An A2A agent in a process of its own, which is never killed.
pub(crate) fn upstream(speech: Speech) -> (Program, TempDir) {
    let folder = folder(speech, &format!("{PLACE}{SLOW}"));
    (start(folder.path()), folder)
}

/// The gateways that are alive, by their addresses.
#[derive(Clone, Default)]
pub(crate) struct Alive {
    pub(crate) hosts: Arc<Mutex<Vec<String>>>,
    /// Runs of which a client has seen something.
    pub(crate) begun: Arc<AtomicUsize>,
    /// Runs of which a client has seen some words.
    pub(crate) spoken: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
}

impl Alive {
    pub(crate) fn start(&self, folder: &Path) -> Program {
        let gateway = start(folder);
        self.add(&gateway);
        gateway
    }

    /// The same for a gateway whose files may be limited later: then writes fail, and do not kill it.
    pub(crate) fn start_with_limits(&self, folder: &Path) -> Program {
        let program = variable("AQUEDUCT_INTEROP_GATEWAY");
        let command = format!(
            "trap '' XFSZ; exec {} serve --config {}",
            program.display(),
            folder.join("aqueduct.toml").display()
        );
        let gateway = Program::start("sh", &["-c", &command]);
        self.add(&gateway);
        gateway
    }

    pub(crate) fn add(&self, gateway: &Program) {
        self.hosts.lock().unwrap().push(host(gateway));
    }

    /// Clients do not come to that one any more.
    pub(crate) fn forget(&self, gateway: &Program) {
        self.hosts.lock().unwrap().retain(|alive| *alive != host(gateway));
    }

    /// Any of them, another one for each turn.
    pub(crate) fn any(&self, turn: usize) -> String {
        loop {
            let host = self.hosts.lock().unwrap().iter().cycle().nth(turn).cloned();
            if let Some(host) = host {
                return host;
            }
            // All are dead, and one is about to be started.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn only(gateway: &Program) -> Self {
        let alive = Self::default();
        alive.hosts.lock().unwrap().push(host(gateway));
        alive
    }

    /// Waits until so many runs have begun.
    pub(crate) fn wait_for(&self, runs: usize) {
        while self.begun.load(Ordering::Relaxed) < runs {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the agents of so many runs have emitted something.
    pub(crate) fn wait_for_words(&self, runs: usize) {
        while self.spoken.load(Ordering::Relaxed) < runs {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.hosts.lock().unwrap().clone()
    }

    /// Returns `true` while no gateway was killed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.killed.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn kill(&self, gateway: Program) {
        self.killed.fetch_add(1, Ordering::Relaxed);
        self.forget(&gateway);
        drop(gateway);
    }
}

pub(crate) fn host(gateway: &Program) -> String {
    gateway.address.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

pub(crate) fn signal(gateway: &Program, name: &str) {
    let sent = Command::new("kill").args([name, &gateway.id().to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name}");
}
