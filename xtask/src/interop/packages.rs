//! Every package, written around the binary of the tests, installed into an environment of its own, with the demo run from it.
//!
//! The suite is `cargo xtask dist --check` without a release build. It has no tests in `aqueduct-tests`: the installers are its peers.

use anyhow::Result;

use crate::dist;
use crate::interop::peers::Peers;
use crate::interop::{Env, programs};
use crate::project::Project;

/// Writes, installs and uses every package.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let out = Peers::of(project, "packages")?.cases()?.join("dist");
    dist::check_built(project, programs::gateway(project)?.into(), out)?;
    Ok(Env::new())
}
