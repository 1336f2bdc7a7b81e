//! Builds that check further properties of the libraries: without an operating system, with the oldest compiler, with allowed
//! dependencies only, and without breaking changes.
//!
//! Each needs a tool that a machine may lack. The step is then [`Skipped`], with the name of the tool and the command that
//! installs it.

use std::path::Path;

use anyhow::{Result, bail};

use super::summary::Skipped;
use crate::interop::{EVERYTHING, peers};
use crate::invocation::Invocation;
use crate::project::Project;

/// The packages that must not need an operating system: the canonical model and the adapters.
const SANS_IO: [&str; 4] =
    ["aqueduct-core", "aqueduct-adapter-agui", "aqueduct-adapter-a2a", "aqueduct-adapter-magentic"];

/// A target without sockets, threads and clocks.
const WASM: &str = "wasm32-unknown-unknown";

/// Builds core and the adapters for a target without an operating system.
pub(super) fn check_wasm(project: &Project) -> Result<()> {
    let print = ["--print", "target-libdir", "--target", WASM];
    let folder = Invocation::new("rustc", project.root()).args(print).output()?;
    let call = if Path::new(folder.trim()).is_dir() {
        project.cargo(["check"])
    } else if let Some(cargo) = debian_cargo(project)? {
        cargo
    } else {
        bail!(Skipped(format!("the target {WASM} is not installed: `rustup target add {WASM}`")));
    };
    let packages = SANS_IO.iter().flat_map(|name| ["--package", name]);
    let call =
        call.args(["--quiet", "--target", WASM, "--features", "aqueduct-adapter-agui/proto"]).args(packages);
    println!("    {call}");
    call.run()
}

/// The compiler of Debian that browsers are built with, and the source of its standard library.
const DEBIAN: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";

/// Returns `cargo check` of Debian's compiler, which is installed where it can be, with a standard library that is compiled for
/// the target: Debian has none for it. Returns `None` on other systems.
fn debian_cargo(project: &Project) -> Result<Option<Invocation>> {
    for package in DEBIAN.iter().filter(|_| !Path::new(DEBIAN_SOURCE).is_dir()) {
        peers::debian_package(project.root(), package, "install the target by rustup instead")?;
    }
    if !Path::new(DEBIAN_SOURCE).is_dir() {
        return Ok(None);
    }
    let target = project.metadata()?.target_directory()?.join("wasm");
    let cargo = Invocation::new("/usr/bin/cargo", project.root());
    let cargo = cargo.env("RUSTC", "/usr/bin/rustc").env("CARGO_TARGET_DIR", target.to_string_lossy());
    // A standard library is compiled by unstable options alone.
    Ok(Some(cargo.env("RUSTC_BOOTSTRAP", "1").args(["check", "-Zbuild-std=std,panic_abort"])))
}

/// The gateway, which names a newer compiler in its manifest, and the packages that contain it.
const NEWER: [&str; 4] = ["aqueduct-gateway", "aqueduct-tests", "aqueduct-tests-simulation", "aqueduct-fuzz"];

/// Checks the libraries and examples with the oldest compiler that the manifest of the workspace names.
pub(super) fn check_oldest(project: &Project) -> Result<()> {
    let manifest = std::fs::read_to_string(project.root().join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let version =
        manifest.get("workspace").and_then(|table| table.get("package")?.get("rust-version")?.as_str());
    let Some(version) = version else { bail!("Cargo.toml names no `workspace.package.rust-version`") };
    let rustup = |args: &[&str]| Invocation::new("rustup", project.root()).args(args.to_vec());
    if rustup(&["run", version, "cargo", "--version"]).output().is_err() {
        let remedy = format!("rustup toolchain install {version} --profile minimal");
        bail!(Skipped(format!("Rust {version} is not installed: `{remedy}`")));
    }
    let target = project.metadata()?.target_directory()?.join("oldest");
    let newer = NEWER.iter().flat_map(|name| ["--exclude", name]);
    let call = rustup(&["run", version, "cargo", "check"]).args(EVERYTHING).args(newer);
    // Otherwise the variable that names the cargo of this task would be used.
    let call = call.env("CARGO_TARGET_DIR", target.to_string_lossy()).env("RUSTUP_TOOLCHAIN", version);
    println!("    {call}");
    call.run()
}

/// Checks licences and sources of dependencies, and that no banned crate is among them.
pub(super) fn check_dependencies(project: &Project) -> Result<()> {
    has_tool(project, "cargo-deny")?;
    project.cargo(["deny", "--offline", "check", "bans", "licenses", "sources"]).run()
}

/// Checks dependencies for known vulnerabilities, by the database of `RustSec`.
pub(super) fn check_advisories(project: &Project) -> Result<()> {
    has_tool(project, "cargo-deny")?;
    if project.cargo(["deny", "fetch", "db"]).output().is_err() {
        bail!(Skipped("the database of vulnerabilities cannot be fetched: `cargo deny fetch db`".to_owned()));
    }
    project.cargo(["deny", "check", "advisories"]).run()
}

/// The variable with the revision that public items are compared with, instead of the last release.
const BASELINE: &str = "AQUEDUCT_SEMVER_BASELINE";

/// Compares the public items of the libraries with those of the last release, or of the revision in [`BASELINE`].
pub(super) fn check_semver(project: &Project) -> Result<()> {
    let Some(baseline) = std::env::var(BASELINE).ok().or_else(|| last_release(project)) else {
        bail!(Skipped(format!("no release to compare with (no tag `v*`): name a revision in {BASELINE}")));
    };
    has_tool(project, "cargo-semver-checks")?;
    project.cargo(["semver-checks", "--baseline-rev", &baseline]).run()
}

/// Returns the tag of the last release, if there is one.
fn last_release(project: &Project) -> Option<String> {
    // By version: in alphabetical order `v0.10.0` comes before `v0.9.0`.
    let sorted = ["tag", "--list", "v*", "--sort=version:refname"];
    let tags = Invocation::new("git", project.root()).args(sorted).output().ok()?;
    tags.lines().next_back().map(str::to_owned)
}

/// Checks that a subcommand of cargo is installed.
fn has_tool(project: &Project, package: &str) -> Result<()> {
    let command = package.trim_start_matches("cargo-");
    if project.cargo([command, "--version"]).output().is_err() {
        bail!(Skipped(format!("{package} is not installed: `cargo install --locked {package}`")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_the_command_that_installs_it() {
        let project = Project::locate(None).unwrap();
        let error = has_tool(&project, "cargo-no-such-tool").unwrap_err();
        let reason = error.downcast::<Skipped>().unwrap().to_string();
        assert_eq!(
            reason,
            "cargo-no-such-tool is not installed: `cargo install --locked cargo-no-such-tool`"
        );
    }
}
