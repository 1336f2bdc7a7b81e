//! `cargo xtask tidy`: the rules of the project that no compiler checks.
//!
//! ```text
//! cargo, git, files ──load──► Model ──checks (pure)──► findings ──► report
//! ```
//!
//! `load` is the only part that touches the disk. Each check is a pure function over the [`Model`], so each is
//! tested with a good and a bad model in memory. A check says where, which rule, and what to do. Checks never
//! mend anything.

mod checks;
mod finding;
mod layer;
mod load;
mod model;

use anyhow::{Result, bail};

use crate::project::Project;
use crate::tidy::finding::{Finding, Severity};
use crate::tidy::model::Model;

/// Loads the workspace, runs every check and prints what they found.
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
