//! Checks the tools of the machine before the long steps start.
//!
//! All missing tools are reported at once. Nothing is installed.

use anyhow::{Result, bail};

use crate::interop::peers;
use crate::invocation::Invocation;
use crate::project::Project;

/// Checks the tools of every later step.
pub(crate) fn check(project: &Project) -> Result<()> {
    let mut missing = Vec::new();
    for (component, call) in [("rustfmt", ["fmt", "--version"]), ("clippy", ["clippy", "--version"])] {
        match project.cargo(call).output() {
            Ok(version) => println!("    {}", version.trim()),
            Err(_) => missing.push(format!(
                "cargo {component} not found: install it with `rustup component add {component}`"
            )),
        }
    }
    for found in [peers::check_node(project.root()), peers::check_python(project.root())] {
        match found {
            Ok(version) => println!("    {version}"),
            Err(error) => missing.push(format!("{error:#}")),
        }
    }
    if !has_nextest(project) {
        println!(
            "    cargo-nextest not found, so tests run with `cargo test`: no time limit, one process per crate"
        );
        println!("    hint: `cargo install --locked cargo-nextest`");
    }
    if missing.is_empty() { Ok(()) } else { bail!("this machine lacks:\n  {}", missing.join("\n  ")) }
}

/// Returns `true` if `cargo nextest` is installed.
pub(crate) fn has_nextest(project: &Project) -> bool {
    project.cargo(["nextest", "--version"]).output().is_ok()
}

/// Returns `cargo nextest run`, or `cargo test` if nextest is not installed.
pub(crate) fn test_runner(project: &Project) -> Invocation {
    if has_nextest(project) { project.cargo(["nextest", "run"]) } else { project.cargo(["test"]) }
}
