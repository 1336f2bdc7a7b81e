//! Many runs at once on replicas that die or leave: how long clients wait, and that none loses anything.
//!
//! | test | goal |
//! |---|---|
//! | replicas are killed one after another | R3 |
//! | one of two replicas is told to stop; three are replaced one after another | R11 |
//! | all replicas are killed and started again | R20 |
//!
//! `AQUEDUCT_SCALE_RUNS` is the number of runs: a few in CI, 1,000 in the nightly tier. Bounds in seconds allow for a
//! machine that is late by itself, which is measured before the first fault.

#![expect(clippy::print_stdout, reason = "the figures are what one runs these tests for")]

mod killed;
mod left;
mod restarted;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::runlog::replicas::{Alive, Seen, Speech, check, spawn_clients_slowly, texts, whole};

/// Runs by default.
const RUNS: usize = 60;

/// What the agents of all runs together say in a second: as much as two cores carry in a build that is not optimised.
const WORDS_PER_SECOND: u32 = 400;

/// The pause between two clients that begin.
const BETWEEN: Duration = Duration::from_millis(30);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn runs() -> usize {
    number("AQUEDUCT_SCALE_RUNS", RUNS)
}

/// A speech of at least `lasts`, beyond the time in which all clients begin.
fn speech(runs: usize, lasts: Duration) -> Speech {
    let pace = (Duration::from_secs(1) * u32::try_from(runs).unwrap() / WORDS_PER_SECOND)
        .max(Duration::from_millis(250));
    let beginning = 2 * BETWEEN * u32::try_from(runs).unwrap() + Duration::from_secs(10);
    let words = (beginning + lasts).as_millis() / pace.as_millis();
    Speech { words: usize::try_from(words).unwrap(), pace }
}

fn spawn(
    runs: usize,
    agents: &'static [&'static str],
    alive: &Alive,
    prefix: &str,
) -> Vec<JoinHandle<(String, Seen)>> {
    let clients = spawn_clients_slowly(runs, agents, alive, prefix, BETWEEN);
    alive.wait_for_words(runs);
    clients
}

/// What the clients of a trial saw.
#[derive(Default)]
struct Tally {
    /// Pauses before the first event after coming back.
    gaps: Vec<Duration>,
    /// The longest pause before the first fault.
    quiet: Duration,
    came_back: usize,
}

impl Tally {
    /// Joins clients, each of which must have the whole answer, once.
    fn of(clients: Vec<JoinHandle<(String, Seen)>>, alive: &Alive, speech: Speech) -> (Self, Vec<Seen>) {
        let (mut tally, mut all) = (Self::default(), Vec::new());
        for client in clients {
            let (run, seen) = client.join().unwrap();
            finished(&run, &seen, speech);
            tally.add(&run, &seen, alive);
            all.push(seen);
        }
        tally.gaps.sort_unstable();
        (tally, all)
    }

    fn add(&mut self, run: &str, seen: &Seen, alive: &Alive) {
        check(run, seen, &whole(&alive.any(0), run));
        self.gaps.extend(&seen.gaps);
        self.quiet = self.quiet.max(seen.quiet_pause);
        self.came_back += usize::from(seen.connections > 0);
    }

    /// The gap that so many of a hundred stay below.
    fn percentile(&self, percent: usize) -> Duration {
        let last = self.gaps.len().saturating_sub(1);
        self.gaps.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// How much later than `pace` the machine is without any fault, times what happens one after another after one.
    fn late(&self, pace: Duration) -> Duration {
        self.quiet.saturating_sub(2 * pace) * 3
    }
}

fn finished(run: &str, seen: &Seen, speech: Speech) {
    let end = seen.events.last().unwrap();
    assert_eq!(end["type"], "RUN_FINISHED", "{run}: {end}");
    assert!(texts(&seen.events).contains(&speech.text()), "{run}: {:?}", texts(&seen.events));
}

fn since(then: Instant, at: Option<Instant>) -> Duration {
    at.map_or(Duration::MAX, |at| at.saturating_duration_since(then))
}
