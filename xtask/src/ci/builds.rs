//! Builds that check further properties of the libraries: without an operating system, with the oldest compiler, with allowed
//! dependencies only, and without breaking changes.
//!
//! Each needs a tool that a machine may lack. A missing tool is named with the command that installs it, and the step is
//! skipped.

use std::path::Path;

use anyhow::{Result, bail};

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
        println!("    the target {WASM} is not installed: `rustup target add {WASM}`");
        return Ok(());
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
        println!(
            "    Rust {version} is not installed: `rustup toolchain install {version} --profile minimal`"
        );
        return Ok(());
    }
    let target = project.metadata()?.target_directory()?.join("oldest");
    let newer = NEWER.iter().flat_map(|name| ["--exclude", name]);
    let call = rustup(&["run", version, "cargo", "check"]).args(EVERYTHING).args(newer);
    // Otherwise the variable that names the cargo of this task would be used.
    let call = call.env("CARGO_TARGET_DIR", target.to_string_lossy()).env("RUSTUP_TOOLCHAIN", version);
    println!("    {call}");
    call.run()
}

/// Checks licences, sources and known vulnerabilities of dependencies.
pub(super) fn check_dependencies(project: &Project) -> Result<()> {
    if !project.root().join("deny.toml").exists() || project.cargo(["deny", "--version"]).output().is_err() {
        println!(
            "    cargo-deny is not installed, or there is no deny.toml: `cargo install --locked cargo-deny`"
        );
        return Ok(());
    }
    // The database of vulnerabilities is fetched by hand, where the machine may fetch it.
    project.cargo(["deny", "--offline", "check", "bans", "licenses", "sources"]).run()
}

/// Compares the public items of the libraries with those of the last release.
pub(super) fn check_semver(project: &Project) -> Result<()> {
    // By version: in alphabetical order `v0.10.0` comes before `v0.9.0`.
    let sorted = ["tag", "--list", "v*", "--sort=version:refname"];
    let tags = Invocation::new("git", project.root()).args(sorted).output();
    let tags = tags.unwrap_or_default();
    let Some(last) = tags.lines().next_back() else {
        println!("    there is no release yet (no tag `v*`): nothing to compare with");
        return Ok(());
    };
    if project.cargo(["semver-checks", "--version"]).output().is_err() {
        println!("    cargo-semver-checks is not installed: `cargo install --locked cargo-semver-checks`");
        return Ok(());
    }
    project.cargo(["semver-checks", "--baseline-rev", last]).run()
}
