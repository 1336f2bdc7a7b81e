//! The peer of the inspector: a headless Chromium, against the gateway's own program.
//!
//! The driver is that of the transports suite, at the same version. The tests prove that the scenes can fail.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::interop::transports::chromium;
use crate::project::Project;

/// Installs the driver, finds the browser, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (peers, drivers) = (Peers::of(project, "inspector")?, Peers::of(project, "transports")?);
    let browser = drivers.npm_project("browser")?;
    let chromium = chromium(peers.scripts())?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_BROWSER", text(&browser)?),
        ("AQUEDUCT_INTEROP_CHROMIUM", chromium),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
    ])
}
