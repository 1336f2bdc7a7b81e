//! The programs of the workspace that real peers connect to, and the tests that start them.
//!
//! They are built with the same selection as the step `tests`: cargo unifies the features of everything that it builds at
//! once, so building one package would compile most of the tree again.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::interop::peers::text;
use crate::project::Project;

/// The selection with which `cargo xtask test` builds everything.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// The profile of `--optimised`, which is also the name of its folder.
const TRIAL: &str = "trial";

/// The selection of `--optimised`: the gateway and the trials, which are all that the suites [`TRIALS`] start.
const OPTIMISED: [&str; 5] =
    ["--package", "aqueduct-gateway", "--package", "aqueduct-tests", "--all-features"];

/// The suites that can be run with optimisations.
pub(super) const TRIALS: [&str; 2] = ["scale", "soak"];

/// Builds the programs and the tests; does nothing if they are known to be built.
pub(crate) fn build(project: &Project) -> Result<()> {
    if project.is_built() {
        return Ok(());
    }
    let call = project.cargo(["build", "--bins", "--tests"]);
    if project.is_optimised() {
        return call.args(["--profile", TRIAL]).args(OPTIMISED).run();
    }
    call.args(EVERYTHING).run()
}

/// Builds the program `name` of the workspace, unless it is known to be built, and returns its path.
pub(crate) fn build_one(project: &Project, name: &str) -> Result<PathBuf> {
    if !project.is_built() {
        project.cargo(["build", "--quiet", "--bin", name]).args(EVERYTHING).run()?;
    }
    Ok(folder(project)?.join(name))
}

/// The test binaries and the workspace, as nextest lists them.
const BINARIES: &str = "binaries.json";
const WORKSPACE: &str = "workspace.json";

/// Writes down where the built tests are, so that nextest can run them without a call of cargo.
pub(crate) fn list_tests(project: &Project) -> Result<()> {
    let folder = listed(project)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let list = project.cargo(["nextest", "list", "--list-type", "binaries-only", "--message-format", "json"]);
    let metadata = project.cargo(["metadata", "--format-version", "1", "--all-features"]);
    for (name, call) in [(BINARIES, list.args(EVERYTHING)), (WORKSPACE, metadata)] {
        let path = folder.join(name);
        std::fs::write(&path, call.output()?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the arguments of nextest that select all tests: those that were listed, or all of the workspace.
pub(crate) fn selection(project: &Project) -> Result<Vec<String>> {
    if project.is_optimised() {
        return Ok(["--cargo-profile", TRIAL].into_iter().chain(OPTIMISED).map(str::to_owned).collect());
    }
    if !project.is_built() {
        return Ok(EVERYTHING.map(str::to_owned).into());
    }
    let folder = listed(project)?;
    let (binaries, workspace) = (text(&folder.join(BINARIES))?, text(&folder.join(WORKSPACE))?);
    Ok(vec!["--binaries-metadata".to_owned(), binaries, "--cargo-metadata".to_owned(), workspace])
}

/// Returns the folder of what steps of CI leave for each other.
pub(crate) fn listed(project: &Project) -> Result<PathBuf> {
    Ok(project.metadata()?.target_directory()?.join("ci"))
}

fn folder(project: &Project) -> Result<PathBuf> {
    let profile = if project.is_optimised() { TRIAL } else { "debug" };
    Ok(project.metadata()?.target_directory()?.join(profile))
}

/// Returns the path of the gateway.
pub(super) fn gateway(project: &Project) -> Result<String> {
    text(&folder(project)?.join("aqueduct"))
}

/// Returns the folder of the examples.
pub(super) fn examples(project: &Project) -> Result<String> {
    text(&folder(project)?)
}
