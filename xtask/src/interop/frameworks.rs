//! Agents of common frameworks, with a scripted model, behind the gateway, and the real AG-UI clients in front of it.
//!
//! Each framework has a virtual environment of its own, because their pins conflict. Together they take about three gigabytes
//! and some minutes to install, so the suite is nightly: `cargo xtask interop frameworks`.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::project::Project;

/// The folders with pins; the tests find `<name>/venv/bin/python` below `AQUEDUCT_INTEROP_FRAMEWORKS`.
const FRAMEWORKS: [&str; 8] =
    ["agent-framework", "agno", "crewai", "google-adk", "langgraph", "llama-index", "pydantic-ai", "strands"];

/// Installs the frameworks and the clients, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (clients, peers) = (Peers::of(project, "agui")?, Peers::of(project, "frameworks")?);
    let sdks = Peers::of(project, "a2a")?;
    for framework in FRAMEWORKS {
        peers.python_venv(framework)?;
    }
    let cases = peers.cases()?;
    let installed = cases.parent().context("the cases have no folder")?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_A2A_PY_1_3", text(&sdks.python_venv("python-1.3.0")?)?),
        ("AQUEDUCT_INTEROP_A2A_PY_0_3", text(&sdks.python_venv("python-0.3.26")?)?),
        ("AQUEDUCT_INTEROP_A2A_JS", text(&sdks.npm_project("js-1.3.0")?)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&clients.npm_project("client-1.0.0")?)?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", text(&clients.npm_project("client-0.0.59")?)?),
        ("AQUEDUCT_INTEROP_FRAMEWORKS", text(installed)?),
        ("AQUEDUCT_INTEROP_CASES", text(&cases)?),
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}
