//! CopilotKit and assistant-ui in a headless Chromium, unmodified and with `sdk/react`, against the gateway.
//!
//! The packages of `sdk/` are packed and installed by npm, as in an application; the compiler of the pages checks their types.
//! The tests prove that the scenes can fail.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::interop::transports::chromium;
use crate::invocation::Invocation;
use crate::project::Project;

/// The packages that the pages use.
const PACKAGES: [&str; 2] = ["sdk/react", "sdk/typescript"];

/// Installs the pages, the runtime and the driver, finds the browser, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "frontends")?;
    let pages = peers.npm_project("pages")?;
    let runtime = Peers::of(project, "gateway")?.npm_project("copilotkit")?;
    let browser = Peers::of(project, "transports")?.npm_project("browser")?;
    install(project, &peers.cases()?, &pages)?;
    check_types(&peers.scripts().join("types.mts"), &pages)?;
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_PAGES", text(&pages)?),
        ("AQUEDUCT_INTEROP_COPILOTKIT", text(&runtime)?),
        ("AQUEDUCT_INTEROP_BROWSER", text(&browser)?),
        ("AQUEDUCT_INTEROP_CHROMIUM", chromium(peers.scripts())?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
        ("AQUEDUCT_INTEROP_CASES", text(&peers.cases()?)?),
    ])
}

/// Packs the packages and installs them with npm.
fn install(project: &Project, folder: &Path, pages: &Path) -> Result<()> {
    let mut packed: Vec<String> = Vec::new();
    for package in PACKAGES {
        let npm = Invocation::new("npm", &project.root().join(package));
        let name = npm.args(["pack", "--silent", "--pack-destination", &text(folder)?]).output()?;
        packed.push(text(&folder.join(name.trim()))?);
    }
    let npm = Invocation::new("npm", pages).args(["install", "--no-save", "--no-audit", "--no-fund"]);
    npm.args(["--ignore-scripts", "--loglevel=error"]).args(packed).output().map(drop)
}

/// Checks the packages' types with an application's compiler.
fn check_types(program: &Path, pages: &Path) -> Result<()> {
    let copied: PathBuf = pages.join("types.mts");
    std::fs::copy(program, &copied).with_context(|| format!("cannot copy {}", program.display()))?;
    let strict = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"];
    let compiler = text(&pages.join("node_modules/typescript/bin/tsc"))?;
    let tsc = Invocation::new("node", pages).args([compiler]).args(strict);
    tsc.args(["--lib", "es2022,dom"]).args([text(&copied)?]).run()
}
