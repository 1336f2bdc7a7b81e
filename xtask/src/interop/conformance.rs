//! Conformance suites of others: Autobahn, which needs Python 2.7, and schemathesis.

use anyhow::{Result, bail};

use crate::ci::Skipped;
use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

const PYTHON2_HINT: &str = "install Python 2.7 with pip (for example `pyenv install 2.7.18`): the Autobahn suite runs on no other; \
                            the variable AQUEDUCT_PYTHON2 names it if it is not in PATH";

/// Installs the Autobahn suite and returns its location.
///
/// # Errors
///
/// Returns [`Skipped`] if there is no Python 2.7: no package manager of the other peers has it.
pub(crate) fn prepare_autobahn(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "conformance")?;
    let python = std::env::var("AQUEDUCT_PYTHON2").unwrap_or_else(|_| "python2.7".to_owned());
    if Invocation::new(&python, peers.scripts()).args(["-m", "pip", "--version"]).output().is_err() {
        bail!(Skipped(format!("`{python} -m pip` cannot be run: {PYTHON2_HINT}")));
    }
    let autobahn = peers.python_packages("autobahn", &python, PYTHON2_HINT)?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
        ("AQUEDUCT_INTEROP_PYTHON2", python),
        ("AQUEDUCT_INTEROP_AUTOBAHN", text(&autobahn)?),
    ])
}

/// Installs schemathesis and returns its location.
pub(crate) fn prepare_schemathesis(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "conformance")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
        ("AQUEDUCT_INTEROP_SCHEMATHESIS", text(&peers.python_venv("schemathesis")?)?),
        ("AQUEDUCT_INTEROP_OPENAPI", text(&project.root().join("docs/reference/openapi.json"))?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}
