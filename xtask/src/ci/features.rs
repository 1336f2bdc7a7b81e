//! Checks that libraries compile in parts: without features, and with each feature alone.
//!
//! Only libraries with features for users are listed. All features together are checked by the other steps, whose selections must
//! give foreign crates the same features, because cargo compiles a crate again for every other set of them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::interop::EVERYTHING;
use crate::project::Project;

/// A build of a package with some of its features.
struct Choice {
    package: &'static str,
    features: &'static str,
    /// Packages that this build compiles with features that no other build selects, and that are linted with it.
    linted: &'static [&'static str],
}

impl Choice {
    const fn new(package: &'static str, features: &'static str) -> Self {
        Self { package, features, linted: &[] }
    }

    const fn linting(self, linted: &'static [&'static str]) -> Self {
        Self { linted, ..self }
    }
}

const GRPC: &str = "aqueduct-transport-grpc";
const HTTP: &str = "aqueduct-transport-http";
const WS: &str = "aqueduct-transport-ws";

/// All builds. A package is compiled with every build that depends on it, but linted with one: cargo does not lint what it has
/// compiled, so a build that lints a package comes before the others that compile the package with the same features.
const CHOICES: &[Choice] = &[
    Choice::new("aqueduct", "").linting(&["aqueduct-core", "aqueduct-runlog", "aqueduct-runs"]),
    Choice::new("aqueduct", "agui,http").linting(&["aqueduct-adapter-agui", HTTP]),
    Choice::new("aqueduct", "a2a,http").linting(&["aqueduct-adapter-a2a"]),
    Choice::new("aqueduct", "agui,ws").linting(&[WS]),
    Choice::new("aqueduct", "grpc").linting(&[GRPC]),
    Choice::new("aqueduct", "magentic").linting(&["aqueduct-adapter-magentic"]),
    Choice::new("aqueduct-adapter-a2a", ""),
    Choice::new("aqueduct-adapter-a2a", "proto"),
    Choice::new("aqueduct-adapter-a2a", "server"),
    Choice::new(HTTP, ""),
    Choice::new(HTTP, "client"),
    Choice::new(HTTP, "server"),
    Choice::new(HTTP, "tls"),
    Choice::new(WS, ""),
    Choice::new(WS, "client"),
    Choice::new(WS, "server"),
    Choice::new(WS, "tls"),
    Choice::new(GRPC, ""),
    Choice::new(GRPC, "client"),
    Choice::new(GRPC, "server"),
    Choice::new(GRPC, "tls"),
];

/// Compiles every choice, and lints its packages.
pub(super) fn check(project: &Project) -> Result<()> {
    for Choice { package, features, linted } in CHOICES {
        let call = project.cargo(["clippy", "--quiet", "--no-deps", "--no-default-features"]);
        let call = call.args(std::iter::once(package).chain(*linted).flat_map(|name| ["--package", name]));
        let features = features.split(',').filter(|name| !name.is_empty());
        let call =
            call.args(features.flat_map(|name| ["--features".to_owned(), format!("{package}/{name}")]));
        let call = call.args(["--", "-D", "warnings"]);
        println!("    {call}");
        call.run()?;
    }
    Ok(())
}

/// Checks that dev-dependencies add no feature to a foreign crate: otherwise a build of programs or documentation, which leaves
/// dev-dependencies out, compiles that crate and all that depend on it once more than the tests do.
pub(super) fn check_shared(project: &Project) -> Result<()> {
    let tree = |edges| -> Result<BTreeSet<String>> {
        let call =
            project.cargo(["tree", "--quiet", "--prefix", "none", "--format", "{p} {f}", "--edges", edges]);
        let lines = call.args(EVERYTHING).output()?;
        Ok(lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
    };
    let (programs, tests) = (tree("normal,build")?, tree("normal,build,dev")?);
    let apart: Vec<&str> = programs.difference(&tests).map(String::as_str).collect();
    ensure!(
        apart.is_empty(),
        "dev-dependencies add features to these crates, so CI compiles them twice; name the features in tests/Cargo.toml:\n  {}",
        apart.join("\n  ")
    );
    Ok(())
}
