//! `cargo xtask site`: the documentation as a site in `target/site`.
//!
//! ```text
//! docs/, ARCHITECTURE.md ──► target/site-pages (links that leave `docs` lead to the repository) ──► mdBook ──► target/site
//!                                   └─► one Markdown file beside each page, llms.txt ─────────────────────────────┘
//! ```
//!
//! mdBook is installed at a pinned version below the target folder. Every link of the rendered pages must have a target.
//!
//! It does not check snippets: these are tests of the gateway. Links of the sources are a rule of `tidy`.

mod links;
mod pages;

use std::path::Path;

use anyhow::{Result, ensure};

use self::pages::Page;
pub(crate) use self::pages::resolve;
use crate::files;
use crate::interop::peers::text;
use crate::invocation::Invocation;
use crate::project::Project;

/// The version of mdBook that renders the site.
const MDBOOK: &str = "0.5.4";

/// Renders the site.
///
/// # Errors
///
/// Fails if mdBook rejects a page, or if a link of a rendered page has no target; the error lists all such links.
pub(crate) fn run(project: &Project) -> Result<()> {
    let target = project.metadata()?.target_directory()?;
    let (sources, site) = (target.join("site-pages"), target.join("site"));
    let mdbook = install(project, &target)?;
    let pages = pages::write(project.root(), &sources)?;
    files::remove(&site)?;
    Invocation::new(mdbook, project.root())
        .args(["build", "--dest-dir", &text(&site)?, &text(&sources)?])
        .run()?;
    for page in &pages {
        ensure!(site.join(page.rendered()).exists(), "mdBook rendered no page for {}", page.path);
        files::copy(&sources.join(&page.path), &site.join(&page.path))?;
    }
    let index = llms(&sources, &pages)?;
    files::write(&site.join("llms.txt"), index)?;
    let broken = links::broken(&site, &pages)?;
    ensure!(broken.is_empty(), "links without a target:\n  {}", broken.join("\n  "));
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

/// Returns `llms.txt`: the name of the project, and for each part of the contents the Markdown of its pages with their first sentences.
fn llms(sources: &Path, pages: &[Page]) -> Result<String> {
    let mut text = "# Aqueduct\n\n> Carries any agent's stream to any agent frontend, intact.\n".to_owned();
    let mut part = None;
    for page in pages {
        if part != Some(page.part.as_str()) {
            part = Some(page.part.as_str());
            let heading = if page.part.is_empty() { "Overview" } else { &page.part };
            text.extend(["\n## ", heading, "\n\n"]);
        }
        let line = match first_sentence(&files::read(&sources.join(&page.path))?) {
            Some(sentence) => format!("- [{}]({}): {sentence}\n", page.title, page.path),
            None => format!("- [{}]({})\n", page.title, page.path),
        };
        text += &line;
    }
    Ok(text)
}

/// Returns the first sentence below the title, in one line.
fn first_sentence(page: &str) -> Option<String> {
    let is_prose =
        |line: &&str| !line.is_empty() && !line.starts_with(['#', '!', '|', '`', '<', '-', '*', '[']);
    let paragraph: Vec<&str> =
        page.lines().skip_while(|line| !is_prose(line)).take_while(|line| !line.is_empty()).collect();
    let paragraph = without_links(&paragraph.join(" "));
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    let sentence = paragraph.get(..end)?.trim_end_matches([':', '.']);
    (!sentence.is_empty()).then(|| format!("{sentence}."))
}

/// Returns `text` with the words of its links instead of the links.
fn without_links(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](") {
        let (words, behind) = (before.rsplit_once('['), after.split_once(')'));
        let (Some((head, words)), Some((_, behind))) = (words, behind) else { break };
        out += head;
        out += words;
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_of_a_page_is_below_its_title_and_pictures() {
        let page =
            "# Title\n\n![A picture](a.svg)\n\nOne [thing](b.md)\nhappens. Another follows.\n\nMore.\n";
        assert_eq!(first_sentence(page).as_deref(), Some("One thing happens."));
        assert_eq!(first_sentence("# T\n\nThese exist:\n").as_deref(), Some("These exist."));
        assert_eq!(first_sentence("# Only a title\n"), None);
    }
}
