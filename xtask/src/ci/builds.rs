//! Builds that check further properties of the libraries: without an operating system, with the oldest compiler, with allowed
//! dependencies only, and without breaking changes.
//!
//! Each needs a tool that a machine may lack. A missing tool is named with the command that installs it, and the step is
//! skipped.

use anyhow::{Result, bail};

use crate::interop::EVERYTHING;
use crate::project::Project;

/// The packages that must not need an operating system: the canonical model and the adapters.
const SANS_IO: [&str; 4] =
    ["aqueduct-core", "aqueduct-adapter-agui", "aqueduct-adapter-a2a", "aqueduct-adapter-magentic"];

/// A target without sockets, threads and clocks.
const WASM: &str = "wasm32-unknown-unknown";

/// Builds core and the adapters for a target without an operating system.
pub(super) fn check_wasm(project: &Project) -> Result<()> {
    let folder = crate::invocation::Invocation::new("rustc", project.root())
        .args(["--print", "target-libdir", "--target", WASM])
        .output()?;
    if !std::path::Path::new(folder.trim()).is_dir() {
        println!("    the target {WASM} is not installed: `rustup target add {WASM}`");
        return Ok(());
    }
    let packages = SANS_IO.iter().flat_map(|name| ["--package", name]);
    let call =
        project.cargo(["check", "--quiet", "--target", WASM, "--features", "aqueduct-adapter-agui/proto"]);
    let call = call.args(packages);
    println!("    {call}");
    call.run()
}

/// Checks everything with the oldest compiler that the manifests name.
pub(super) fn check_oldest(project: &Project) -> Result<()> {
    let manifest = std::fs::read_to_string(project.root().join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let version =
        manifest.get("workspace").and_then(|table| table.get("package")?.get("rust-version")?.as_str());
    let Some(version) = version else { bail!("Cargo.toml names no `workspace.package.rust-version`") };
    let rustup =
        |args: &[&str]| crate::invocation::Invocation::new("rustup", project.root()).args(args.to_vec());
    if rustup(&["run", version, "cargo", "--version"]).output().is_err() {
        println!(
            "    Rust {version} is not installed: `rustup toolchain install {version} --profile minimal`"
        );
        return Ok(());
    }
    let target = project.metadata()?.target_directory()?.join("oldest");
    let call = rustup(&["run", version, "cargo", "check"]).args(EVERYTHING);
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
    let tags =
        crate::invocation::Invocation::new("git", project.root()).args(["tag", "--list", "v*"]).output();
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
