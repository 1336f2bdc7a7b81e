//! The AG-UI peers: the npm client at 1.0.0 and 0.0.59, and the Python package at 1.0.0.
//!
//! `oracle.mjs` and `oracle.py` run cases through the real clients. Their self-tests run first: an oracle that accepts a
//! stream that the client rejects proves nothing.

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::invocation::Invocation;
use crate::project::Project;

/// Installs the peers, tests the oracles, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "agui")?;
    let new = peers.npm_project("client-1.0.0")?;
    let old = peers.npm_project("client-0.0.59")?;
    let python = peers.python_venv("python-1.0.0")?;
    for client in [&new, &old] {
        let node = Invocation::new("node", peers.scripts()).args(["oracle.mjs", "--project"]);
        self_test(&node.args([text(client)?]))?;
    }
    self_test(&Invocation::new(text(&python)?, peers.scripts()).args(["oracle.py"]))?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&new)?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", text(&old)?),
        ("AQUEDUCT_INTEROP_AGUI_PY", text(&python)?),
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
    ])
}

fn self_test(oracle: &Invocation) -> Result<()> {
    let report = oracle.clone().args(["--self-test"]).output()?;
    print!("{report}");
    Ok(())
}
