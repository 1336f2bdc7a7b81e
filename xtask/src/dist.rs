//! `cargo xtask dist`: packages the binary and the SDKs for common package managers.
//!
//! ```text
//! cargo build ──► binary ──► Payload (binary, licences, completions, man pages, unit) ──┬─► .tar.gz    for any machine
//!                                                                                       ├─► .whl       pip
//!                                                                                       ├─► .tgz (npm) the launcher, and the binary of this platform
//!                                                                                       ├─► .deb       apt
//!                                                                                       └─► .image.tar containers
//! sdk/python, sdk/typescript, sdk/react ──► .whl and .tgz          everything ──► SBOM, SHA256SUMS
//! ```
//!
//! Invariants: two runs over the same binary write the same bytes; every package carries both licences; the platform tags
//! name what the binary needs (the glibc version is read from the binary). The same command on other platforms makes their
//! packages.
//!
//! `--check` installs every package into an environment of its own and runs the demo from it ([`check`]).
//!
//! Uploading is not part of it. The writers come with the feature `dist`; a build without it starts one with it.

#[cfg(feature = "dist")]
mod archive;
#[cfg(feature = "dist")]
mod check;
#[cfg(feature = "dist")]
mod debian;
#[cfg(feature = "dist")]
mod image;
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

#[cfg(feature = "dist")]
use anyhow::Context as _;
use anyhow::Result;
use clap::Args;

#[cfg(feature = "dist")]
use crate::files;
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
    /// A binary that is already built, instead of building one
    #[arg(long, value_name = "PATH", conflicts_with = "profile")]
    binary: Option<PathBuf>,
    /// Install every package into an environment of its own and run the demo from it
    #[arg(long)]
    check: bool,
}

/// Writes the packages of a binary that is already built, and installs each.
///
/// # Errors
///
/// Fails if a package cannot be written, installed or used; the error lists all that cannot.
pub(crate) fn check_built(project: &Project, binary: PathBuf, out: PathBuf) -> Result<()> {
    let args = DistArgs { profile: String::new(), out: Some(out), binary: Some(binary), check: true };
    run(project, &args)
}

/// Starts this tool again, built with the writers of packages.
#[cfg(not(feature = "dist"))]
pub(crate) fn run(project: &Project, args: &DistArgs) -> Result<()> {
    let text = crate::interop::peers::text;
    let mut call = project.cargo(["run", "--quiet", "--package", "aqueduct-xtask", "--features", "dist"]);
    call = call.args(["--", "dist"]);
    call = match &args.binary {
        Some(binary) => call.args(["--binary".to_owned(), text(binary)?]),
        None => call.args(["--profile", &args.profile]),
    };
    if let Some(out) = &args.out {
        call = call.args(["--out".to_owned(), text(out)?]);
    }
    if args.check {
        call = call.args(["--check"]);
    }
    call.run()
}

/// Builds the binary, writes every package, and installs each if `--check` is set.
#[cfg(feature = "dist")]
pub(crate) fn run(project: &Project, args: &DistArgs) -> Result<()> {
    let target = project.metadata()?.target_directory()?;
    let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
    // npm runs in the folder of the package that it packs.
    let out = std::path::absolute(&out).with_context(|| format!("cannot find {}", out.display()))?;
    let built = match &args.binary {
        Some(binary) => binary.clone(),
        None => payload::build(project, &args.profile, &target)?,
    };
    let payload = payload::Payload::collect(project, &built, &target)?;
    write(project, &payload, &out)?;
    println!("packages are in {}", out.display());
    if args.check { check::run(project, &payload, &out) } else { Ok(()) }
}

/// Writes every package, the bill of materials and the checksums.
#[cfg(feature = "dist")]
fn write(project: &Project, payload: &payload::Payload, out: &std::path::Path) -> Result<()> {
    files::recreate(out)?;
    archive::write(payload, out)?;
    wheel::write(payload, out)?;
    npm::write(payload, out)?;
    debian::write(payload, out)?;
    image::write(payload, out)?;
    sbom::write(project, payload, out)?;
    sdk::write(project, &payload.version, out)?;
    for line in archive::write_checksums(out)? {
        println!("    {line}");
    }
    Ok(())
}
