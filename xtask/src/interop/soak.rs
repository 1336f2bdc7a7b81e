//! The peers of the soak: a Redis server, of which the test starts its own, and the gateway.

use anyhow::Result;

use crate::interop::Env;
use crate::interop::peers::Peers;
use crate::interop::{programs, runlog};
use crate::project::Project;

/// The clients and seconds of the soak in CI, which runs beside the other suites.
const CI: [(&str, u32); 2] = [("AQUEDUCT_SOAK_CLIENTS", 60), ("AQUEDUCT_SOAK_SECONDS", 120)];

/// Returns what CI has of it: two minutes with a few clients.
pub(crate) fn prepare_ci(project: &Project) -> Result<Env> {
    let mut env = prepare(project)?;
    env.extend(CI.map(|(name, value)| (name, value.to_string())));
    Ok(env)
}

/// Returns the locations of the server and the gateway.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "runlog")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_REDIS", runlog::server(peers.scripts())?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}
