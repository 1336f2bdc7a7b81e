//! `fuzz`: runs fuzz targets without a nightly compiler. `cargo xtask fuzz` calls it.
#![expect(clippy::print_stdout, reason = "a command line tool talks to its terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use aqueduct_fuzz::runner::{self, Bounds};
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
    /// Lists the targets with the folders of their seeds
    #[arg(long)]
    list: bool,
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
            println!("{} {}", target.name, target.seeds.join(" "));
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

fn run_all(chosen: &[&Target], args: &Args) -> Result<ExitCode> {
    let bounds =
        Bounds { executions: args.executions, time: Duration::from_secs(args.seconds), seed: args.seed };
    let (mut total, mut is_well) = (0, true);
    for target in chosen {
        let found = runner::run(target, &seeds::of(&runner::root(), target), &bounds);
        total += found.executions;
        println!(
            "{:<12} {:>12} executions in {:>6.1} s",
            target.name,
            found.executions,
            found.took.as_secs_f64()
        );
        if let Some(crash) = found.crash {
            is_well = false;
            let folder = runner::root().join("target/fuzz-crashes");
            std::fs::create_dir_all(&folder).context("the crash cannot be kept")?;
            let path = folder.join(format!("{}-{:x}", target.name, args.seed));
            std::fs::write(&path, crash).context("the crash cannot be kept")?;
            println!(
                "{} fails; replay it with:\n\n    cargo xtask fuzz {} --input {}\n",
                target.name,
                target.name,
                path.display()
            );
        }
    }
    println!("{} targets, {total} executions", chosen.len());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
