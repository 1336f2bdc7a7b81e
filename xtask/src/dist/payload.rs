//! [`Payload`]: the contents of every package of the binary.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::platform::Platform;
use crate::files;
use crate::invocation::Invocation;
use crate::project::Project;
use crate::released;

/// The name of the packages that contain the binary, in every registry.
pub(super) const PACKAGE: &str = released::PACKAGE;

/// The summary for package managers.
pub(super) const SUMMARY: &str =
    "Carries any agent's stream (A2A, AG-UI, Microsoft Agent Framework) to any agent frontend, intact";

/// The address of the project in package metadata.
pub(super) const HOMEPAGE: &str = "https://github.com/aqueduct-rs/aqueduct";

/// The licence expression of every package.
pub(super) const LICENCE: &str = "Apache-2.0 OR MIT";

/// A file of a package.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// The path relative to the root of the package, with `/`.
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) is_executable: bool,
}

impl File {
    /// Returns a plain file.
    pub(super) fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), content: content.into(), is_executable: false }
    }

    /// Returns an executable file.
    pub(super) fn program(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { is_executable: true, ..Self::new(path, content) }
    }
}

/// The binary and the files that belong to it.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) version: String,
    pub(super) platform: Platform,
    pub(super) binary: Vec<u8>,
    /// Where the binary is on this machine.
    pub(super) path: PathBuf,
    pub(super) readme: Vec<u8>,
    /// `LICENSE-APACHE` and `LICENSE-MIT`, without folder.
    pub(super) licences: Vec<File>,
    /// Completions by their path below `/usr/share`.
    pub(super) completions: Vec<File>,
    /// Man pages, without folder.
    pub(super) man_pages: Vec<File>,
    /// The systemd unit.
    pub(super) unit: Vec<u8>,
}

impl Payload {
    /// Collects a binary and the files that belong to it. Completions and man pages are what the binary writes.
    pub(super) fn collect(project: &Project, built: &Path, target: &Path) -> Result<Self> {
        let platform = Platform::here()?;
        let built = built.canonicalize().with_context(|| format!("cannot find {}", built.display()))?;
        let binary = stripped(project, &built, target)?;
        let read = |path: &str| files::read_bytes(&project.root().join(path));
        let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
        let licences =
            licences.iter().map(|name| Ok(File::new(*name, read(name)?))).collect::<Result<_>>()?;
        Ok(Self {
            version: version(project)?,
            platform,
            readme: read("README.md")?,
            licences,
            completions: completions(project, &binary.path)?,
            man_pages: man_pages(project, &binary.path, target)?,
            unit: read("deploy/systemd/aqueduct.service")?,
            binary: binary.content,
            path: binary.path,
        })
    }
}

/// Builds the binary with a cargo profile. Returns its path.
pub(super) fn build(project: &Project, profile: &str, target: &Path) -> Result<PathBuf> {
    if profile != "dev" {
        return released::build(project, profile);
    }
    // Tests use the binary of the other steps; a release has only the gateway's own features.
    project.cargo(["build", "--bin", "aqueduct"]).args(crate::interop::EVERYTHING).run()?;
    Ok(target.join("debug").join(Platform::here()?.binary()))
}

/// Returns the version of the gateway, which all packages share.
pub(super) fn version(project: &Project) -> Result<String> {
    let metadata = project.metadata()?;
    let gateway = metadata.package(PACKAGE).context("the workspace has no gateway")?;
    Ok(gateway.version().to_owned())
}

struct Binary {
    path: PathBuf,
    content: Vec<u8>,
}

/// Reads the binary without its symbols. If `strip` is missing, the binary is unchanged.
fn stripped(project: &Project, built: &Path, target: &Path) -> Result<Binary> {
    let small = target.join("aqueduct-stripped");
    let (from, to) = (crate::interop::peers::text(built)?, crate::interop::peers::text(&small)?);
    let strip = Invocation::new("strip", project.root()).args(["-o", &to, &from]);
    let path = if strip.output().is_ok() { small } else { built.to_owned() };
    let content = files::read_bytes(&path)?;
    Ok(Binary { path, content })
}

fn completions(project: &Project, binary: &Path) -> Result<Vec<File>> {
    let shells = [
        ("bash", "bash-completion/completions/aqueduct"),
        ("zsh", "zsh/vendor-completions/_aqueduct"),
        ("fish", "fish/vendor_completions.d/aqueduct.fish"),
    ];
    let binary = crate::interop::peers::text(binary)?;
    let write = |(shell, path)| {
        let script = Invocation::new(binary.clone(), project.root()).args(["completions", shell]).output()?;
        Ok(File::new(path, script))
    };
    shells.into_iter().map(write).collect()
}

fn man_pages(project: &Project, binary: &Path, target: &Path) -> Result<Vec<File>> {
    let folder = target.join("man");
    // Pages of commands that no longer exist must not be packaged.
    files::recreate(&folder)?;
    let text = crate::interop::peers::text;
    Invocation::new(text(binary)?, project.root()).args(["man", "--out", &text(&folder)?]).output()?;
    let page = |path: PathBuf| Ok(File::new(files::name(&path)?, files::read_bytes(&path)?));
    files::list(&folder)?.into_iter().map(page).collect()
}
