//! `cargo xtask tidy`: the rules of the project that no compiler checks.
//!
//! ```text
//! cargo, git, files ──load──► Model ──checks (pure)──► findings ──► report
//! ```
//!
//! Only `load` reads the disk. Each check is a pure function over the [`Model`], tested with a good and a bad model in memory.
//! A finding has a location, a rule and a remedy. Checks never change a file.

mod checks;
mod finding;
mod layer;
mod load;
mod model;

use anyhow::{Result, bail};

use crate::project::Project;
use crate::tidy::finding::{Finding, Severity};
use crate::tidy::model::Model;

/// Loads the workspace, runs every check and prints the findings.
pub(crate) fn run(project: &Project) -> Result<()> {
    let model = load::model(project)?;
    let findings = check(&model);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let (crates, files) = (model.workspace.members.len(), model.tree.files.len());
    println!("tidy: {crates} crates, {files} files, {errors} errors, {} warnings", findings.len() - errors);
    if errors > 0 {
        bail!("tidy found {errors} errors");
    }
    Ok(())
}

fn check(model: &Model) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in checks::ALL {
        check(model, &mut findings);
    }
    findings
}
