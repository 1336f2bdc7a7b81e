//! [`Generator`]: one generated file with its inputs; and the loop over all of them.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::files;
use crate::invocation::Invocation;
use crate::project::Project;

/// Generates one file of Rust code from files of the tree.
pub(crate) struct Generator {
    /// The name for messages.
    pub(crate) name: &'static str,
    /// The folder of the inputs, from the root of the workspace; imports between them start here.
    pub(crate) folder: &'static str,
    /// The files in that folder.
    pub(crate) inputs: &'static [&'static str],
    /// The file to write, from the root of the workspace; its folder is called `generated`.
    pub(crate) output: &'static str,
    /// Returns the code for the inputs (the folder and the files in it).
    pub(crate) run: fn(&Path, &[&str]) -> Result<String>,
}

impl Generator {
    /// Returns the text of the output: header and code, formatted like `cargo fmt`.
    fn generate(&self, root: &Path) -> Result<String> {
        let folder = root.join(self.folder);
        let code =
            (self.run)(&folder, self.inputs).with_context(|| format!("cannot generate {}", self.name))?;
        let rustfmt = Invocation::new("rustfmt", root).args(["--edition", "2024", "--emit", "stdout"]);
        let rustfmt = rustfmt.hint("install it with `rustup component add rustfmt`");
        rustfmt.output_with(&format!("{}{code}", self.header()))
    }

    fn header(&self) -> String {
        let (name, folder, inputs) = (self.name, self.folder, self.inputs.join("`, `"));
        format!(
            "//! Code for {name}, generated from `{inputs}` in `{folder}`. Do not edit: run `cargo xtask codegen`.\n\
             #![allow(clippy::all, clippy::pedantic, missing_docs, missing_debug_implementations, unreachable_pub, \
             unnameable_types, unused_qualifications, elided_lifetimes_in_paths, rustdoc::all, \
             reason = \"generated\")]\n\n"
        )
    }
}

/// Runs all generators. With `check` nothing is written, and outdated code is an error.
pub(crate) fn run_all(project: &Project, generators: &[Generator], check: bool) -> Result<()> {
    if generators.is_empty() {
        println!("codegen: nothing to generate");
    }
    let mut stale = Vec::new();
    for generator in generators {
        let fresh = generator.generate(project.root())?;
        let path = project.root().join(generator.output);
        if std::fs::read_to_string(&path).is_ok_and(|current| current == fresh) {
            println!("codegen: {} is current", generator.output);
        } else if check {
            stale.push(generator.output);
        } else {
            files::write(&path, &fresh)?;
            println!("codegen: wrote {}", generator.output);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    bail!(
        "not what would be generated: {}\nrun `cargo xtask codegen` and commit the result",
        stale.join(", ")
    )
}

#[cfg(test)]
mod tests;
