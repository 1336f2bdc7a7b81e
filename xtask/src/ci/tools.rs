//! What the machine must have before the long steps start, and what to do if it has not.
//!
//! All gaps are told at once, so that they are filled in one go. Nothing is installed from here.

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

/// Whether `cargo nextest` can be called.
pub(crate) fn has_nextest(project: &Project) -> bool {
    project.cargo(["nextest", "--version"]).output().is_ok()
}

/// `cargo nextest run`, or `cargo test` where nextest is not installed.
pub(crate) fn test_runner(project: &Project) -> Invocation {
    if has_nextest(project) { project.cargo(["nextest", "run"]) } else { project.cargo(["test"]) }
}
