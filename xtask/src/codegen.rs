//! `cargo xtask codegen`: writes generated code into the tree, or checks that it is current.
//!
//! Generated code is checked in, so that building the workspace needs only a Rust compiler. The compiler for protobuf comes
//! with this tool's feature `codegen`; a build without the feature starts one with it.

#[cfg(feature = "codegen")]
mod generator;
#[cfg(feature = "codegen")]
mod proto;
#[cfg(feature = "codegen")]
mod table;

use anyhow::Result;

use crate::project::Project;

/// Generates all code of the table; with `check` only compares.
#[cfg(feature = "codegen")]
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    generator::run_all(project, table::GENERATORS, check)
}

/// Starts this tool again, built with the protobuf compiler.
#[cfg(not(feature = "codegen"))]
pub(crate) fn run(project: &Project, check: bool) -> Result<()> {
    let call = if project.is_built() {
        let program = crate::interop::programs::build_one(project, "aqueduct-xtask")?;
        crate::invocation::Invocation::new(program.to_string_lossy(), project.root())
    } else {
        project.cargo(["run", "--quiet", "--package", "aqueduct-xtask", "--features", "codegen", "--"])
    };
    let call = call.args(["codegen"]);
    if check { call.args(["--check"]).run() } else { call.run() }
}
