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
    for (name, value) in peers(project, name) {
        call = call.env(name, value);
    }
    if let Some(name) = name {
        call = call.args(["--bench", name]);
    }
    if !args.is_empty() {
        call = call.args(["--"]).args(args.iter().map(String::as_str));
    }
    call.run()
}

/// Says where the peers are that a bench compares with; a machine without them still measures our own side.
fn peers(project: &Project, bench: Option<&str>) -> Vec<(&'static str, String)> {
    let is_wanted = |name: &str| bench.is_none_or(|bench| bench == name);
    let mut variables = Vec::new();
    for name in ["a2a", "agui", "transports"].into_iter().filter(|name| is_wanted(name)) {
        match crate::interop::bench_peers_of(project, name) {
            Ok(found) => variables.extend(found),
            Err(error) => println!("the peers of {name} are not measured: {error:#}"),
        }
    }
    variables
}
