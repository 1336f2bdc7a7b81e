//! The peers of the shared run log: a Redis server, of which each test starts its own on a free port in a temporary folder; the
//! A2A agent of the suite `a2a` on the Python SDK, whose runs outlive gateways; and `sdk/typescript`, whose clients do,
//! too.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, debian_package, text};
use crate::interop::{programs, resume};
use crate::invocation::Invocation;
use crate::project::Project;

const HINT: &str = "install Redis 6.2 or later (on Debian: the package `redis-server`) or Valkey, or say where its server is \
                    by the variable AQUEDUCT_REDIS";

/// Finds the server, builds the gateway, installs `sdk/typescript` into the real client, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (peers, agents) = (Peers::of(project, "runlog")?, Peers::of(project, "a2a")?);
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&resume::client(project, "client-1.0.0")?)?),
        ("AQUEDUCT_INTEROP_A2A_SCRIPTS", text(agents.scripts())?),
        ("AQUEDUCT_INTEROP_A2A_PY_1_3", text(&agents.python_venv("python-1.3.0")?)?),
        ("AQUEDUCT_INTEROP_REDIS", server(peers.scripts())?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}

/// Returns the Redis server of this machine, installed if there is none.
pub(super) fn server(folder: &Path) -> Result<String> {
    let chosen = std::env::var("AQUEDUCT_REDIS").ok();
    let name = chosen.clone().unwrap_or_else(|| "redis-server".to_owned());
    if chosen.is_none() && Invocation::new(&name, folder).args(["--version"]).output().is_err() {
        debian_package(folder, "redis-server", HINT)?;
    }
    let version = Invocation::new(&name, folder).args(["--version"]).hint(HINT).output()?;
    println!("{}", version.trim());
    Ok(name)
}
