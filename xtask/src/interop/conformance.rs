//! Conformance suites of others: Autobahn, which needs Python 2.7, and schemathesis.

use std::path::Path;

use anyhow::Result;

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

const PYTHON2_HINT: &str = "install Python 2.7 with pip (for example `pyenv install 2.7.18`): the Autobahn suite runs on no other; \
                            the variable AQUEDUCT_PYTHON2 names it if it is not in PATH";

/// Installs the suites and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "conformance")?;
    let python2 = python2(peers.scripts())?;
    let autobahn = peers.python_packages("autobahn", &python2, PYTHON2_HINT)?;
    let schemathesis = peers.python_venv("schemathesis")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
        ("AQUEDUCT_INTEROP_PYTHON2", python2),
        ("AQUEDUCT_INTEROP_AUTOBAHN", text(&autobahn)?),
        ("AQUEDUCT_INTEROP_SCHEMATHESIS", text(&schemathesis)?),
        ("AQUEDUCT_INTEROP_OPENAPI", text(&project.root().join("docs/reference/openapi.json"))?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}

/// Returns the Python 2.7 of this machine: no package manager of the others has it.
fn python2(folder: &Path) -> Result<String> {
    let name = std::env::var("AQUEDUCT_PYTHON2").unwrap_or_else(|_| "python2.7".to_owned());
    Invocation::new(&name, folder).args(["-m", "pip", "--version"]).hint(PYTHON2_HINT).output()?;
    Ok(name)
}
