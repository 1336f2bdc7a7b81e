//! The hot paths under an instruction counter: `cargo xtask bench counts`.
//!
//! ```text
//! for each case:  prepare ──► counted(work) ──► one line on the standard output: name, tab, number of events
//!                             └ callgrind collects inside of this function alone, and writes one file per call
//! ```
//!
//! Invariants: one thread; the same work in every run; nothing but the work happens inside of [`counted`]. The program measures
//! nothing by itself and knows no bound: `xtask` divides the counts by the events and compares them with
//! `benches/counts/baseline.toml`.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

mod a2a_frames;
mod a2a_server;
mod log;
mod stream;

use std::hint::black_box;

/// The reason why a case could not run.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Events of a case: enough that opening a run is below a hundredth of the figure.
pub(crate) const EVENTS: usize = 2_000;

fn main() -> Result<(), Failure> {
    a2a_frames::run();
    stream::run();
    log::run()?;
    a2a_server::run()
}

/// Runs the work of a case. `events` is the divisor of its count. With an argument, only the case of that name runs.
pub(crate) fn case<T>(name: &str, events: usize, mut work: impl FnMut() -> T) {
    if std::env::args().nth(1).is_some_and(|wanted| wanted != name) {
        return;
    }
    counted(&mut || drop(black_box(work())));
    println!("{name}\t{events}");
}

/// The function whose instructions are counted. `xtask` names it to callgrind.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Without an instruction behind it the call would be a jump, and callgrind would not see the function return.
    black_box(());
}
