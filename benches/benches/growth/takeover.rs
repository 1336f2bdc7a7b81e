//! A thousand runs of a killed replica, on Redis: the CPU that their takeover costs the other replica and the server.
//!
//! The agent is in the process and finds its work by a checkpoint, so the figures contain no calls of a remote agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_benches::process::{Process, cpu_of, float};
use aqueduct_benches::redis::Server;
use aqueduct_core::agent::{AgentRequest, Checkpoint, SourceStream, Takeover};
use aqueduct_core::service::{Caller, RunService as _};
use aqueduct_core::{Agent, RunInput, SourceEvent, Update};
use aqueduct_runlog::{RedisConfig, RedisLog, RunLog};
use aqueduct_runs::{Runs, Settings};
use futures_util::{StreamExt as _, stream};

use crate::Failure;

const RUNS: usize = 1_000;
/// Texts of a run before its replica is killed.
const TEXTS: usize = 100;
const TEXT: &str = "some twenty bytes, ok";
const LEASE: Duration = Duration::from_secs(2);

/// Prints the CPU of a takeover.
pub(crate) fn report() -> Result<(), Failure> {
    println!("\ntakeover of {RUNS} runs of {TEXTS} texts each, Redis");
    println!("{:<12} {:>16} {:>16} {:>12}", "round", "replica CPU, s", "server CPU, s", "clock, s");
    for round in 1..=3 {
        let Some(server) = Server::start() else {
            println!("not measured: install the package `redis-server`");
            return Ok(());
        };
        let url = server.url();
        let mut owner = Process::own(&["owner", &url]);
        owner.line();
        drop(owner);
        std::thread::sleep(LEASE + Duration::from_secs(1));
        let used = server.cpu();
        let mut heir = Process::own(&["heir", &url]);
        let line = heir.line();
        let server_cpu = float(server.cpu() - used) / 1e9;
        let figures: Vec<f64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let [cpu, clock] = figures.as_slice() else { return Err(format!("no figures: {line}").into()) };
        println!("{round:<12} {cpu:>16.2} {server_cpu:>16.2} {clock:>12.2}");
    }
    Ok(())
}

/// An agent that finds its work by its checkpoint, and finishes it.
struct Resumable;

impl Agent for Resumable {
    fn run(&self, _: AgentRequest) -> SourceStream {
        let checkpoint = SourceEvent::Checkpoint(Checkpoint(serde_json::json!({ "task": 7 })));
        let texts = (0..TEXTS).map(|_| SourceEvent::from(Update::text(TEXT).in_message("m")));
        Box::pin(stream::iter([checkpoint].into_iter().chain(texts)).chain(stream::pending()))
    }

    fn can_resume(&self, _: &Checkpoint) -> bool {
        true
    }

    fn resume(&self, _: AgentRequest, takeover: Takeover) -> SourceStream {
        let whole = vec![Update::text(TEXT.repeat(TEXTS + 1)).in_message("m").snapshot().last().into()];
        let (rest, _) = takeover.history.deduplicate(whole, |_| false);
        Box::pin(stream::iter(rest).chain(stream::iter([SourceEvent::finished()])))
    }
}

fn engine(url: &str) -> Result<Runs, Failure> {
    let log: Arc<dyn RunLog> = Arc::new(RedisLog::new(&RedisConfig::new(url))?);
    let settings = Settings::default().with_lease(LEASE);
    Ok(Runs::builder().agent("agent", Resumable).shared_log(log).settings(settings).build())
}

/// Starts all runs, prints a line when the log has their texts, and waits to be killed.
pub(crate) fn run_owner(url: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (runs, caller) = (engine(url)?, Caller::default());
        let mut watchers = Vec::new();
        for run in 0..RUNS {
            let input = RunInput::prompt(format!("thread-{run}"), format!("run-{run}"), "go");
            let started = runs.start(&caller, "agent", input).await?;
            // The start of the run and of its block come before the texts.
            watchers.push(started.events.skip(TEXTS + 1));
        }
        let mut seen = Vec::new();
        for mut watcher in watchers {
            watcher.next().await;
            seen.push(watcher);
        }
        println!("ready");
        std::future::pending::<()>().await;
        drop(seen);
        Ok(())
    })
}

/// Takes over all runs, and prints its CPU time and the time of the clock in seconds.
pub(crate) fn run_heir(url: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let runs = engine(url)?;
        let (begun, used) = (Instant::now(), cpu_of(std::process::id()));
        loop {
            runs.sweep_once().await?;
            let taken = usize::try_from(runs.metrics().taken_over())?;
            if taken >= RUNS && runs.active_runs() == 0 {
                break;
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("{taken} of {RUNS} runs were taken over").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let cpu = float(cpu_of(std::process::id()) - used) / 1e9;
        println!("{cpu} {}", begun.elapsed().as_secs_f64());
        Ok(())
    })
}
