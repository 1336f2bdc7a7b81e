//! `cargo xtask codegen`: writes generated code into the tree, or proves that what is there is current.
//!
//! Generated code is checked in, so that building the workspace needs no compiler but Rust's. The compiler for
//! protobuf comes with this tool's feature `codegen`; a build without it starts one with it.

#[cfg(feature = "codegen")]
mod generator;
#[cfg(feature = "codegen")]
mod proto;
#[cfg(feature = "codegen")]
mod table;

use anyhow::Result;

use crate::project::Project;

/// Generates everything in the table; with `check` only compares.
#[cfg(feature = "codegen")]
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    generator::run_all(project, table::GENERATORS, check)
}

/// Starts this tool again, built with the protobuf compiler.
#[cfg(not(feature = "codegen"))]
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    let call = project.cargo(["run", "--quiet", "--package", "aqueduct-xtask", "--features", "codegen"]);
    let call = call.args(["--", "codegen"]);
    if check { call.args(["--check"]).run() } else { call.run() }
}
