//! Checks that libraries compile in parts: without features, and with each feature alone.
//!
//! Only libraries with features for users are listed. All features together are checked by the other steps, whose selections must
//! give foreign crates the same features, because cargo compiles a crate again for every other set of them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::interop::EVERYTHING;
use crate::project::Project;

/// Packages and their features.
const CHOICES: &[(&str, &[&str])] = &[
    ("aqueduct", &["agui,http", "a2a,http", "agui,ws", "grpc", "magentic"]),
    ("aqueduct-transport-grpc", &["client", "server", "tls"]),
    ("aqueduct-transport-http", &["client", "server", "tls"]),
    ("aqueduct-transport-ws", &["client", "server", "tls"]),
];

/// Lints every combination.
pub(super) fn check(project: &Project) -> Result<()> {
    for (package, features) in CHOICES {
        for feature in std::iter::once(&"").chain(*features) {
            let call = project.cargo(["clippy", "--quiet", "--package", package, "--no-default-features"]);
            let call = call.args(["--features", feature, "--", "-D", "warnings"]);
            println!("    {call}");
            call.run()?;
        }
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
