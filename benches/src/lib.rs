//! Shared code of the benches: measures time and allocations per event, and prints them as a table.
//!
//! Each bench is a program of its own (`harness = false`): the figures are nanoseconds and allocations per event over streams
//! of very different lengths, and ratios to peers in the same run; statistics of repeated micro-runs do not provide those. A
//! figure is the best of several rounds, in CPU time of the thread: on a shared machine the rest is noise.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

pub mod pace;
pub mod process;
pub mod redis;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds per figure.
const ROUNDS: usize = 5;

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Events in a round.
    pub events: usize,
    /// The CPU time of the best round.
    pub time: Duration,
    /// Allocations of one round.
    pub allocations: u64,
}

impl Figure {
    /// Returns nanoseconds per event.
    pub fn nanoseconds(&self) -> f64 {
        self.time.as_secs_f64() * 1e9 / as_f64(self.events)
    }

    /// Returns allocations per event.
    pub fn allocations(&self) -> f64 {
        as_f64(usize::try_from(self.allocations).unwrap_or(usize::MAX)) / as_f64(self.events)
    }

    /// Returns events per second.
    pub fn rate(&self) -> f64 {
        as_f64(self.events) / self.time.as_secs_f64()
    }
}

/// Measures `work` over inputs that `prepare` creates for each round. `events` is the number of events of one round.
pub fn measure<I, O>(events: usize, mut prepare: impl FnMut() -> I, mut work: impl FnMut(I) -> O) -> Figure {
    let mut time = Duration::MAX;
    for _ in 0..ROUNDS {
        let input = prepare();
        let start = cpu_time();
        let output = work(input);
        time = time.min(cpu_time().saturating_sub(start));
        drop(output);
    }
    let input = prepare();
    let mut output = None;
    let counted = allocation_counter::measure(|| output = Some(work(input)));
    drop(output);
    Figure { events, time, allocations: counted.count_total }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Prints the head of a table.
pub fn print_head(title: &str) {
    println!("\n{title}");
    println!("{:<44} {:>10} {:>10} {:>12} {:>14}", "case", "events", "ns/event", "allocs/event", "events/s");
}

/// Prints one figure.
pub fn print_figure(case: &str, figure: &Figure) {
    println!(
        "{case:<44} {:>10} {:>10.1} {:>12.4} {:>14.0}",
        figure.events,
        figure.nanoseconds(),
        figure.allocations(),
        figure.rate()
    );
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
