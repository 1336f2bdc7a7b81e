//! The released program: the gateway as packages contain it and benches measure it.
//!
//! Its allocator is jemalloc, which a plain `cargo build` leaves out: it is C code whose build needs `make`
//! (`docs/decisions/0093-jemalloc-in-releases.md`).

use std::path::PathBuf;

use anyhow::Result;

use crate::invocation::Invocation;
use crate::project::Project;

/// The package of the program.
pub(crate) const PACKAGE: &str = "aqueduct-gateway";

/// The configuration with which the program allocates by jemalloc.
const ALLOCATOR: &str = "--cfg aqueduct_jemalloc";

/// Builds the program with a cargo profile, and returns its path.
///
/// # Errors
///
/// Returns an error if cargo fails.
pub(crate) fn build(project: &Project, profile: &str) -> Result<PathBuf> {
    let call = project.cargo(["build", "--package", PACKAGE, "--bin", "aqueduct", "--profile", profile]);
    let call = call.hint("the released program contains jemalloc: install a C compiler and `make`");
    with_allocator(call).run()?;
    let name = format!("aqueduct{}", std::env::consts::EXE_SUFFIX);
    Ok(project.metadata()?.target_directory()?.join(profile).join(name))
}

/// Returns a call of cargo that sees the dependencies of the released program.
pub(crate) fn with_allocator(call: Invocation) -> Invocation {
    call.env("RUSTFLAGS", flags(std::env::var("RUSTFLAGS").ok().as_deref()))
}

/// Adds the allocator to the compiler flags of the environment.
fn flags(given: Option<&str>) -> String {
    given.map_or_else(|| ALLOCATOR.to_owned(), |given| format!("{given} {ALLOCATOR}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_environment_are_kept() {
        assert_eq!(flags(None), "--cfg aqueduct_jemalloc");
        assert_eq!(flags(Some("-C target-cpu=native")), "-C target-cpu=native --cfg aqueduct_jemalloc");
    }
}
