//! Runs fuzz targets under libFuzzer, several side by side, and prints a table of what each has done.
//!
//! The corpus that libFuzzer learns, what it prints and inputs that fail are kept in `fuzz` below the target folder; the corpus is
//! used as seeds the next time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};

use super::Fuzzing;
use crate::invocation::{Invocation, Priority};
use crate::project::Project;

/// The compiler flags that libFuzzer needs.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table";

/// The manifest of the workspace with libFuzzer, from the root of ours.
const MANIFEST: &str = "fuzz/libfuzzer/Cargo.toml";

/// The folder of the seeds and dictionaries, below that of libFuzzer's output.
const SEEDS: &str = "seeds";

/// The largest input: longer ones are slow, and no rule needs them.
const LONGEST: u32 = 4 * 1024;

/// The figures of one target.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    name: String,
    executions: u64,
    seconds: u64,
    edges: u64,
}

impl Tally {
    /// Reads the figures at the end of libFuzzer's output.
    fn read(name: &str, output: &str) -> Result<Self> {
        let after = |mark: &str| {
            let rest = output.rsplit_once(mark)?.1.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let seconds = output.lines().rev().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["Done", _, "runs", "in", seconds, _] => seconds.parse().ok(),
                _ => None,
            }
        });
        let (executions, edges) = (after("stat::number_of_executed_units:"), after("cov: "));
        let (Some(executions), Some(edges), Some(seconds)) = (executions, edges, seconds) else {
            bail!("libFuzzer printed no figures of {name}")
        };
        Ok(Self { name: name.to_owned(), executions, seconds, edges })
    }
}

/// Returns the figures as a table, most executions first.
fn table(tallies: &mut [Tally]) -> String {
    tallies.sort_by_key(|tally| std::cmp::Reverse(tally.executions));
    let line = |Tally { name, executions, seconds, edges }: &Tally| {
        format!("| `{name}` | {executions} | {seconds} | {edges} |\n")
    };
    let lines: String = tallies.iter().map(line).collect();
    let total: u64 = tallies.iter().map(|tally| tally.executions).sum();
    format!(
        "| target | executions | seconds | edges reached |\n|---|---|---|---|\n{lines}\n{} targets, {total} executions\n",
        tallies.len()
    )
}

/// Runs the chosen targets, several side by side. `own` is our own runner with the choice: it lists the targets and writes their
/// seeds.
pub(super) fn run(project: &Project, own: Invocation, fuzzing: &Fuzzing) -> Result<()> {
    let folder = project.metadata()?.target_directory()?.join("fuzz");
    let program = build(project, &folder)?;
    let targets = own.clone().args(["--list"]).output()?;
    own.args(["--export".to_owned(), folder.join(SEEDS).to_string_lossy().into_owned()]).run()?;
    let (next, done) = (Mutex::new(targets.lines()), Mutex::new((Vec::new(), Vec::new())));
    let work = || {
        loop {
            let name = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(name) = name else { return };
            let tally = lead(project, (&folder, &program), name, fuzzing);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match tally {
                Ok(tally) => {
                    println!("    {name}: {} executions, {} edges", tally.executions, tally.edges);
                    done.0.push(tally);
                }
                // The other targets are run, too: a fault of one says nothing about them.
                Err(error) => {
                    println!("{error:#}");
                    done.1.push(name);
                }
            }
        }
    };
    std::thread::scope(|scope| (0..fuzzing.jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let (mut tallies, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("\n{}", table(&mut tallies));
    ensure!(failed.is_empty(), "these targets fail: {}", failed.join(", "));
    Ok(())
}

/// Checks that the lock file of libFuzzer's workspace fits the manifests of the packages in it.
pub(super) fn check_lock(project: &Project) -> Result<()> {
    let call = project.cargo(["metadata", "--locked", "--format-version", "1", "--manifest-path", MANIFEST]);
    let hint =
        "if the lock file is stale: `cargo update --workspace --manifest-path fuzz/libfuzzer/Cargo.toml`";
    call.output().context(hint).map(drop)
}

/// Builds all targets with libFuzzer.
fn build(project: &Project, folder: &Path) -> Result<PathBuf> {
    let about = Invocation::new("rustc", project.root()).args(["-vV"]).output()?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    // With an explicit target, so that the flags do not apply to build scripts.
    let call =
        project.cargo(["build", "--release", "--locked", "--manifest-path", MANIFEST, "--target", host]);
    let call = call.args(["--target-dir".to_owned(), folder.to_string_lossy().into_owned()]);
    call.env("RUSTFLAGS", COVERAGE).run()?;
    Ok(folder.join(host).join("release/aqueduct-fuzz-libfuzzer"))
}

/// Runs one target, and returns what it has done.
fn lead(
    project: &Project,
    (folder, program): (&Path, &Path),
    name: &str,
    fuzzing: &Fuzzing,
) -> Result<Tally> {
    let (learnt, seeds) = (folder.join("corpus").join(name), folder.join(SEEDS));
    std::fs::create_dir_all(&learnt).with_context(|| format!("cannot make {}", learnt.display()))?;
    let log = folder.join(format!("{name}.log"));
    std::fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let outcome = Invocation::new(program.to_string_lossy(), project.root())
        .args([learnt.to_string_lossy(), seeds.join(name).to_string_lossy()])
        .args([
            format!("-dict={}", seeds.join(format!("{name}.dict")).display()),
            format!("-max_total_time={}", fuzzing.seconds),
            // libFuzzer chooses a seed if this is 0.
            format!("-seed={}", fuzzing.seed.unwrap_or_default()),
            format!("-max_len={LONGEST}"),
            "-print_final_stats=1".to_owned(),
            format!("-artifact_prefix={}/crash-{name}-", folder.display()),
        ])
        .env("AQUEDUCT_FUZZ_TARGET", name)
        .in_background(log.clone(), Priority::Low)
        .run();
    // A panic message need not be UTF-8.
    let printed = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let printed = String::from_utf8_lossy(&printed);
    outcome.with_context(|| {
        format!("{name} fails:\n{printed}\nreplay it: cargo xtask fuzz {name} --input FILE")
    })?;
    Tally::read(name, &printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "#2\tINITED cov: 12 ft: 13 corp: 1/1b\n\
        #900\tNEW    cov: 1095 ft: 2001 corp: 9/80b lim: 4 exec/s: 450\n\
        #2204615\tDONE   cov: 1101 ft: 2011 corp: 9/80b\nDone 2204615 runs in 61 second(s)\n\
        stat::number_of_executed_units: 2204615\nstat::average_exec_per_sec:     36141\n";

    #[test]
    fn the_figures_are_the_last_ones_that_were_printed() {
        let tally = Tally::read("ws", PRINTED).unwrap();
        assert_eq!(tally, Tally { name: "ws".to_owned(), executions: 2_204_615, seconds: 61, edges: 1101 });
        assert!(Tally::read("ws", "==1== ERROR: libFuzzer: deadly signal\n").is_err());
    }

    #[test]
    fn the_table_has_a_line_for_each_target_and_the_sum() {
        let tally =
            |name: &str, executions| Tally { name: name.to_owned(), executions, seconds: 60, edges: 7 };
        let table = table(&mut [tally("slow", 5), tally("fast", 70)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[2..4], ["| `fast` | 70 | 60 | 7 |", "| `slow` | 5 | 60 | 7 |"]);
        assert_eq!(lines[5], "2 targets, 75 executions");
    }
}
