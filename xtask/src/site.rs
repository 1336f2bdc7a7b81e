//! `cargo xtask site`: the documentation as a site in `target/site`.
//!
//! mdBook renders the pages; it is installed at a pinned version below the target folder. The Markdown of each page is copied
//! next to the rendered page, and `llms.txt` lists all pages with their titles, for programs that read documentation.
//!
//! It does not check the pages: links and the table of contents are a rule of `tidy`; snippets are tests of the gateway.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::interop::peers::text;
use crate::invocation::Invocation;
use crate::project::Project;

/// The version of mdBook that renders the site.
const MDBOOK: &str = "0.5.4";

/// Renders the site; an error names the page that mdBook rejects.
pub(crate) fn run(project: &Project) -> Result<()> {
    let target = project.metadata()?.target_directory()?;
    let (docs, site) = (project.root().join("docs"), target.join("site"));
    let mdbook = install(project, &target)?;
    Invocation::new(mdbook, project.root())
        .args(["build", "--dest-dir", &text(&site)?, &text(&docs)?])
        .run()?;
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).context("cannot read docs/SUMMARY.md")?;
    let pages = pages(&summary);
    for (_, page) in &pages {
        copy(&docs.join(page), &site.join(page))?;
        let rendered = site.join(page).with_extension("html");
        // mdBook renders a README as the index of its folder.
        let index = rendered.with_file_name("index.html");
        ensure!(rendered.exists() || index.exists(), "mdBook rendered no page for docs/{page}");
    }
    std::fs::write(site.join("llms.txt"), index(&pages)).context("cannot write llms.txt")?;
    println!("{} pages are in {}", pages.len(), site.display());
    Ok(())
}

/// Installs mdBook unless the pinned version is installed. Returns the path of the program.
fn install(project: &Project, target: &Path) -> Result<String> {
    let root = target.join("tools");
    let program = text(&root.join("bin/mdbook"))?;
    let installed = Invocation::new(program.clone(), project.root()).args(["--version"]).output();
    if installed.is_ok_and(|version| version.contains(MDBOOK)) {
        return Ok(program);
    }
    println!("installing mdBook {MDBOOK} into {}", root.display());
    let features = ["--no-default-features", "--features", "search"];
    let call =
        project.cargo(["install", "mdbook", "--version", MDBOOK, "--locked", "--debug", "--quiet", "--root"]);
    call.args([text(&root)?]).args(features).run()?;
    Ok(program)
}

/// Returns the title and path of every page in the table of contents, in its order.
fn pages(summary: &str) -> Vec<(&str, &str)> {
    let page = |line| {
        let (_, rest) = str::split_once(line, '[')?;
        let (title, rest) = rest.split_once("](")?;
        Some((title, rest.split_once(')')?.0))
    };
    summary.lines().filter_map(page).collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Returns `llms.txt`: the name of the project, and a link to the Markdown of each page.
fn index(pages: &[(&str, &str)]) -> String {
    let mut text =
        "# Aqueduct\n\n> Carries any agent's stream to any agent frontend, intact.\n\n## Pages\n\n"
            .to_owned();
    for (title, path) in pages {
        // Writing into a string cannot fail.
        writeln!(text, "- [{title}]({path})").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_the_order_of_the_contents() {
        let summary = "# Summary\n\n[Front](index.md)\n\n# Part\n\n- [One](a/one.md)\n  - [Two](two.md)\n";
        let found = pages(summary);
        assert_eq!(found, [("Front", "index.md"), ("One", "a/one.md"), ("Two", "two.md")]);
        assert!(index(&found).ends_with("- [One](a/one.md)\n- [Two](two.md)\n"));
    }
}
