//! `cargo xtask bench`: runs the benches in the release profile.
//!
//! Benches report; they never fail a build because a machine was busy. So `ci` does not run them.

use anyhow::{Result, bail};

use crate::project::Project;

/// The package that holds all benches.
const PACKAGE: &str = "aqueduct-benches";

/// Runs all benches, or the one called `name`, and passes `args` on to them.
pub(crate) fn run(project: &Project, name: Option<&str>, args: &[String]) -> Result<()> {
    if project.metadata()?.package(PACKAGE).is_none() {
        bail!("this workspace has no package {PACKAGE}: there is nothing to measure yet");
    }
    let mut call = project.cargo(["bench", "--package", PACKAGE]);
    if let Some(name) = name {
        call = call.args(["--bench", name]);
    }
    if !args.is_empty() {
        call = call.args(["--"]).args(args.iter().map(String::as_str));
    }
    call.run()
}
