//! `sdk/typescript` in the real AG-UI clients, against the gateway through a proxy that cuts connections.
//!
//! The package's own tests run first, then an application's compiler checks its types. Then it is copied into the folder of
//! each client, as npm would, because a package resolves its peers from its own folder.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::interop::Env;
use crate::interop::peers::{Peers, text};
use crate::interop::programs;
use crate::invocation::Invocation;
use crate::project::Project;

/// The package's name in `node_modules`.
const PACKAGE: &str = "aqueduct-agui";

/// Installs the peers, tests the package, and returns their locations.
pub(crate) fn prepare(project: &Project) -> Result<Env> {
    let peers = Peers::of(project, "resume")?;
    let compiler = peers.npm_project("types")?.join("node_modules/typescript/bin/tsc");
    let package = project.root().join("sdk/typescript");
    Invocation::new("node", &package).args(["--test", "test/"]).run()?;
    // The rest of it needs frontends: see the suite `frontends`.
    Invocation::new("node", &project.root().join("sdk/react")).args(["--test", "test/"]).run()?;
    let (new, old) = (client(project, "client-1.0.0")?, client(project, "client-0.0.59")?);
    for client in [&new, &old] {
        check_types(&compiler, &peers.scripts().join("types/use.mts"), client)?;
    }
    let scripts = peers.scripts().parent().context("the scripts have no folder")?;
    Ok(vec![
        ("AQUEDUCT_INTEROP_DIR", text(scripts)?),
        ("AQUEDUCT_INTEROP_AGUI_1_0", text(&new)?),
        ("AQUEDUCT_INTEROP_AGUI_0_0_59", text(&old)?),
        ("AQUEDUCT_INTEROP_GATEWAY", programs::gateway(project)?),
    ])
}

/// Installs a real AG-UI client of the suite `agui` together with the package. Returns the folder with `node_modules`.
pub(super) fn client(project: &Project, name: &str) -> Result<PathBuf> {
    let client = Peers::of(project, "agui")?.npm_project(name)?;
    install(&project.root().join("sdk/typescript"), &client)?;
    Ok(client)
}

/// Copies the files that would be published.
fn install(package: &Path, client: &Path) -> Result<()> {
    let folder = client.join("node_modules").join(PACKAGE);
    let sources = folder.join("src");
    std::fs::create_dir_all(&sources).with_context(|| format!("cannot create {}", sources.display()))?;
    copy(&package.join("package.json"), &folder)?;
    for file in std::fs::read_dir(package.join("src")).context("cannot read the package")? {
        copy(&file?.path(), &sources)?;
    }
    Ok(())
}

fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    let copied = folder.join(file.file_name().context("a file without a name")?);
    std::fs::copy(file, &copied).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(copied)
}

fn check_types(compiler: &Path, program: &Path, client: &Path) -> Result<()> {
    let program = copy(program, client)?;
    let strict =
        ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"];
    Invocation::new("node", client).args([text(compiler)?]).args(strict).args([text(&program)?]).run()
}
