//! Two replicas on one Redis: each appends to half of the runs and watches the runs of the other.
//!
//! ```text
//! replica 0: 500 runs ── append ──► Redis ── notifications ──► replica 1: a watcher per run
//! replica 1: 500 runs ── append ──►       ── notifications ──► replica 0: a watcher per run
//! ```
//!
//! * `closed`: every run appends one event as soon as the last was acknowledged: the rate of the whole;
//! * `paced`: every run appends a fixed number of events per second: the delay from before the append until the watcher at the
//!   other replica has the event.
//!
//! Replicas and server are processes. CPU is what the kernel charged to their threads, which a busy machine changes less than
//! it changes the rate.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_benches::pace::{now, sent_at};
use aqueduct_benches::process::{Process, cpu_of, float};
use aqueduct_benches::redis::Server;
use aqueduct_core::{BlockEvent, RunId, RunInfo, RunOutcome, SourceEvent, StreamContext, Timestamp, Update};
use aqueduct_runlog::{Follow, RedisConfig, RedisLog, RunLog};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;

use crate::{FOREVER, Failure, meta};

/// Runs of both replicas together.
const RUNS: usize = 1_000;
/// Rounds of a case.
const ROUNDS: usize = 3;
/// The time until both replicas have opened their runs and their watchers wait.
const PREPARATION: Duration = Duration::from_secs(4);

/// Prints both cases.
pub(crate) fn report() -> Result<(), Failure> {
    println!("\n{RUNS} runs on two replicas, each run watched at the other replica, one event per append");
    println!(
        "{:<24} {:>9} {:>10} {:>9} {:>9} {:>9} {:>12} {:>12}",
        "case", "events", "events/s", "p50 ms", "p99 ms", "max ms", "replicas us", "server us"
    );
    for round in 0..ROUNDS {
        play("closed", round, 100, 0)?;
    }
    for round in 0..ROUNDS {
        play("paced, 10,000 events/s", round, 100, 100)?;
    }
    Ok(())
}

/// Plays one round. `pause` is the time between two events of a run in milliseconds; 0 appends as fast as possible.
fn play(case: &str, round: usize, deltas: usize, pause: u64) -> Result<(), Failure> {
    let Some(server) = Server::start() else {
        println!("{case} is not measured: install the package `redis-server`");
        return Ok(());
    };
    let begin = now() + u64::try_from(PREPARATION.as_nanos())?;
    let [deltas, pause, begin] = [deltas.to_string(), pause.to_string(), begin.to_string()];
    let url = server.url();
    let start = |index: &str| Process::own(&["replica", &url, index, &deltas, &pause, &begin]);
    let mut replicas = [start("0"), start("1")];
    for replica in &mut replicas {
        replica.line();
    }
    let used = server.cpu();
    let figures: Vec<Figures> = replicas
        .iter_mut()
        .map(|replica| Figures::read(&replica.line()))
        .collect::<Option<_>>()
        .ok_or("no figures")?;
    let server_cpu = server.cpu() - used;
    let events: u64 = figures.iter().map(|one| one.events).sum();
    let most = |of: fn(&Figures) -> u64| float(figures.iter().map(of).max().unwrap_or(0));
    let rate = float(events) / (most(|one| one.elapsed) / 1e9);
    let cpu: u64 = figures.iter().map(|one| one.cpu).sum();
    let per_event = |cpu: u64| float(cpu) / float(events) / 1e3;
    println!(
        "{:<24} {events:>9} {rate:>10.0} {:>9.2} {:>9.2} {:>9.2} {:>12.2} {:>12.2}",
        format!("{case} #{}", round + 1),
        most(|one| one.half) / 1e6,
        most(|one| one.high) / 1e6,
        most(|one| one.max) / 1e6,
        per_event(cpu),
        per_event(server_cpu),
    );
    Ok(())
}

/// What a replica prints at its end, in nanoseconds.
struct Figures {
    events: u64,
    elapsed: u64,
    cpu: u64,
    half: u64,
    high: u64,
    max: u64,
}

impl Figures {
    fn read(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let [events, elapsed, cpu, half, high, max] = numbers.try_into().ok()?;
        Some(Self { events, elapsed, cpu, half, high, max })
    }
}

