//! Installs and prepares the peers of CI's suites while the compiler works, so that the step `interop` finds them.
//!
//! Package managers wait for the network, the compiler for the processor: side by side they cost less than one after the other. This
//! module decides nothing about success: what fails here is tried again by the step, which reports the error.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::peers::Peers;
use super::{SUITES, prepare_ci, runlog, transports};
use crate::bench;
use crate::project::{Project, Variables};

/// Pins below a suite's folder that belong to benches.
const BENCH: &str = "bench";

/// Installs and prepares the peers of CI. Returns the variables with their locations, or `None` if a suite is not prepared.
pub(crate) fn prepare(project: &Project) -> Option<Variables> {
    install(project);
    let prepared = prepare_ci(project);
    if let Err(error) = &prepared {
        println!("    the peers are not prepared yet; the step `interop` tries again: {error:#}");
    }
    prepared.ok()
}

/// Installs every peer that a suite of CI has pinned, and the programs of the distribution.
fn install(project: &Project) {
    let suites = SUITES.iter().filter(|suite| !suite.nightly).map(|suite| suite.name);
    let installed = suites.map(|suite| install_suite(project, suite));
    let root = project.root();
    let machine = [transports::chromium(root), runlog::server(root), bench::counter(root)];
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
