//! `cargo xtask ci` and `cargo xtask test`: one list of steps, in order, stopped at the first failure.
//!
//! Cheap steps come first, so that a small mistake costs seconds. Each step is announced, timed and repeatable by hand: a
//! failure prints the command to repeat it. Missing tools are reported before any long step.

mod builds;
mod features;
mod tools;

pub(crate) use tools::has_nextest;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::fuzz::{self, Fuzzing};
use crate::invocation::Invocation;
use crate::project::Project;
use crate::simulate::{self, Worlds};
use crate::{codegen, interop, mutants, tidy};

/// The selection of steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Tier {
    /// Also run what takes long: frameworks, fuzzing, worlds, mutants, the oldest compiler
    #[arg(long)]
    nightly: bool,
}

/// Runs every step.
///
/// # Errors
///
/// Returns an error that names the failed step and the command to repeat it.
pub(crate) fn run(project: &Project, tier: &Tier) -> Result<()> {
    let mut steps = steps(project);
    if tier.nightly {
        steps.extend(nightly_steps());
    }
    // Peers are installed beside the steps that compile; the step that needs them comes last.
    std::thread::scope(|scope| {
        let mut peers = Some(scope.spawn(|| interop::ahead::install(project)));
        run_steps(project, &steps, &mut || {
            peers.take().map(std::thread::ScopedJoinHandle::join).map_or(Ok(()), |joined| {
                joined.map_err(|_| anyhow::anyhow!("the installation of the peers panicked"))
            })
        })
    })
}

/// Runs the steps in order; `join_peers` waits for the installation of the peers.
fn run_steps(project: &Project, steps: &[Step], join_peers: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let mut passed = Vec::new();
    for step in steps {
        println!("\n==> {}", step.name);
        let started = Instant::now();
        if step.name == INTEROP {
            join_peers()?;
        }
        let outcome = step.run(project);
        let took = started.elapsed();
        if let Err(error) = outcome {
            eprintln!("\nerror: {error:#}");
            print_summary(&passed);
            println!("  FAILED  {:>7}  {}", seconds(took), step.name);
            bail!("step `{}` failed; repeat it with:\n\n    {}\n", step.name, step.repeat());
        }
        passed.push((step.name, took));
    }
    print_summary(&passed);
    println!("all {} steps passed", passed.len());
    Ok(())
}

/// The step that needs the peers.
const INTEROP: &str = "interop";

struct Step {
    name: &'static str,
    action: Action,
}

enum Action {
    /// Another program.
    Call(Invocation),
    /// A task of this tool, with the command that repeats it.
    Task(&'static str, fn(&Project) -> Result<()>),
}

impl Step {
    fn run(&self, project: &Project) -> Result<()> {
        match &self.action {
            Action::Call(call) => {
                println!("    {call}");
                call.run()
            }
            Action::Task(_, task) => task(project),
        }
    }

    fn repeat(&self) -> String {
        match &self.action {
            Action::Call(call) => call.to_string(),
            Action::Task(command, _) => (*command).to_owned(),
        }
    }
}

fn steps(project: &Project) -> Vec<Step> {
    let call = |name, call| Step { name, action: Action::Call(call) };
    let task = |name, command, task| Step { name, action: Action::Task(command, task) };
    let everything = interop::EVERYTHING;
    let clippy = project.cargo(["clippy", "--all-targets"]).args(everything).args(["--", "-D", "warnings"]);
    let doctests = project.cargo(["test", "--doc"]).args(everything);
    let rustdoc = project.cargo(["doc", "--no-deps"]).args(everything).env("RUSTDOCFLAGS", "-D warnings");
    vec![
        task("tools", "cargo xtask test", tools::check),
        call("fmt", project.cargo(["fmt", "--all", "--check"])),
        task("tidy", "cargo xtask tidy", tidy::run),
        call("clippy", clippy),
        task("features", "cargo xtask test", features::check),
        task("codegen", "cargo xtask codegen --check", |project| codegen::run(project, true)),
        call("tests", tools::test_runner(project).args(everything).args(without_peers(project))),
        task("simulation", "cargo xtask simulate", |project| simulate::run(project, &Worlds::of_ci())),
        task("fuzz", "cargo xtask fuzz --own", |project| fuzz::run(project, &Fuzzing::of_ci())),
        task("wasm", "cargo xtask test", builds::check_wasm),
        call("doctests", doctests),
        call("rustdoc", rustdoc),
        task(INTEROP, "cargo xtask interop", |project| interop::run(project, None, false)),
    ]
}

/// Returns the steps that take long, or need more than CI has.
fn nightly_steps() -> Vec<Step> {
    let task = |name, command, task| Step { name, action: Action::Task(command, task) };
    vec![
        task("oldest compiler", "cargo xtask test --nightly", builds::check_oldest),
        task("dependencies", "cargo xtask test --nightly", builds::check_dependencies),
        task("semver", "cargo xtask test --nightly", builds::check_semver),
        task("more worlds", "cargo xtask simulate --from 2000 --seeds 50000", |project| {
            simulate::run(project, &Worlds::of_the_night())
        }),
        task("more fuzz", "cargo xtask fuzz", |project| fuzz::run(project, &Fuzzing::of_the_night())),
        task("frameworks", "cargo xtask interop --nightly", interop::run_nightly),
        task("mutants", "cargo xtask mutants", |project| mutants::run(project, None)),
    ]
}

/// Returns the filter that excludes tests with real peers. `--all-features` compiles and lints them; the interop step, which
/// has the peers, runs them.
fn without_peers(project: &Project) -> Vec<String> {
    let modules = interop::test_modules();
    if has_nextest(project) {
        let all = modules.map(|module| format!("test({module})")).collect::<Vec<_>>().join(" | ");
        return ["--profile", "ci", "-E"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("not ({all})")])
            .collect();
    }
    let skips = modules.flat_map(|module| ["--skip".to_owned(), module]);
    ["--lib", "--bins", "--tests", "--"].map(str::to_owned).into_iter().chain(skips).collect()
}

fn print_summary(passed: &[(&str, Duration)]) {
    println!("\n==> summary");
    for (name, took) in passed {
        println!("  ok      {:>7}  {name}", seconds(*took));
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}
