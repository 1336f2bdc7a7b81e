//! The programs of the workspace that real peers talk to, and the tests that start them.
//!
//! They are built with the very selection of the step `tests`: cargo joins the features of all that it is asked to build
//! at once, so asking for one package would compile most of the tree a second and a third time.

use anyhow::Result;

use crate::interop::peers::text;
use crate::project::Project;

/// What `cargo xtask test` builds everything with.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Builds the programs and the tests; nothing is done twice if the step `tests` went before.
pub(super) fn build(project: &Project) -> Result<()> {
    project.cargo(["build", "--bins", "--tests"]).args(EVERYTHING).run()
}

/// The gateway.
pub(super) fn gateway(project: &Project) -> Result<String> {
    text(&project.metadata()?.target_directory()?.join("debug").join("aqueduct"))
}

/// The folder with the examples.
pub(super) fn examples(project: &Project) -> Result<String> {
    text(&project.metadata()?.target_directory()?.join("debug"))
}
