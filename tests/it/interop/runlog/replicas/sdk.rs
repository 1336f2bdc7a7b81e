//! Clients through `sdk/typescript`, all in one process of Node.js, behind a load balancer of their own
//! (`tests/interop/runlog/clients.mjs`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::gateways::Alive;
use super::stream::Seen;
use crate::interop::variable;

/// The process, and the thread that reads its output.
pub(super) struct SdkClients {
    process: Child,
    reader: JoinHandle<Vec<(String, String, Seen)>>,
}

impl SdkClients {
    /// Begins runs; the agents take turns.
    pub(super) fn start(runs: usize, agents: &[&str], alive: &Alive, prefix: &str) -> Self {
        let mut process = Command::new("node")
            .arg(variable("AQUEDUCT_INTEROP_DIR").join("runlog/clients.mjs"))
            .arg("--project")
            .arg(variable("AQUEDUCT_INTEROP_AGUI_1_0"))
            .args(["--agents", &agents.join(","), "--runs", &runs.to_string(), "--prefix", prefix])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let begun = alive.begun.clone();
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
            let ended = lines.filter_map(|line: Value| {
                if line.get("begun").is_some() {
                    begun.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Some(ended(&line))
            });
            ended.collect()
        });
        let mut clients = Self { process, reader };
        clients.tell(alive);
        clients
    }

    /// Sends the list of live gateways.
    pub(super) fn tell(&mut self, alive: &Alive) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{}", json!(alive.all())).unwrap();
    }

    /// What each client has seen: its run, its agent, its stream.
    pub(super) fn join(mut self) -> Vec<(String, String, Seen)> {
        let seen = self.reader.join().unwrap();
        assert!(self.process.wait().unwrap().success(), "the clients failed");
        seen
    }
}

fn ended(line: &Value) -> (String, String, Seen) {
    let events = line["events"].as_array().unwrap().clone();
    let is_success = events.last().is_some_and(|event| event["type"] == "RUN_FINISHED");
    assert!(!is_success || line.get("failure").is_none(), "{}: {}", line["run"], line["failure"]);
    let seen = Seen {
        events,
        longest_pause: Duration::from_secs_f64(line["longestPauseMs"].as_f64().unwrap() / 1000.0),
        connections: usize::try_from(line["cuts"].as_u64().unwrap()).unwrap(),
        ..Seen::default()
    };
    (line["run"].as_str().unwrap().to_owned(), line["agent"].as_str().unwrap().to_owned(), seen)
}
