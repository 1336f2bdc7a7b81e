//! Installs the SDKs into one application each, and lets the applications use them with an installed binary.
//!
//! ```text
//! venv:          aqueduct-magentic records a workflow ──► aqueduct convert reads it
//! node_modules:  aqueduct-agui runs an agent of aqueduct demo ──► aqueduct-react folds its events; tsc checks the types of both
//! ```

use anyhow::{Result, ensure};

use super::demo::Demo;
use super::sandbox::Sandbox;
use super::{Outcome, Packages, installers};
use crate::dist::payload::PACKAGE;
use crate::files;
use crate::interop::peers::{Peers, text};
use crate::invocation::Invocation;

/// Installs and uses every SDK.
pub(super) fn check(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<Outcome> {
    let scripts = Peers::of(packages.project, "packages")?;
    let script = |name: &str| scripts.scripts().join(name);
    let python = installers::virtual_environment(packages, sandbox, &[PACKAGE, "aqueduct-magentic"])?;
    let aqueduct = sandbox.call(sandbox.path("venv/bin/aqueduct")?);
    check_python(packages, sandbox, &python.args([text(&script("use.py"))?]), &aqueduct)?;
    install_node(packages, sandbox)?;
    for name in ["use.mjs", "types.mts"] {
        sandbox.write(name, &files::read(&script(name))?)?;
    }
    check_node(sandbox, &aqueduct)?;
    let compiler = scripts.npm_project("peers")?.join("node_modules/typescript/bin/tsc");
    let strict = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"];
    let call = sandbox.call("node").args([text(&compiler)?]).args(strict);
    call.args(["--lib", "es2022,dom", "types.mts"]).output()?;
    Ok(Outcome::Passed)
}

fn check_python(
    packages: &Packages<'_>,
    sandbox: &Sandbox,
    python: &Invocation,
    aqueduct: &Invocation,
) -> Result<()> {
    let recorded = sandbox.path("run.jsonl")?;
    let version = python.clone().args([recorded.clone()]).output()?;
    ensure!(
        version.trim() == packages.payload.version,
        "the wheel of the SDK has version {}",
        version.trim()
    );
    let convert = aqueduct.clone().args(["convert", "--from", "magentic", "--to", "response", &recorded]);
    let response = convert.output()?;
    ensure!(response.contains("Rust is safe."), "`{convert}` wrote {response}");
    Ok(())
}

/// Installs the npm packages; npm adds the peers that they name.
fn install_node(packages: &Packages<'_>, sandbox: &Sandbox) -> Result<()> {
    sandbox
        .write("package.json", "{ \"name\": \"application\", \"private\": true, \"type\": \"module\" }\n")?;
    let names = ["aqueduct-agui", "aqueduct-react", "@types/react"];
    packages.npm(sandbox)?.args(["install"]).args(names).output()?;
    for name in ["aqueduct-agui", "aqueduct-react"] {
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "src/index.d.ts"] {
            let path = sandbox.folder().join("node_modules").join(name).join(file);
            ensure!(path.is_file(), "the package {name} has no {file}");
        }
    }
    Ok(())
}

fn check_node(sandbox: &Sandbox, aqueduct: &Invocation) -> Result<()> {
    let demo = Demo::start(aqueduct)?;
    let used = sandbox.call("node").args(["use.mjs", &demo.agent("team")]).output()?;
    demo.stop()?;
    let expected = r#"{"lanes":["researcher: done","writer: done"],"last":true,"form":true}"#;
    ensure!(used.trim() == expected, "the application saw {used}");
    Ok(())
}
