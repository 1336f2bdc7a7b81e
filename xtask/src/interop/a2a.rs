//! The A2A peers: the Python SDK at 1.3.0 and 0.3.26, the npm SDK at 1.3.0, and the official crates for Rust.
//!
//! Their servers and clients play the modes of `modes.json`. The tests also compare with wrong expectations, which proves
//! that the harness can fail.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::project::Project;

/// Installs the peers and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "a2a")?;
    let new = peers.python_venv("python-1.3.0")?;
    let old = peers.python_venv("python-0.3.26")?;
    let js = peers.npm_project("js-1.3.0")?;
    let rust = peers.cargo_project("rust-peer")?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_A2A_PY_1_3", text(&new)?),
        ("AQUEDUCT_INTEROP_A2A_PY_0_3", text(&old)?),
        ("AQUEDUCT_INTEROP_A2A_JS", text(&js)?),
        ("AQUEDUCT_INTEROP_A2A_RUST", text(&rust)?),
    ])
}
