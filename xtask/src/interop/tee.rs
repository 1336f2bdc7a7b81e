//! Supervisors and sub-agents of the real Python SDKs, with one gateway between them or two that share a Redis, and the real
//! AG-UI clients in front of them.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::{programs, runlog};
use crate::project::Project;

/// Installs the peers and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (clients, peers) = (Peers::of(project, "agui")?, Peers::of(project, "tee")?);
    let new = clients.npm_project("client-1.0.0")?;
    let old = clients.npm_project("client-0.0.59")?;
    let python = peers.python_venv("python")?;
    let redis = runlog::server(peers.scripts())?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&new)?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", text(&old)?),
        ("AQUEDUCT_INTEROP_TEE_PY", text(&python)?),
        ("AQUEDUCT_INTEROP_REDIS", redis),
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}
