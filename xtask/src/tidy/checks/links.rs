//! Links between pages have targets, and every page of the documentation is in its table of contents.
//!
//! Checks relative links of Markdown files: to files, to folders and to headings. URLs are not requested.

use std::collections::BTreeSet;

use crate::site::resolve;
use crate::tidy::finding::Finding;
use crate::tidy::model::{Model, TextFile};

/// The table of contents of the documentation site.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Reports relative links without a target.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    let paths: BTreeSet<&str> = model.tree.files.iter().map(|file| file.path.as_str()).collect();
    for page in pages(model) {
        for (line, target) in links(&page.text) {
            if let Some(what) = broken(model, &paths, page, target) {
                let help = "link to a file of the tree, relative to this one, and to a heading that it has";
                findings.push(Finding::error("links", &page.path, Some(line), what, help));
            }
        }
    }
}

/// Reports pages of `docs` that the table of contents does not list, and those that it lists twice: mdBook refuses them.
pub(crate) fn contents(model: &Model, findings: &mut Vec<Finding>) {
    let Some(contents) = model.tree.files.iter().find(|file| file.path == CONTENTS) else { return };
    let mut listed = BTreeSet::new();
    for (line, path) in
        links(&contents.text).filter_map(|(line, target)| Some((line, resolve(CONTENTS, target)?)))
    {
        if !listed.insert(path.clone()) {
            let what = format!("`{path}` is listed twice");
            let help = "keep one of the two lines";
            findings.push(Finding::error("contents", CONTENTS, Some(line), what, help));
        }
    }
    for page in pages(model).filter(|page| page.path.starts_with("docs/") && page.path != CONTENTS) {
        if !listed.contains(&page.path) {
            let help = "add it to docs/SUMMARY.md, where a reader looks for it";
            let what = "the page is in no table of contents".to_owned();
            findings.push(Finding::error("contents", &page.path, None, what, help));
        }
    }
}

fn pages(model: &Model) -> impl Iterator<Item = &TextFile> {
    model.tree.files.iter().filter(|file| file.has_extension("md"))
}

/// Returns the defect of a link of `page`, if it has one.
fn broken(model: &Model, paths: &BTreeSet<&str>, page: &TextFile, target: &str) -> Option<String> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere || target.is_empty() {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || paths.contains(path) || paths.iter().any(|known| known.starts_with(&folder))
    };
    let Some(path) = path.filter(|path| exists(path)) else {
        return Some(format!("`{target}` leads to no file"));
    };
    let linked = model.tree.files.iter().find(|file| file.path == path)?;
    let has_heading = heading.is_empty()
        || !linked.has_extension("md")
        || headings(&linked.text).any(|found| found == heading);
    (!has_heading).then(|| format!("`{target}`: {path} has no such heading"))
}

/// Returns the targets of `[text](target)` outside of code, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    });
    lines.flat_map(|(number, line)| {
        line.split("](").skip(1).filter_map(move |rest| {
            let target = rest.split([')', ' ']).next()?;
            Some((number + 1, target))
        })
    })
}

/// Returns the anchors of all headings, as renderers create them: lower case, spaces as `-`, other punctuation dropped.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    let titles = text.lines().filter_map(|line| line.strip_prefix('#'));
    titles.map(|title| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::Tree;

    fn tree(files: &[(&str, &str)]) -> Model {
        let files =
            files.iter().map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Model { tree: Tree { files: files.collect() }, ..Model::default() }
    }

    #[test]
    fn links_to_files_folders_headings_and_the_network_pass() {
        let text =
            "# Top\n[a](b.md) [c](../core) [d](#top) [e](https://example.org/x) [f](b.md#the-end-of-it)\n";
        let model =
            tree(&[("docs/a.md", text), ("docs/b.md", "## The end, of it\n"), ("core/Cargo.toml", "")]);
        assert_eq!(found(check, &model), [""; 0]);
    }

    #[test]
    fn links_to_nothing_are_found_outside_of_code() {
        let model = tree(&[("docs/a.md", "```\n[x](gone.md)\n```\n[x](gone.md)\n[y](#gone)\n")]);
        let found = found(check, &model);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:4: error[links]: `gone.md` leads to no file"), "{found:?}");
        assert!(found[1].contains("no such heading"), "{found:?}");
    }

    #[test]
    fn a_page_outside_of_the_contents_is_found() {
        let model =
            tree(&[(CONTENTS, "[A](a.md)\n"), ("docs/a.md", ""), ("docs/b/c.md", ""), ("README.md", "")]);
        let found = found(contents, &model);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/b/c.md: error[contents]"), "{found:?}");
    }

    #[test]
    fn a_page_that_is_listed_twice_is_found() {
        let model = tree(&[(CONTENTS, "[A](a.md)\n[B](a.md)\n"), ("docs/a.md", "")]);
        let found = found(contents, &model);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/SUMMARY.md:2: error[contents]"), "{found:?}");
    }
}
