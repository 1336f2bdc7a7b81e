//! `cargo xtask bench`: runs the benches in the release profile.
//!
//! Benches that measure time report figures and never fail a build, because a machine may be busy. So `ci` does not run them.
//! Counted instructions do not depend on the load: [`check_counts`] is a step of `ci`.

mod counts;

use std::path::Path;

use anyhow::{Result, bail};

use crate::interop::peers::text;
use crate::project::Project;
use crate::released;

/// The package that contains all benches.
const PACKAGE: &str = "aqueduct-benches";

/// The bench that counts instructions.
const COUNTS: &str = "counts";

/// Fails if a hot path needs more instructions per event than `benches/counts/baseline.toml` allows.
pub(crate) fn check_counts(project: &Project) -> Result<()> {
    counts::check(project)
}

/// Installs the program that counts instructions where that needs no confirmation, and returns its version.
pub(crate) fn counter(folder: &Path) -> Result<String> {
    counts::valgrind(folder)
}

/// Runs all benches, or the bench `name`, with the arguments `args`.
pub(crate) fn run(project: &Project, name: Option<&str>, args: &[String]) -> Result<()> {
    if name == Some(COUNTS) {
        return match args {
            [] => check_counts(project),
            [write] if write == "--write" => counts::run(project, true),
            _ => bail!("`cargo xtask bench counts` knows one argument: `-- --write` stores a new baseline"),
        };
    }
    if project.metadata()?.package(PACKAGE).is_none() {
        bail!("this workspace has no package {PACKAGE}: there is nothing to measure yet");
    }
    let mut call = project.cargo(["bench", "--package", PACKAGE]);
    for (name, value) in peers(project, name)? {
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

/// Benches that compare with peers, and the interop suite that installs the peers.
const PEERS: [(&str, &str); 4] =
    [("a2a", "a2a"), ("agui", "agui"), ("gateway", "a2a"), ("transports", "transports")];

/// Returns the variables with the locations of a bench's peers. Without peers a bench still measures our own side.
fn peers(project: &Project, bench: Option<&str>) -> Result<Vec<(&'static str, String)>> {
    let is_wanted = |name: &str| bench.is_none_or(|bench| bench == name);
    let mut variables = Vec::new();
    for (name, suite) in PEERS.into_iter().filter(|(name, _)| is_wanted(name)) {
        match crate::interop::bench_peers_of(project, suite) {
            Ok(found) => variables.extend(found),
            Err(error) => println!("the peers of {name} are not measured: {error:#}"),
        }
    }
    if is_wanted("gateway") {
        variables.push(("AQUEDUCT_BENCH_GATEWAY", text(&released::build(project, "release")?)?));
    }
    Ok(variables)
}
