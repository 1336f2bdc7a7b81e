//! The hot paths under an instruction counter: `cargo xtask bench counts`.
//!
//! ```text
//! counts          the names of all cases
//! counts <case>   prepare ──► counted(work) ──► the number of events on the standard output
//!                             └ callgrind collects inside of this function alone
//! ```
//!
//! Invariants: one thread; one case per process, so that no case finds a heap that another one has shaped (a list that grows in
//! place or is copied differs by a fifth); the same work in every run; nothing but the work happens inside of [`counted`]. The program measures
//! nothing by itself and knows no bound: `xtask` divides the counts by the events and compares them with
//! `benches/counts/baseline.toml`.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

mod a2a_frames;
mod a2a_server;
mod log;
mod stream;

use std::hint::black_box;

use aqueduct_benches_counts::Failure;

/// Events of a case: enough that opening a run is below a hundredth of the figure.
pub(crate) const EVENTS: usize = 2_000;

fn main() -> Result<(), Failure> {
    a2a_frames::run();
    stream::run();
    log::run()?;
    a2a_server::run()
}

/// Returns `true` if the case is the one to run. Without an argument the program runs none and prints the names of all.
pub(crate) fn is_wanted(name: &str) -> bool {
    let wanted = std::env::args().nth(1);
    if wanted.is_none() {
        println!("{name}");
    }
    wanted.is_some_and(|wanted| wanted == name)
}

/// Runs the work of a case that is wanted. `events` is the divisor of its count.
pub(crate) fn case<T>(events: usize, mut work: impl FnMut() -> T) {
    counted(&mut || drop(black_box(work())));
    println!("{events}");
}

/// The function whose instructions are counted. `xtask` names it to callgrind.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Without an instruction behind it the call would be a jump, and callgrind would not see the function return.
    black_box(());
}
