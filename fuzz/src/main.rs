//! `fuzz`: runs fuzz targets without a nightly compiler. `cargo xtask fuzz` calls it.
#![expect(clippy::print_stdout, reason = "a command line tool talks to its terminal")]

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use aqueduct_fuzz::runner::{self, Bounds, Found};
use aqueduct_fuzz::{Target, seeds, targets};
use clap::Parser;

/// Runs fuzz targets on mutated fixtures.
#[derive(Debug, Parser)]
struct Args {
    /// One target only [default: all]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Executions of each target at most
    #[arg(long, default_value_t = u64::MAX)]
    executions: u64,
    /// The seed of all changes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Runs one file, and nothing else
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
    /// Lists the targets
    #[arg(long)]
    list: bool,
    /// Writes the seeds and dictionaries of the targets into this folder, and runs nothing
    #[arg(long)]
    export: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let is_chosen = |target: &&Target| args.target.as_ref().is_none_or(|name| name == target.name);
    let chosen: Vec<&Target> = targets::ALL.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
        bail!("no target of that name; there is: {}", names.join(", "));
    }
    if args.list {
        for target in chosen {
            println!("{}", target.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.export {
        for target in chosen {
            let exported = seeds::export(&runner::root(), target, folder);
            exported.with_context(|| format!("the seeds cannot be written to {}", folder.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(path), Some(target)) = (&args.input, chosen.first()) {
        let input = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        (target.run)(&input);
        println!("{}: nothing is wrong with {}", target.name, path.display());
        return Ok(ExitCode::SUCCESS);
    }
    run_all(&chosen, &args)
}

/// Runs the targets, one on each core at a time.
fn run_all(chosen: &[&Target], args: &Args) -> Result<ExitCode> {
    let bounds =
        Bounds { executions: args.executions, time: Duration::from_secs(args.seconds), seed: args.seed };
    let (next, total) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = || -> Result<bool> {
        let mut is_well = true;
        while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = runner::run(target, &seeds::of(&runner::root(), target), &bounds);
            total.fetch_add(found.executions, Ordering::Relaxed);
            is_well &= report(target, found, args.seed)?;
        }
        Ok(is_well)
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let outcomes: Vec<bool> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("the runner panicked")));
        ended.collect::<Result<_>>()
    })?;
    println!("{} targets, {} executions", chosen.len(), total.into_inner());
    Ok(if outcomes.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the figures of a target, and keeps the input that failed. Returns `true` if there is none.
fn report(target: &Target, found: Found, seed: u64) -> Result<bool> {
    let (executions, seconds) = (found.executions, found.took.as_secs_f64());
    println!("{:<12} {executions:>12} executions in {seconds:>6.1} s", target.name);
    let Some(crash) = found.crash else { return Ok(true) };
    let folder = runner::root().join("target/fuzz-crashes");
    std::fs::create_dir_all(&folder).context("the crash cannot be kept")?;
    let path = folder.join(format!("{}-{seed:x}", target.name));
    std::fs::write(&path, crash).context("the crash cannot be kept")?;
    println!(
        "{} fails; replay it with:\n\n    cargo xtask fuzz {} --input {}\n",
        target.name,
        target.name,
        path.display()
    );
    Ok(false)
}
