//! The engine on disk is killed with -9 under load, again and again: what was acknowledged is there afterwards, in order
//! and without gaps, and every run can be ended.
//!
//! A program without the usual harness, because it is its own victim: started with [`VICTIM`] it writes until it is
//! killed. [`KILLS`] says how often; the release check is 200.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test says no"
)]
#![expect(clippy::print_stdout, reason = "it answers the test runner, and tells its killer what is safe")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_runlog::testing::{events, meta};
use aqueduct_runlog::{DiskLog, LogLimits, RunLog as _};

/// The folder of the victim.
const VICTIM: &str = "AQUEDUCT_CRASH_FOLDER";
/// How often to kill.
const KILLS: &str = "AQUEDUCT_KILLS";
const NAME: &str = "acknowledged_events_survive_kill_9";

/// Runs that are written at once.
const RUNS: usize = 8;
/// Texts of a run: more than a victim lives to write.
const TEXTS: usize = 4_000;
/// Kills on one folder.
const FOLDER: u32 = 20;
/// The longest a victim writes.
const LIFE: u64 = 60;
/// A moment after all leases.
const LATER: Timestamp = Timestamp(1_000_000);

fn main() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return write(Path::new(&folder));
    }
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        // Nothing is ignored here.
        if !has("--ignored") {
            println!("{NAME}: test");
        }
        return;
    }
    kill_and_look();
}

/// Writes runs until it is killed, and tells what was acknowledged.
fn write(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = DiskLog::open(folder, LogLimits::default()).unwrap();
        let generation = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let all = events(TEXTS);
        let writers = (0..RUNS).map(|run| {
            let (log, all, id) = (&log, &all, format!("{generation}-{run}"));
            async move {
                let lease = log.open(meta(&id), Timestamp(1)).await.unwrap();
                println!("{id} 0");
                for batch in all[..all.len() - 2].chunks(1 + run) {
                    let head = log.append(&lease, batch.to_vec(), Timestamp(2)).await.unwrap();
                    println!("{id} {head}");
                    std::io::stdout().flush().unwrap();
                }
            }
        });
        futures_util::future::join_all(writers).await;
    });
    panic!("nobody killed it");
}

fn kill_and_look() {
    let kills: u32 = std::env::var(KILLS).map_or(20, |kills| kills.parse().unwrap());
    let mut folder = tempfile::tempdir().unwrap();
    let all = events(TEXTS);
    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mut survived = 0;
    for round in 0..kills {
        if round % FOLDER == FOLDER - 1 {
            // Opening reads all that was written since the first round, and a test build reads slowly.
            folder = tempfile::tempdir().unwrap();
        }
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let acknowledged = kill_one(folder.path(), Duration::from_millis(u64::from(random >> 16) % LIFE));
        survived += acknowledged.values().sum::<u64>();
        look(folder.path(), &all, &acknowledged, round);
    }
    println!("{kills} kills: {survived} acknowledged events, all of them there");
    assert!(survived > 0, "nothing was ever written before the kill");
}

/// What was acknowledged by a victim that was killed some time after it began.
fn kill_one(folder: &Path, lifetime: Duration) -> HashMap<String, u64> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .env(VICTIM, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(victim.stdout.take().unwrap());
    let mut acknowledged = HashMap::new();
    let mut note = |line: &str| {
        // A line that was cut by the kill ends without a break.
        let Some((run, number)) = line.strip_suffix('\n').and_then(|line| line.split_once(' ')) else {
            return;
        };
        acknowledged.insert(run.to_owned(), number.parse().unwrap());
    };
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the victim ended before it was killed");
    note(&line);
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 {
                return lines;
            }
            lines.push(line);
        }
    });
    std::thread::sleep(lifetime);
    victim.kill().unwrap();
    victim.wait().unwrap();
    for line in reader.join().unwrap() {
        note(&line);
    }
    acknowledged
}

/// Everything acknowledged is there, and every run ends.
fn look(folder: &Path, all: &[BlockEvent], acknowledged: &HashMap<String, u64>, round: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = DiskLog::open(folder, LogLimits::default()).unwrap();
        for (run, number) in acknowledged {
            let run = RunId::from(run.as_str());
            let page = log.read(&run, 0, usize::MAX).await.unwrap();
            assert!(
                page.head >= *number,
                "round {round}: {run} was acknowledged to {number}, has {}",
                page.head
            );
            let numbers: Vec<u64> = page.events.iter().map(|event| event.number).collect();
            assert_eq!(numbers, (1..=page.head).collect::<Vec<_>>(), "round {round}: {run}");
            let same = page.events.iter().zip(all).all(|(read, written)| read.event == *written);
            assert!(same, "round {round}: {run} holds something else than was written");
        }
        let open = log.lapsed(LATER, usize::MAX).await.unwrap();
        assert!(open.len() >= acknowledged.len(), "round {round}: runs that were open have lapsed leases");
        for run in open {
            let lease = log.take_over(&run.meta.run_id, LATER, LATER).await.unwrap();
            log.append(&lease, all[all.len() - 1..].to_vec(), LATER).await.unwrap();
        }
        assert_eq!(log.lapsed(LATER, 1).await, Ok(Vec::new()), "round {round}");
        if round % 10 == 9 {
            log.expire(Timestamp(LATER.0 + 1)).await.unwrap();
        }
    });
}
