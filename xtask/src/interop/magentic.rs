//! The Microsoft Agent Framework: real workflows with scripted models, run through `sdk/python`.
//!
//! The package's own tests run first: wrong lines prove nothing about the adapter. Then `produce.py` writes the lines of each
//! workflow, and the expected results, for the tests of `aqueduct-tests`.

use anyhow::{Context as _, Result};

use crate::interop::peers::{Peers, python_variables, text};
use crate::interop::{Env, with_variables};
use crate::invocation::Invocation;
use crate::project::Project;

/// Installs the framework, tests the package, writes the cases, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "magentic")?;
    let python = text(&peers.python_venv("python")?)?;
    let cases = text(&peers.cases()?)?;
    let package = project.root().join("sdk/python");
    let variables = python_variables(project)?;
    let call = |folder| with_variables(Invocation::new(python.clone(), folder), variables.clone());
    // No cache is written into the source tree.
    call(&package).args(["-m", "mypy", "--no-incremental", "--cache-dir", "/dev/null"]).run()?;
    call(&package).args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).run()?;
    call(peers.scripts()).args(["produce.py", &cases]).run()?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_MAGENTIC_PY", python),
        ("AQUEDUCT_INTEROP_MAGENTIC_CASES", cases),
    ])
}
