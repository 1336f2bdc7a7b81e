//! The packages of the SDKs: a wheel for Python, tarballs for npm, at the version of the workspace.
//!
//! `npm pack` makes the tarballs. The wheel is written here from `pyproject.toml`: the SDK is plain Python, so a build tool would only
//! add a download to every release. `pip install ./sdk/python` still builds with the tool that `pyproject.toml` names.

mod python;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::files;
use crate::interop::peers::{check_node, text};
use crate::invocation::Invocation;
use crate::project::Project;

/// The npm packages below `sdk/`.
const NPM: [&str; 2] = ["sdk/typescript", "sdk/react"];

/// Writes the packages of every SDK.
///
/// # Errors
///
/// Fails if an SDK has another version than the workspace, or `npm pack` fails.
pub(super) fn write(project: &Project, version: &str, out: &Path) -> Result<()> {
    for folder in NPM {
        check_version(project, &format!("{folder}/package.json"), &format!("\"version\": \"{version}\""))?;
        let folder = project.root().join(folder);
        check_node(&folder)?;
        Invocation::new("npm", &folder)
            .args(["pack", "--silent", "--pack-destination", &text(out)?])
            .output()?;
    }
    python::write(&project.root().join("sdk/python"), version, out)
}

fn check_version(project: &Project, file: &str, line: &str) -> Result<()> {
    let content = files::read(&project.root().join(file))?;
    ensure!(content.contains(line), "{file}: expected `{line}`, the version of the workspace");
    Ok(())
}
