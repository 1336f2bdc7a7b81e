//! `cargo xtask mutants`: mutates the code and checks that a test fails.
//!
//! The files are those whose bugs would be silent: numbers, leases, takeovers, balance, coalescing. cargo-mutants lists the
//! mutants that no test detects; `docs/testing.md` explains each remaining one.

use anyhow::{Result, bail};

use crate::project::Project;

/// The mutated files by package.
const FILES: &[(&str, &[&str])] = &[
    ("aqueduct-core", &["core/src/coalesce.rs", "core/src/stream/*.rs", "core/src/principal.rs"]),
    ("aqueduct-runlog", &["runlog/src/ledger.rs", "runlog/src/follow.rs", "runlog/src/remains.rs"]),
    (
        "aqueduct-runs",
        &["runs/src/takeover.rs", "runs/src/sweeper.rs", "runs/src/replica.rs", "runs/src/access.rs"],
    ),
];

/// Mutates one package of the list, or all.
pub(crate) fn run(project: &Project, only: Option<&str>) -> Result<()> {
    if project.cargo(["mutants", "--version"]).output().is_err() {
        println!("    cargo-mutants is not installed: `cargo install --locked cargo-mutants`");
        return Ok(());
    }
    let mut chosen = FILES.iter().filter(|(package, _)| only.is_none_or(|name| name == *package)).peekable();
    if chosen.peek().is_none() {
        let names: Vec<&str> = FILES.iter().map(|(package, _)| *package).collect();
        bail!("no such package in the list; there is: {}", names.join(", "));
    }
    for (package, files) in chosen {
        let files = files.iter().flat_map(|file| ["--file", file]);
        let target = project.metadata()?.target_directory()?.join("mutants");
        let call =
            project.cargo(["mutants", "--package", package, "--all-features", "--test-tool", "nextest"]);
        call.args(files).args(["--output".to_owned(), target.to_string_lossy().into_owned()]).run()?;
    }
    Ok(())
}
