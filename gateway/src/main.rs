//! The `aqueduct` program. Everything is in the library, so that tests can call it.

use std::process::ExitCode;

/// The allocator of releases: memory that a peak of runs needed goes back to the system
/// (`docs/decisions/0093-jemalloc-in-releases.md`).
#[cfg(aqueduct_jemalloc)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    aqueduct_gateway::run(std::env::args_os())
}
