//! `cargo xtask ci` and `cargo xtask test`: one list of steps, stopped at the first failure.
//!
//! ```text
//! first    tools fmt tidy build                              one after the other; peers are installed beside them
//! front    tests interop                                     what runs and waits
//! beside   clippy codegen rustdoc doctests features          what compiles or computes, with the processor that the front
//!          counts simulation fuzz                            leaves idle
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

pub(crate) use tools::{has_nextest, test_runner, waiting_threads};

use anyhow::{Result, anyhow, bail};

use crate::interop::{self, programs};
use crate::project::Project;
use lanes::Lane;
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
    // Peers are installed beside the steps that compile; the step that needs them waits.
    std::thread::scope(|scope| {
        let peers = scope.spawn(|| interop::ahead::install(project));
        lanes::run(project, &steps::first(), summary)?;
        let built = project.built();
        let beside =
            Lane::start(scope, &built, steps::beside(), programs::listed(project)?.join("beside.log"))?;
        let front = lanes::run_while(&built, &steps::front(), summary, &beside)
            .and_then(|()| peers.join().map_err(|_| anyhow!("the installation of the peers panicked")))
            .and_then(|()| lanes::run_while(&built, &steps::with_peers(), summary, &beside));
        let outcome = beside.join(summary, front.is_err());
        front.and(outcome)?;
        if nightly { lanes::run(project, &steps::nightly(), summary) } else { Ok(()) }
    })
}

/// Returns the steps of those names, in the order of the names.
fn named(names: &[String]) -> Result<Vec<Step>> {
    let all = || {
        steps::first()
            .into_iter()
            .chain(steps::beside())
            .chain(steps::front())
            .chain(steps::with_peers())
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
    fn no_two_steps_have_one_name() {
        let all = [steps::first(), steps::beside(), steps::front(), steps::with_peers(), steps::nightly()];
        let mut names: Vec<&str> = all.iter().flatten().map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
