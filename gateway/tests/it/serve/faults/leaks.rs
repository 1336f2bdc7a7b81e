//! Ten thousand runs that fail, in every way, against a gateway in a process of its own: afterwards its tasks and
//! sockets are as many as before the first of them, and its memory is what it was after a warm-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;

use super::super::support::{input, payloads};
use super::cases::{self, REFUSING};
use crate::operation::Process;

/// Runs before memory is measured: by then the log is full of ended runs, and every buffer has its size.
const WARM_UP: usize = 1_000;
const RUNS: usize = 10_000;
/// Runs at once.
const WORKERS: usize = 32;
/// What memory may differ by. The allocator returns pages as it likes; a leak of a kilobyte per run would be 10 MiB.
const MEMORY_BOUND_KIB: u64 = 4 * 1024;
/// The cancel at an agent that failed may take ten seconds; no assertion depends on speed.
const SETTLED_WITHIN: Duration = Duration::from_secs(40);

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: u64,
    files: usize,
}

struct Gateway {
    process: Process,
    agents: Vec<String>,
    next: AtomicUsize,
}

impl Gateway {
    /// What it holds now, asked by a connection that is closed again.
    async fn held(&self) -> Held {
        let client = Client::new(ClientConfig::default()).unwrap();
        let request = Request::get(format!("{}/metrics", self.process.root()))
            .header("connection", "close")
            .body(Bytes::new())
            .unwrap();
        let response = client.request(request).await.unwrap();
        let metrics = String::from_utf8(response.body().to_vec()).unwrap();
        let tasks = metrics.lines().find_map(|line| line.strip_prefix("aqueduct_tasks ")).unwrap();
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count();
        Held { tasks: tasks.parse().unwrap(), files }
    }

    /// Waits until it holds no more than that.
    async fn settled(&self, before: Held) {
        let begun = Instant::now();
        loop {
            let held = self.held().await;
            if held.tasks <= before.tasks && held.files <= before.files {
                return;
            }
            assert!(begun.elapsed() < SETTLED_WITHIN, "{held:?} are left, and {before:?} were there before");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Runs the agents in turn, until so many runs have been made.
    async fn run(self: &Arc<Self>, until: usize) {
        let client = Client::new(ClientConfig::default()).unwrap();
        let workers =
            (0..WORKERS).map(|worker| tokio::spawn(Arc::clone(self).work(worker, until, client.clone())));
        for worker in join_all(workers).await {
            worker.unwrap();
        }
        self.next.store(until, Ordering::Relaxed);
    }

    async fn work(self: Arc<Self>, worker: usize, until: usize, client: Client) {
        loop {
            let run = self.next.fetch_add(1, Ordering::Relaxed);
            if run >= until {
                return;
            }
            let agent = &self.agents[run % self.agents.len()];
            let mut input = input(&format!("r{run}"), Some("1.0"));
            input["threadId"] = format!("t{worker}").into();
            let response = client.request(self.process.ask(agent, &input)).await.unwrap();
            let text = std::str::from_utf8(response.body()).unwrap();
            let last = payloads(text).pop().unwrap();
            assert_eq!(last["type"], "RUN_ERROR", "{agent}: {text}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_ten_thousand_runs_that_failed() {
    let faults = cases::all();
    let (_upstream, agents) = cases::start(&faults).await;
    // The log keeps twice as many ended runs as may run at once; few, so that the warm-up fills it.
    let toml = format!("[log]\nlevel = \"error\"\n[runs]\nlimit = {}\n{agents}", 2 * WORKERS);
    let gateway = Arc::new(Gateway {
        process: Process::serve("leaks", &[("aqueduct.toml", &toml)], &[]),
        agents: faults.into_iter().map(|fault| fault.agent).chain(REFUSING.map(str::to_owned)).collect(),
        next: AtomicUsize::new(0),
    });
    gateway.held().await;
    let before = gateway.held().await;
    gateway.run(WARM_UP).await;
    gateway.settled(before).await;
    let warm = gateway.memory_kib();
    gateway.run(WARM_UP + RUNS).await;
    gateway.settled(before).await;
    let after = gateway.memory_kib();
    let grown = after.saturating_sub(warm);
    assert!(grown <= MEMORY_BOUND_KIB, "memory grew by {grown} KiB from {warm} KiB");
}
