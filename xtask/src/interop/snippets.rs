//! The Python, TypeScript and JSX snippets of the documentation, compiled against the SDKs.
//!
//! Other snippets are checked by tests of the gateway and doctests. What needs a frontend or a framework is compiled with those modules
//! as anything; the suites of these peers run the same calls.

use anyhow::{Result, ensure};

use crate::interop::Env;
use crate::interop::peers::{Peers, check_python, text};
use crate::invocation::Invocation;
use crate::project::Project;

/// Compiles every snippet, after a snippet that must not compile.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let (suite, root) = (Peers::of(project, "snippets")?, text(project.root())?);
    let script = |name: &str| text(&suite.scripts().join(name));
    check_python(project.root())?;
    let python = Invocation::new("python3", project.root());
    python.args([script("snippets.py")?, root.clone(), "--self-test".to_owned()]).run()?;
    let peers = Peers::of(project, "packages")?.npm_project("peers")?;
    let args = [script("snippets.mjs")?, root, text(&peers)?, text(&suite.cases()?.join("typescript"))?];
    let node = Invocation::new("node", project.root()).args(args);
    ensure!(
        node.clone().args(["--self-test"]).output().is_err(),
        "a snippet that is wrong on purpose compiles"
    );
    node.run()?;
    Ok(Env::new())
}
