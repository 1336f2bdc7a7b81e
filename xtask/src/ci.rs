//! `cargo xtask ci` and `cargo xtask test`: one list of steps, stopped at the first failure. With `--nightly`, the steps of the
//! night follow; all of them run, although some fail.
//!
//! ```text
//! first    tools fmt tidy shared build                 one after the other; peers are prepared beside them
//! front    tests and interop, in one run               what runs and waits
//! beside   clippy codegen rustdoc doctests features    what compiles, with the processor that the front leaves idle; fuzz targets,
//!          fuzz                                        which have a bound on time, too
//! idle     counts simulation                           what computes, with the processor that both leave idle
//! ```
//!
//! Cheap steps come first, so that a small mistake costs seconds. The front starts what `build` has built without a call of cargo,
//! because cargo would wait for the one beside it. Each step is announced, timed and repeatable by its name: a failure prints the
//! command. Missing tools are reported before any long step.

mod builds;
mod features;
mod lanes;
mod steps;
mod summary;
mod tools;

pub(crate) use summary::Skipped;
pub(crate) use tools::{has_nextest, test_runner, waiting_threads};

use anyhow::{Result, bail};

use crate::interop::{self, programs};
use crate::invocation::Priority;
use crate::project::Project;
use lanes::{Lane, Over};
use steps::Step;
use summary::Summary;

/// The selection of steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Tier {
    /// Steps to run, one after the other [default: all of CI]
    steps: Vec<String>,
    /// Also run what takes long: frameworks, fuzzing, worlds, mutants, the oldest compiler
    #[arg(long)]
    nightly: bool,
}

/// Runs every step, or those that were named.
///
/// # Errors
///
/// Returns an error that names the failed step and the command to repeat it.
pub(crate) fn run(project: &Project, tier: &Tier) -> Result<()> {
    let mut summary = Summary::default();
    let outcome = if tier.steps.is_empty() {
        run_all(project, tier.nightly, &mut summary)
    } else {
        named(&tier.steps).and_then(|steps| lanes::run(project, &steps, &mut summary))
    };
    print!("\n==> summary\n{summary}");
    outcome?;
    println!("{}", summary.verdict());
    Ok(())
}

fn run_all(project: &Project, nightly: bool, summary: &mut Summary) -> Result<()> {
    // Peers are prepared beside the steps that compile; the step that needs them waits.
    std::thread::scope(|scope| {
        let peers = scope.spawn(|| interop::ahead::prepare(project));
        lanes::run(project, &steps::first(), summary)?;
        let (built, over, logs) = (project.built(), Over::default(), programs::listed(project)?);
        let lane =
            |steps, log, priority| Lane::start(scope, &built, steps, (logs.join(log), priority), &over);
        let beside = lane(steps::beside(), "beside.log", Priority::Low)?;
        let idle = lane(steps::idle(), "idle.log", Priority::Lowest)?;
        let built = built.with_peers(peers.join().ok().flatten());
        let front = lanes::run_until(&built, &steps::front(), summary, &over);
        let (beside, idle) = (beside.join(summary), idle.join(summary));
        front.and(beside).and(idle)?;
        if nightly { lanes::run_each(project, &steps::nightly(), summary) } else { Ok(()) }
    })
}

/// Returns the steps of those names, in the order of the names.
fn named(names: &[String]) -> Result<Vec<Step>> {
    let all = || {
        steps::first()
            .into_iter()
            .chain(steps::beside())
            .chain(steps::idle())
            .chain(steps::parts_of_front())
            .chain(steps::nightly())
    };
    let find = |name: &String| all().find(|step| step.name == name);
    if let Some(unknown) = names.iter().find(|name| find(name).is_none()) {
        let known: Vec<&str> = all().map(|step| step.name).collect();
        bail!("there is no step `{unknown}`; there is: {}", known.join(", "));
    }
    Ok(names.iter().filter_map(find).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_by_its_name() {
        let names = |steps: Vec<Step>| steps.iter().map(|step| step.name).collect::<Vec<_>>();
        let chosen = named(&["rustdoc".to_owned(), "fmt".to_owned()]).unwrap();
        assert_eq!(names(chosen), ["rustdoc", "fmt"]);
        let error = named(&["lint".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`lint`") && error.contains("clippy"), "{error}");
    }

    #[test]
    fn every_nightly_suite_is_a_step_of_the_night() {
        let steps = steps::nightly();
        for suite in interop::nightly_suites() {
            assert!(steps.iter().any(|step| step.name == suite), "{suite}");
        }
    }

    #[test]
    fn no_two_steps_have_one_name() {
        let beside = steps::beside().into_iter().chain(steps::idle());
        let first = steps::first().into_iter().chain(beside);
        let all: Vec<Step> = first.chain(steps::parts_of_front()).chain(steps::nightly()).collect();
        let mut names: Vec<&str> = all.iter().map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
