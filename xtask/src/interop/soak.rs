//! The peers of the soak: a Redis server, of which the test starts its own, and the gateway.

use anyhow::Result;

use crate::interop::Env;
use crate::interop::peers::Peers;
use crate::interop::{programs, runlog};
use crate::project::Project;

/// Returns the locations of the server and the gateway.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "runlog")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_REDIS", runlog::server(peers.scripts())?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}
