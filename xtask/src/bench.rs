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
    // The peers that benches compare with; a machine without them still measures our own side.
    let peers = crate::interop::peers_of(project, "agui").unwrap_or_else(|error| {
        println!("peers are not measured: {error:#}");
        Vec::new()
    });
    let call = project.cargo(["bench", "--package", PACKAGE]);
    let mut call = peers.into_iter().fold(call, |call, (name, value)| call.env(name, value));
    if let Some(name) = name {
        call = call.args(["--bench", name]);
    }
    if !args.is_empty() {
        call = call.args(["--"]).args(args.iter().map(String::as_str));
    }
    call.run()
}
