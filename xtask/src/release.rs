//! `cargo xtask release --dry-run`: checks everything that a release needs, and uploads nothing.
//!
//! ```text
//! clean tree ► one version everywhere ► changelog has that version ► tidy (licences, READMEs, metadata) ► cargo package
//! ```
//!
//! All failing checks are reported, not only the first. A person uploads: `RELEASING.md` lists the steps.

use anyhow::{Context as _, Result, bail};

use crate::project::{Metadata, Project};
use crate::{files, tidy};

/// Files outside cargo that contain the version, with the text before and after it.
const VERSIONS: [(&str, &str, &str); 6] = [
    ("deploy/compose/compose.yaml", "image: aqueduct:", "\n"),
    ("deploy/kubernetes/deployment.yaml", "image: aqueduct:", "\n"),
    ("docs/guides/install.md", "/aqueduct_", "_"),
    ("sdk/python/pyproject.toml", "version = \"", "\""),
    ("sdk/typescript/package.json", "\"version\": \"", "\""),
    ("sdk/react/package.json", "\"version\": \"", "\""),
];

/// Checks a release.
///
/// # Errors
///
/// Fails without `dry_run`, and if any check fails; the error lists all of them.
pub(crate) fn run(project: &Project, dry_run: bool) -> Result<()> {
    if !dry_run {
        bail!(
            "a release is uploaded by a person: run `cargo xtask release --dry-run`, then follow RELEASING.md"
        );
    }
    let metadata = project.metadata()?;
    let version = metadata.package("aqueduct").context("the workspace has no package `aqueduct`")?.version();
    let checks: [(&str, Result<()>); 5] = [
        ("tree", check_tree(project)),
        ("versions", check_versions(project, &metadata, version)),
        ("changelog", check_changelog(&read(project, "CHANGELOG.md")?, version)),
        ("tidy", tidy::run(project)),
        ("packages", package(project, &metadata)),
    ];
    let mut failed = Vec::new();
    for (name, outcome) in checks {
        match outcome {
            Ok(()) => println!("  ok      {name}"),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    if failed.is_empty() {
        println!("version {version} can be released: follow RELEASING.md");
        return Ok(());
    }
    bail!("version {version} cannot be released:\n  {}", failed.join("\n  "))
}

fn read(project: &Project, file: &str) -> Result<String> {
    files::read(&project.root().join(file))
}

fn check_tree(project: &Project) -> Result<()> {
    let git = crate::invocation::Invocation::new("git", project.root()).args(["status", "--porcelain"]);
    let changed = git.output()?;
    anyhow::ensure!(changed.trim().is_empty(), "commit or remove these first:\n{}", changed.trim_end());
    Ok(())
}

fn check_versions(project: &Project, metadata: &Metadata, version: &str) -> Result<()> {
    let mut wrong = Vec::new();
    for package in metadata.packages().filter(|package| package.version() != version) {
        wrong.push(format!("{} has {}", package.name(), package.version()));
    }
    for (file, before, after) in VERSIONS {
        let found = value_between(&read(project, file)?, before, after).unwrap_or_default();
        if found != version {
            wrong.push(format!("{file} has `{found}`"));
        }
    }
    anyhow::ensure!(wrong.is_empty(), "expected {version} everywhere: {}", wrong.join(", "));
    Ok(())
}

/// Returns the first text between `before` and `after`.
fn value_between(text: &str, before: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(value, _)| value.to_owned())
}

/// Requires a section `## VERSION - YYYY-MM-DD` with at least one entry.
fn check_changelog(changelog: &str, version: &str) -> Result<()> {
    let heading = format!("## {version} - ");
    let (_, section) = changelog
        .split_once(&heading)
        .with_context(|| format!("CHANGELOG.md has no section `{heading}YYYY-MM-DD`"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let entries = section.lines().filter(|line| line.starts_with("- ")).count();
    anyhow::ensure!(entries > 0, "the section of {version} in CHANGELOG.md is empty");
    Ok(())
}

/// Packages every published crate and compiles what was packaged. Cargo takes crates of the same release from its own output, so no
/// version need be uploaded before.
fn package(project: &Project, metadata: &Metadata) -> Result<()> {
    let published = metadata.packages().filter(|package| package.is_published());
    let selection = published.flat_map(|package| ["--package", package.name()]);
    // One folder for all of them: otherwise cargo compiles every foreign crate once per package.
    let target = crate::interop::peers::text(&metadata.target_directory()?)?;
    project.cargo(["package", "--locked"]).args(selection).args(["--target-dir".to_owned(), target]).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_needs_a_dated_section_with_entries() {
        let text = "# Changelog\n\n## Unreleased\n\n- later\n\n## 0.2.0 - 2026-11-17\n\n- something\n\n## 0.1.0 - 2026-01-01\n";
        check_changelog(text, "0.2.0").unwrap();
        assert!(check_changelog(text, "0.1.0").unwrap_err().to_string().contains("is empty"));
        assert!(check_changelog(text, "0.3.0").unwrap_err().to_string().contains("has no section"));
    }

    #[test]
    fn a_version_is_read_from_its_line() {
        assert_eq!(
            value_between("a\n\"version\": \"1.2\",", "\"version\": \"", "\"").as_deref(),
            Some("1.2")
        );
        assert_eq!(value_between("nothing", "\"version\": \"", "\""), None);
    }
}
