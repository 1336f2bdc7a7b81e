//! The packages of the SDKs: a wheel for Python, tarballs for npm, at the version of the workspace.
//!
//! Each SDK's own build tool makes its package; this module checks the version and reports missing files.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::interop::peers::{check_node, check_python, text};
use crate::invocation::Invocation;
use crate::project::Project;

/// The npm packages below `sdk/`.
const NPM: [&str; 2] = ["sdk/typescript", "sdk/react"];

/// Writes the packages of every SDK.
///
/// # Errors
///
/// Fails if an SDK has another version than the workspace, or its build tool fails.
pub(super) fn write(project: &Project, version: &str, out: &Path) -> Result<()> {
    for folder in NPM {
        check_version(project, &format!("{folder}/package.json"), &format!("\"version\": \"{version}\""))?;
        let folder = project.root().join(folder);
        check_node(&folder)?;
        Invocation::new("npm", &folder)
            .args(["pack", "--silent", "--pack-destination", &text(out)?])
            .output()?;
    }
    check_version(project, "sdk/python/pyproject.toml", &format!("version = \"{version}\""))?;
    let folder = project.root().join("sdk/python");
    check_python(&folder)?;
    let pip = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"];
    Invocation::new("python3", &folder).args(pip).args([text(out)?, ".".to_owned()]).output().map(drop)
}

fn check_version(project: &Project, file: &str, line: &str) -> Result<()> {
    let path = project.root().join(file);
    let content =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(content.contains(line), "{file}: expected `{line}`, the version of the workspace");
    Ok(())
}
