//! Checks that libraries compile in parts: without features, and with each feature alone.
//!
//! Only libraries with features for users are listed. All features together are checked by the other steps.

use anyhow::Result;

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
