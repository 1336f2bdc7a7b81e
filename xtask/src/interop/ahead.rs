//! Installs the peers of CI's suites while the compiler works, so that the step `interop` finds them.
//!
//! Package managers wait for the network, the compiler for the processor: side by side they cost less than one after the other. This
//! module decides nothing about success: a peer that cannot be installed here is installed again by its suite, which reports the error.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::peers::Peers;
use super::{SUITES, runlog, transports};
use crate::project::Project;

/// Pins below a suite's folder that belong to benches.
const BENCH: &str = "bench";

/// Installs every peer that a suite of CI has pinned, and the programs of the distribution.
pub(crate) fn install(project: &Project) {
    let suites = SUITES.iter().filter(|suite| !suite.nightly).map(|suite| suite.name);
    let installed = suites.map(|suite| install_suite(project, suite));
    let machine = [transports::chromium(project.root()), runlog::server(project.root())];
    for error in installed.chain(machine.map(|found| found.map(drop))).filter_map(Result::err) {
        println!("    a peer is not installed yet; its suite tries again: {error:#}");
    }
}

fn install_suite(project: &Project, suite: &str) -> Result<()> {
    let peers = Peers::of(project, suite)?;
    let Ok(entries) = std::fs::read_dir(peers.scripts()) else { return Ok(()) };
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", peers.scripts().display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != BENCH {
            install_peer(&peers, &entry.path(), &name)?;
        }
    }
    Ok(())
}

fn install_peer(peers: &Peers, pins: &Path, name: &str) -> Result<()> {
    let has = |file: &str| pins.join(file).is_file();
    if has("package-lock.json") {
        peers.npm_project(name)?;
    } else if has("requirements.txt") {
        peers.python_venv(name)?;
    } else if has("Cargo.lock") {
        peers.cargo_project(name)?;
    }
    Ok(())
}
