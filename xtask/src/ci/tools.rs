//! Checks the tools of the machine before the long steps start.
//!
//! All missing tools are reported at once. Nothing is installed.

use anyhow::{Result, bail};

use crate::interop::{EVERYTHING, peers, programs};
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

/// Returns a call of nextest for all tests, or `cargo test` if nextest is not installed.
pub(crate) fn test_runner(project: &Project) -> Result<Invocation> {
    if !has_nextest(project) {
        return Ok(project.cargo(["test"]).args(EVERYTHING));
    }
    Ok(project.cargo(["nextest", "run", "--profile", "ci"]).args(programs::selection(project)?))
}

/// Returns how many tests run side by side where most of them wait for sockets and clocks: three for each core.
pub(crate) fn waiting_threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (3 * cores).to_string()
}
