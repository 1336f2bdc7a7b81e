//! The programs of the workspace that real peers connect to, and the tests that start them.
//!
//! They are built with the same selection as the step `tests`: cargo unifies the features of everything that it builds at
//! once, so building one package would compile most of the tree again.

use anyhow::Result;

use crate::interop::peers::text;
use crate::project::Project;

/// The selection with which `cargo xtask test` builds everything.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Builds the programs and the tests; does nothing if the step `tests` ran before.
pub(super) fn build(project: &Project) -> Result<()> {
    project.cargo(["build", "--bins", "--tests"]).args(EVERYTHING).run()
}

/// Returns the path of the gateway.
pub(super) fn gateway(project: &Project) -> Result<String> {
    text(&project.metadata()?.target_directory()?.join("debug").join("aqueduct"))
}

/// Returns the folder of the examples.
pub(super) fn examples(project: &Project) -> Result<String> {
    text(&project.metadata()?.target_directory()?.join("debug"))
}