/// Runs a replica: the address of the server, its index, the events per run, the pause between them, the time to begin.
pub(crate) fn run_replica(arguments: &[&str]) -> Result<(), Failure> {
    let [url, index, deltas, pause, begin] = arguments else { return Err("arguments are missing".into()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let play = Play {
        index: index.parse()?,
        deltas: deltas.parse()?,
        pause: Duration::from_millis(pause.parse()?),
        begin: begin.parse()?,
    };
    runtime.block_on(async {
        let log: Arc<dyn RunLog> = Arc::new(RedisLog::new(&RedisConfig::new(*url))?);
        play.run(log).await
    })
}

#[derive(Clone, Copy)]
struct Play {
    index: usize,
    deltas: usize,
    pause: Duration,
    begin: u64,
}

impl Play {
    async fn run(self, log: Arc<dyn RunLog>) -> Result<(), Failure> {
        let leases =
            try_join_all((0..RUNS / 2).map(|run| log.open(meta(&format!("{}-{run}", self.index)), FOREVER)))
                .await?;
        let watched = (0..RUNS / 2).map(|run| RunId::from(format!("{}-{run}", 1 - self.index)));
        let watchers: Vec<_> = watched.map(|run| tokio::spawn(watch(Arc::clone(&log), run))).collect();
        tokio::time::sleep(Duration::from_nanos(self.begin.saturating_sub(now()))).await;
        println!("begun");
        let (begun, used) = (now(), cpu_of(std::process::id()));
        let writers: Vec<_> = leases
            .into_iter()
            .enumerate()
            .map(|(run, lease)| {
                let log = Arc::clone(&log);
                tokio::spawn(async move { self.write(log, run, lease).await })
            })
            .collect();
        for writer in writers {
            writer.await??;
        }
        let mut delays = Vec::new();
        for watcher in watchers {
            delays.extend(watcher.await??);
        }
        let (elapsed, cpu) = (now() - begun, cpu_of(std::process::id()) - used);
        delays.sort_unstable();
        let at = |share: usize| delays.get((delays.len() * share / 100).min(delays.len() - 1)).copied();
        let [half, high, max] = [50, 99, 100].map(|share| at(share).unwrap_or_default());
        println!("{} {elapsed} {cpu} {half} {high} {max}", delays.len());
        Ok(())
    }

    /// Appends one event at a time. Texts contain the time before their append.
    async fn write(
        self,
        log: Arc<dyn RunLog>,
        run: usize,
        lease: aqueduct_runlog::Lease,
    ) -> Result<(), Failure> {
        let mut context = StreamContext::new(RunInfo::new("thread", "run"));
        // The runs take their turns, as independent streams do.
        let mut tick = tokio::time::Instant::now() + self.pause.mul_f64(share(run));
        for _ in 0..self.deltas {
            if !self.pause.is_zero() {
                tokio::time::sleep_until(tick).await;
                tick += self.pause;
            }
            context.handle_update(Update::text(format!("at:{:020}", now())).in_message("message-1"))?;
            append(&*log, &lease, &mut context).await?;
        }
        context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None })?;
        append(&*log, &lease, &mut context).await
    }
}

fn share(run: usize) -> f64 {
    float(run as u64) / float(RUNS as u64 / 2)
}

async fn append(
    log: &dyn RunLog,
    lease: &aqueduct_runlog::Lease,
    context: &mut StreamContext,
) -> Result<(), Failure> {
    let events: Vec<BlockEvent> = std::iter::from_fn(|| context.poll_event()).collect();
    log.append(lease, events, Timestamp(1)).await?;
    Ok(())
}

/// Follows a run of the other replica to its end, and returns the delays of its texts in nanoseconds.
async fn watch(log: Arc<dyn RunLog>, run: RunId) -> Result<Vec<u64>, Failure> {
    while log.state(&run).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut follow = Follow::new(log, run, 0);
    let (mut delays, mut last) = (Vec::new(), 0);
    while let Some(event) = follow.next().await {
        let event = event?;
        if event.number != last + 1 {
            return Err("an event was lost or repeated".into());
        }
        last = event.number;
        if let BlockEvent::BlockDelta { delta, .. } = &event.event
            && let Some(sent) = sent_at(delta.as_bytes())
        {
            delays.push(now().saturating_sub(sent));
        }
    }
    Ok(delays)
}
