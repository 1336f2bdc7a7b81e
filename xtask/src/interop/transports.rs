//! Peers of the transports: the npm AG-UI clients, Python `websockets`, grpcio and `a2a-sdk`, and a headless Chromium,
//! against the programs of `examples/`.
//!
//! The tests also run each script with a wrong expectation, which proves that the scripts can fail.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, debian_package, text};
use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

const CHROMIUM_HINT: &str = "install Chromium (on Debian: the package `chromium`), or say where it is by the \
                             variable AQUEDUCT_CHROMIUM";

/// Installs the peers and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (clients, peers) = (Peers::of(project, "agui")?, Peers::of(project, "transports")?);
    let new = clients.npm_project("client-1.0.0")?;
    let old = clients.npm_project("client-0.0.59")?;
    let browser = peers.npm_project("browser")?;
    let python = peers.python_venv("python")?;
    let a2a = Peers::of(project, "a2a")?.python_venv("python-1.3.0")?;
    let chromium = chromium(peers.scripts())?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_A2A_PY_1_3", text(&a2a)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&new)?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", text(&old)?),
        ("AQUEDUCT_INTEROP_BROWSER", text(&browser)?),
        ("AQUEDUCT_INTEROP_CHROMIUM", chromium),
        ("AQUEDUCT_INTEROP_TRANSPORTS_PY", text(&python)?),
        ("AQUEDUCT_INTEROP_EXAMPLES", programs::examples(project)?),
    ])
}

/// Returns the browser of this machine: none of the pinned package managers has it.
pub(crate) fn chromium(folder: &Path) -> Result<String> {
    let chosen = std::env::var("AQUEDUCT_CHROMIUM").ok();
    let name = chosen.clone().unwrap_or_else(|| "chromium".to_owned());
    if chosen.is_none() && Invocation::new(&name, folder).args(["--version"]).output().is_err() {
        debian_package(folder, "chromium", CHROMIUM_HINT)?;
    }
    let version = Invocation::new(&name, folder).args(["--version"]).hint(CHROMIUM_HINT).output()?;
    println!("{}", version.trim());
    if name.contains('/') {
        return Ok(name);
    }
    // The driver needs a path.
    let path = std::env::var_os("PATH").context("PATH is not set")?;
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|program| program.is_file());
    text(&found.with_context(|| format!("{name} is not in PATH: {CHROMIUM_HINT}"))?)
}
