//! The gateway end to end: real frontends in front of it, real agents behind it, and only the gateway between them.
//!
//! Frontends are the npm AG-UI clients, the CopilotKit runtime and the A2A SDKs; agents are those of the a2a suite, and
//! workflows of the Microsoft Agent Framework. Only CopilotKit is installed for this suite alone.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::project::Project;

/// Installs the peers and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (clients, agents) = (Peers::of(project, "agui")?, Peers::of(project, "a2a")?);
    let (workflows, peers) = (Peers::of(project, "magentic")?, Peers::of(project, "gateway")?);
    let installed = [
        ("AQUEDUCT_INTEROP_AGUI_1_0", clients.npm_project("client-1.0.0")?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", clients.npm_project("client-0.0.59")?),
        ("AQUEDUCT_INTEROP_COPILOTKIT", peers.npm_project("copilotkit")?),
        ("AQUEDUCT_INTEROP_A2A_PY_1_3", agents.python_venv("python-1.3.0")?),
        ("AQUEDUCT_INTEROP_A2A_PY_0_3", agents.python_venv("python-0.3.26")?),
        ("AQUEDUCT_INTEROP_A2A_JS", agents.npm_project("js-1.3.0")?),
        ("AQUEDUCT_INTEROP_MAGENTIC_PY", workflows.python_venv("python")?),
        ("AQUEDUCT_INTEROP_OPERATE", peers.python_venv("operate")?),
        ("AQUEDUCT_INTEROP_CASES", peers.cases()?),
        ("AQUEDUCT_INTEROP_DIR", peers.scripts().parent().context("the scripts have no folder")?.to_owned()),
    ];
    let program = Ok(("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?));
    installed.iter().map(|(name, path)| Ok((*name, text(path)?))).chain([program]).collect()
}
