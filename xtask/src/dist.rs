//! `cargo xtask dist`: packages the binary and the SDKs for common package managers.
//!
//! ```text
//! cargo build ──► binary ──► Payload (binary, licences, completions, man pages, unit) ──┬─► .tar.gz    for any machine
//!                                                                                       ├─► .whl       pip
//!                                                                                       ├─► .tgz (npm) the launcher, and the binary of this platform
//!                                                                                       └─► .deb       apt
//! sdk/python, sdk/typescript, sdk/react ──► .whl and .tgz          everything ──► SBOM, SHA256SUMS
//! ```
//!
//! Invariants: two runs over the same binary write the same bytes; every package carries both licences; the platform tags
//! name what the binary needs (the glibc version is read from the binary). Packages for other platforms are made by the
//! name what the binary needs (the glibc version is read from the binary). The same command on other platforms makes their
//! packages.
//!
//! Uploading is not part of it. The writers come with the feature `dist`; a build without it starts one with it.

#[cfg(feature = "dist")]
mod archive;
#[cfg(feature = "dist")]
mod debian;
#[cfg(feature = "dist")]
mod npm;
#[cfg(feature = "dist")]
mod payload;
#[cfg(feature = "dist")]
mod platform;
#[cfg(feature = "dist")]
mod sbom;
#[cfg(feature = "dist")]
mod sdk;
#[cfg(feature = "dist")]
mod wheel;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::project::Project;

/// Options of `dist`.
#[derive(Debug, Args)]
pub(crate) struct DistArgs {
    /// The cargo profile that the binary is built with
    #[arg(long, default_value = "release")]
    profile: String,
    /// Where the packages go [default: dist, in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Starts this tool again, built with the writers of packages.
#[cfg(not(feature = "dist"))]
pub(crate) fn run(project: &Project, args: &DistArgs) -> Result<()> {
    let call = project.cargo(["run", "--quiet", "--package", "aqueduct-xtask", "--features", "dist"]);
    let call = call.args(["--", "dist", "--profile", &args.profile]);
    match &args.out {
        Some(out) => call.args(["--out".to_owned(), crate::interop::peers::text(out)?]).run(),
        None => call.run(),
    }
}

/// Builds the binary and writes every package.
#[cfg(feature = "dist")]
pub(crate) fn run(project: &Project, args: &DistArgs) -> Result<()> {
    use anyhow::Context as _;

    let target = project.metadata()?.target_directory()?;
    let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let payload = payload::Payload::build(project, &args.profile, &target)?;
    archive::write(&payload, &out)?;
    wheel::write(&payload, &out)?;
    npm::write(&payload, &out)?;
    debian::write(&payload, &out)?;
    sbom::write(project, &payload, &out)?;
    sdk::write(project, &payload.version, &out)?;
    for line in archive::write_checksums(&out)? {
        println!("    {line}");
    }
    println!("packages are in {}", out.display());
    Ok(())
}
