//! `simulate`: lives worlds and reports those that break a rule. `cargo xtask simulate` calls it.
#![expect(clippy::print_stdout, reason = "a command line tool talks to its terminal")]

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use aqueduct_tests_simulation::check::Violation;
use aqueduct_tests_simulation::plan::Plan;
use aqueduct_tests_simulation::planted::Planted;
use aqueduct_tests_simulation::{Counts, simulate, simulate_twice};
use clap::{Parser, ValueEnum as _};

/// Lives worlds of replicas, faults and clients, and checks what was seen in them.
#[derive(Debug, Parser)]
struct Args {
    /// How many worlds
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One world only, with all that happens in it
    #[arg(long)]
    seed: Option<u64>,
    /// A fault to plant, which the checker must find
    #[arg(long)]
    plant: Option<Planted>,
    /// Lives every world twice, and reports those that differ from their repetition
    #[arg(long)]
    twice: bool,
    /// Goes on after a world that breaks a rule, and lists them all
    #[arg(long)]
    all: bool,
}

/// What came of many worlds.
#[derive(Debug, Default)]
struct Sum {
    counts: Counts,
    /// Seeds that broke a rule, and the first rule of each.
    broken: Vec<(u64, Violation)>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(seed) = args.seed {
        return show(seed, &args);
    }
    let begun = Instant::now();
    let mut sum = live_all(&args)?;
    sum.broken.sort_by_key(|(seed, _)| *seed);
    for (seed, Violation { rule, what }) in &sum.broken {
        println!("seed {seed} breaks `{rule}`: {what}");
    }
    if let Some((seed, _)) = sum.broken.first().filter(|_| !args.all) {
        show(*seed, &args)?;
        println!("\nreplay it with:\n\n    cargo xtask simulate --seed {seed}{}\n", options(&args));
        return Ok(ExitCode::FAILURE);
    }
    let Counts { runs, events, seen, takeovers, incidents, replies, millis } = sum.counts;
    println!(
        "{} worlds in {:.1} s, {} h of their own time: {runs} runs, {events} events, {seen} seen by watchers, {incidents} \
         incidents, {takeovers} takeovers, {replies} replies; {} worlds broke a rule",
        args.seeds,
        begun.elapsed().as_secs_f64(),
        millis / 3_600_000,
        sum.broken.len()
    );
    Ok(if sum.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lives all worlds, as many at once as there are cores. Stops at the first that breaks a rule, unless all are wanted.
fn live_all(args: &Args) -> Result<Sum> {
    let end = args.from.saturating_add(args.seeds);
    let (next, stop) = (AtomicU64::new(args.from), AtomicU64::new(end));
    let live = || -> Result<Sum> {
        let mut sum = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= stop.load(Ordering::Relaxed) {
                return Ok(sum);
            }
            let outcome = if args.twice {
                simulate_twice(seed, args.plant)
            } else {
                simulate(seed, args.plant, false)
            }?;
            sum.counts.add(&outcome.counts);
            if let Some(first) = outcome.violations.into_iter().next() {
                sum.broken.push((seed, first));
                if !args.all {
                    // Smaller seeds are still lived: the first one is the same however many cores there are.
                    stop.fetch_min(seed, Ordering::Relaxed);
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(live)).collect();
        let mut all = Sum::default();
        for thread in threads {
            let sum = thread.join().map_err(|_| anyhow::anyhow!("a world panicked"))??;
            all.counts.add(&sum.counts);
            all.broken.extend(sum.broken);
        }
        Ok(all)
    })
}

/// Returns the options that make a world what it is, beside its seed.
fn options(args: &Args) -> String {
    let planted = args.plant.as_ref().and_then(Planted::to_possible_value);
    let planted = planted.map(|value| format!(" --plant {}", value.get_name())).unwrap_or_default();
    format!("{planted}{}", if args.twice { " --twice" } else { "" })
}

/// Lives one world, and prints all that happens in it.
fn show(seed: u64, args: &Args) -> Result<ExitCode> {
    let outcome =
        if args.twice { simulate_twice(seed, args.plant) } else { simulate(seed, args.plant, true) }?;
    println!("{:#?}\n", Plan::of(seed));
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("\n{:?}", outcome.counts);
    for Violation { rule, what } in &outcome.violations {
        println!("seed {seed} breaks `{rule}`: {what}");
    }
    Ok(if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
