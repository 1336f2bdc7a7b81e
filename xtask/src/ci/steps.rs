//! The steps of CI and of the night, as functions of the workspace.

use anyhow::Result;

use super::{builds, features, tools};
use crate::fuzz::{self, Fuzzing};
use crate::interop::{self, EVERYTHING, programs};
use crate::mutants::{self, Mutations};
use crate::project::Project;
use crate::simulate::{self, Worlds};
use crate::{bench, codegen, site, tidy};

/// A step: `cargo xtask test <name>` runs it alone.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Project) -> Result<()>,
}

/// Returns the steps before all others: seconds, and the build that they share.
pub(crate) fn first() -> Vec<Step> {
    vec![
        Step { name: "tools", run: tools::check },
        Step { name: "fmt", run: |project| project.cargo(["fmt", "--all", "--check"]).run() },
        Step { name: "tidy", run: tidy::run },
        Step { name: "shared", run: features::check_shared },
        Step { name: "build", run: build },
    ]
}

/// Returns the step that runs all that was built: tests that wait for real peers beside tests that compute. Its name is that of
/// its parts.
pub(crate) fn front() -> Vec<Step> {
    vec![Step { name: "tests interop", run: test_with_peers }]
}

/// Returns the steps that the front does at once.
pub(crate) fn parts_of_front() -> Vec<Step> {
    vec![
        Step { name: "tests", run: test },
        Step { name: "interop", run: |project| interop::run(project, &[], false) },
    ]
}

/// Returns the steps that compile without waiting for anything: they leave the processor to the front.
pub(crate) fn beside() -> Vec<Step> {
    vec![
        Step { name: "clippy", run: lint },
        Step { name: "codegen", run: |project| codegen::run(project, true) },
        Step { name: "rustdoc", run: document },
        Step { name: "doctests", run: |project| project.cargo(["test", "--doc"]).args(EVERYTHING).run() },
        Step { name: "features", run: features::check },
        // An execution of a target has two seconds: with the lowest priority it might not get them.
        Step { name: "fuzz", run: fuzz::run_in_ci },
    ]
}

/// Returns the steps that compute, without a call of cargo that another step would wait for: they leave the processor to all others.
pub(crate) fn idle() -> Vec<Step> {
    vec![
        Step { name: "counts", run: bench::check_counts },
        Step { name: "simulation", run: |project| simulate::run(project, &Worlds::of_ci()) },
    ]
}

/// Returns the steps that take long, or need more than CI has.
pub(crate) fn nightly() -> Vec<Step> {
    vec![
        Step { name: "wasm", run: builds::check_wasm },
        Step { name: "oldest-compiler", run: builds::check_oldest },
        Step { name: "dependencies", run: builds::check_dependencies },
        Step { name: "advisories", run: builds::check_advisories },
        Step { name: "semver", run: builds::check_semver },
        Step { name: "more-worlds", run: |project| simulate::run(project, &Worlds::of_the_night()) },
        Step { name: "more-fuzz", run: |project| fuzz::run(project, &Fuzzing::of_the_night()) },
        Step { name: "soak", run: |project| interop::soak(&project.clone().optimised(true), 1, 10, 300) },
        Step { name: "autobahn", run: |project| interop::run_one(project, "autobahn") },
        Step { name: "schemathesis", run: |project| interop::run_one(project, "schemathesis") },
        Step { name: "frameworks", run: |project| interop::run_one(project, "frameworks") },
        Step { name: "frontends", run: |project| interop::run_one(project, "frontends") },
        Step { name: "packages", run: |project| interop::run_one(project, "packages") },
        Step { name: "full-scale", run: interop::run_full_scale },
        Step { name: "site", run: site::run },
        Step { name: "mutants", run: |project| mutants::run(project, &Mutations::of_the_night()) },
    ]
}

/// Builds all programs and tests, and lists the tests for the steps that run them.
fn build(project: &Project) -> Result<()> {
    programs::build(project)?;
    if tools::has_nextest(project) { programs::list_tests(project) } else { Ok(()) }
}

fn lint(project: &Project) -> Result<()> {
    project.cargo(["clippy", "--all-targets"]).args(EVERYTHING).args(["--", "-D", "warnings"]).run()
}

fn document(project: &Project) -> Result<()> {
    project.cargo(["doc", "--no-deps"]).args(EVERYTHING).env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Runs all tests but those with real peers. `--all-features` compiles and lints them; the step `interop`, which has the peers,
/// runs them.
fn test(project: &Project) -> Result<()> {
    let modules = interop::test_modules();
    let call = tools::test_runner(project)?;
    if tools::has_nextest(project) {
        let all = modules.map(|module| format!("test({module})")).collect::<Vec<_>>().join(" | ");
        let threads = tools::waiting_threads();
        return call.args(["--test-threads", &threads, "-E", &format!("not ({all})")]).run();
    }
    let skips = modules.flat_map(|module| ["--skip".to_owned(), module]);
    call.args(["--lib", "--bins", "--tests", "--"]).args(skips).run()
}

/// Runs all tests at once. Without nextest, one after the other.
fn test_with_peers(project: &Project) -> Result<()> {
    if tools::has_nextest(project) {
        return interop::run_beside_tests(project);
    }
    parts_of_front().iter().try_for_each(|step| (step.run)(project))
}
