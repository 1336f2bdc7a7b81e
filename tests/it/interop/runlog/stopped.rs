//! Takeover races with a real process: the old owner is stopped (SIGSTOP) in the middle of appending, its runs are
//! taken over, and it continues (SIGCONT) while the new owner appends.
//!
//! The old owner is this very program, started again with [`OWNER`] set: see [`old_owner`].

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::testing::meta;
use aqueduct_runlog::{Follow, Lease, LogLimits, RedisConfig, RedisLog, RunLog};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use super::races::write_until_fenced;
use super::server::Server;
use super::{HELD, LAPSED, end, said, say};

/// Where the log is, for the old owner.
const OWNER: &str = "AQUEDUCT_RACE_LOG";
const PREFIX: &str = "stopped";
const ROUNDS: usize = 40;
/// Runs that are taken over while their owner is stopped.
const RUNS: usize = 25;
/// Events of the new owner before the old one continues, and after.
const BEFORE: u64 = 2;
const AFTER: u64 = 3;

fn name(round: usize, run: usize) -> String {
    format!("race-{round}-{run}")
}

/// Not a test of its own: the other process. Appends to the runs of each round until it has lost them all, and prints
/// how many events of each were acknowledged.
#[tokio::test]
async fn old_owner() {
    let Ok(url) = std::env::var(OWNER) else { return };
    let config = RedisConfig { prefix: PREFIX.to_owned(), ..RedisConfig::new(url) };
    let log = Arc::new(RedisLog::new(&config).unwrap());
    for round in 0..ROUNDS {
        let opened = join_all((0..RUNS).map(|run| log.open(meta(&name(round, run)), LAPSED))).await;
        println!("\nbegun");
        let leases = opened.into_iter().map(Result::unwrap);
        let written = join_all(leases.map(|lease| write_until_fenced(Arc::clone(&log), lease))).await;
        let written: Vec<String> = written.iter().map(u64::to_string).collect();
        println!("\nwritten {}", written.join(" "));
    }
}

/// The old owner, as its successor sees it.
struct Owner {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A stopped process dies of it too.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Owner {
    fn start(server: &Server) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "interop::runlog::stopped::old_owner"])
            .env(OWNER, server.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// What follows that word on the next line that begins with it.
    fn hear(&mut self, word: &str) -> String {
        self.lines
            .find_map(|line| line.unwrap().strip_prefix(word).map(str::to_owned))
            .unwrap_or_else(|| panic!("the old owner ended before it said `{word}`"))
    }

    fn signal(&self, name: &str, is_there: impl Fn(char) -> bool) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next().unwrap()
        };
        while !is_there(state()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(&self) {
        self.signal("-STOP", |state| state == 'T');
    }

    fn go_on(&self) {
        self.signal("-CONT", |state| state != 'T');
    }
}

/// A run that was taken over.
struct Taken {
    lease: Lease,
    /// The last event of the old owner.
    fence: u64,
    shown: JoinHandle<Vec<String>>,
}

impl Taken {
    async fn new(log: &RedisLog, watching: Arc<RedisLog>, run: RunId) -> Self {
        let shown = tokio::spawn(texts(watching, run.clone()));
        let lease = log.take_over(&run, Timestamp(1), HELD).await.unwrap();
        let fence = log.state(&run).await.unwrap().head;
        Self { lease, fence, shown }
    }

    async fn write(&self, log: &RedisLog, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            let head = log.append(&self.lease, vec![say("new", number)], Timestamp(2)).await.unwrap();
            assert_eq!(head, self.fence + number, "{:?}: somebody else appended", self.lease);
        }
    }

    /// Ends it, and compares what is stored and what was shown with what may be there.
    async fn check(self, log: Arc<RedisLog>, acknowledged: u64) -> u64 {
        log.append(&self.lease, vec![end()], Timestamp(2)).await.unwrap();
        let run = self.lease.run_id;
        // The last one may have been stored without the owner hearing of it in time.
        let heard = acknowledged == self.fence || acknowledged + 1 == self.fence;
        assert!(heard, "{run:?}: {acknowledged} acknowledged, {} stored", self.fence);
        let old = (1..=self.fence).map(|number| said(&say("old", number)));
        let new = (1..=BEFORE + AFTER).map(|number| said(&say("new", number)));
        let wanted: Vec<String> = old.chain(new).chain([said(&end())]).collect();
        assert_eq!(self.shown.await.unwrap(), wanted, "{run:?}: what was shown");
        assert_eq!(texts(log, run.clone()).await, wanted, "{run:?}: what is stored");
        self.fence
    }
}

async fn texts(log: Arc<RedisLog>, run: RunId) -> Vec<String> {
    Follow::new(log as Arc<dyn RunLog>, run, 0).map(|event| said(&event.unwrap().event)).collect().await
}

/// 1,000 runs whose owner is stopped, taken over, and continued: nothing of it is stored or shown after the fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_stopped_writes_nothing_when_it_goes_on() {
    let server = Server::start();
    let log = || Arc::new(server.log(PREFIX, LogLimits::default()));
    let (new, watching) = (log(), log());
    let mut owner = Owner::start(&server);
    let mut before = 0;
    for round in 0..ROUNDS {
        owner.hear("begun");
        tokio::time::sleep(Duration::from_millis(u64::try_from(round).unwrap() % 10 * 2)).await;
        owner.stop();
        let take = |run| Taken::new(&new, Arc::clone(&watching), RunId::from(name(round, run)));
        let taken = join_all((0..RUNS).map(take)).await;
        join_all(taken.iter().map(|run| run.write(&new, 1..=BEFORE))).await;
        owner.go_on();
        join_all(taken.iter().map(|run| run.write(&new, BEFORE + 1..=BEFORE + AFTER))).await;
        let written = owner.hear("written ");
        let written: Vec<u64> = written.split(' ').map(|count| count.parse().unwrap()).collect();
        assert_eq!(written.len(), RUNS);
        let checks = taken.into_iter().zip(written).map(|(run, count)| run.check(Arc::clone(&new), count));
        before += join_all(checks).await.into_iter().sum::<u64>();
    }
    println!("{} races, {ROUNDS} stops: {before} events before the fences, none after", ROUNDS * RUNS);
    assert!(before > 0, "the old owner wrote nothing");
}
