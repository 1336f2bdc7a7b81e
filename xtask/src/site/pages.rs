//! The sources of the site: the files of `docs`, and `ARCHITECTURE.md` as a page.
//!
//! Links between pages stay relative. Links to other files of the tree lead to the repository, which a reader of the site has and the
//! site has not. The files of the tree are not changed: their links work there.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::files;

/// The page of the table of contents that is outside of `docs`, and its path in the site.
const ARCHITECTURE: (&str, &str) = ("ARCHITECTURE.md", "architecture.md");

/// A page of the table of contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The heading above it in the table of contents; empty for the front page.
    pub(super) part: String,
    pub(super) title: String,
    /// The path of the Markdown file in the site.
    pub(super) path: String,
}

impl Page {
    /// Returns the path of the rendered page.
    pub(super) fn rendered(&self) -> String {
        format!("{}.html", self.path.strip_suffix(".md").unwrap_or(&self.path))
    }
}

/// Writes the sources into an empty folder. Returns the pages, in the order of the table of contents.
pub(super) fn write(root: &Path, sources: &Path) -> Result<Vec<Page>> {
    files::remove(sources)?;
    let repository = repository(root)?;
    let docs = root.join("docs");
    for path in paths(&docs, "")? {
        let (from, to) = (docs.join(&path), in_site(&path));
        if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
            let rewrite = |text: &str| rewrite(text, &format!("docs/{path}"), &to, &repository);
            write_page(&from, &sources.join(&to), &rewrite)?;
        } else {
            files::copy(&from, &sources.join(&to))?;
        }
    }
    let (from, to) = ARCHITECTURE;
    write_page(&root.join(from), &sources.join(to), &|text| rewrite(text, from, to, &repository))?;
    Ok(listed(&files::read(&sources.join("SUMMARY.md"))?))
}

/// Returns the path in the site of a file of `docs`: mdBook renders a README as the index of its folder, but does not change links to it.
fn in_site(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// Returns the pages of a table of contents.
fn listed(contents: &str) -> Vec<Page> {
    let (mut part, mut pages) = (String::new(), Vec::new());
    for line in contents.lines().skip(1) {
        if let Some(heading) = line.strip_prefix("# ") {
            heading.clone_into(&mut part);
        }
        let link = line.split_once('[').and_then(|(_, rest)| rest.split_once("]("));
        let Some((title, rest)) = link else { continue };
        let Some((path, _)) = rest.split_once(')') else { continue };
        pages.push(Page { part: part.clone(), title: title.to_owned(), path: path.to_owned() });
    }
    pages
}

/// Returns the address of the repository.
fn repository(root: &Path) -> Result<String> {
    let book: toml::Table = files::read(&root.join("docs/book.toml"))?.parse().context("docs/book.toml")?;
    let address =
        book.get("output").and_then(|output| output.get("html")?.get("git-repository-url")?.as_str());
    Ok(address.context("docs/book.toml has no output.html.git-repository-url")?.to_owned())
}

/// Returns `text` with links for the site: `from` is its path in the tree, `to` its path in the site.
fn rewrite(text: &str, from: &str, to: &str, repository: &str) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "](";
        match part.split_once(')') {
            Some((target, rest)) => {
                out += &link(target, from, to, repository).unwrap_or_else(|| target.to_owned());
                out += ")";
                out += rest;
            }
            None => out += part,
        }
    }
    out
}

/// Returns the new target of a link, or `None` if it stays.
fn link(target: &str, from: &str, to: &str, repository: &str) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() || target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
        return None;
    }
    let path = resolve(from, file)?;
    let heading = if heading.is_empty() { String::new() } else { format!("#{heading}") };
    let inside = match path.as_str() {
        path if path == ARCHITECTURE.0 => Some(ARCHITECTURE.1.to_owned()),
        path => path.strip_prefix("docs/").map(in_site),
    };
    Some(match inside {
        Some(inside) => format!("{}{inside}{heading}", "../".repeat(to.matches('/').count())),
        None => format!("{repository}/tree/main/{path}{heading}"),
    })
}

/// Returns the path from the root of the tree that a link in the file `from` leads to. Returns `None` if it leaves the tree.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn write_page(from: &Path, to: &Path, rewrite: &dyn Fn(&str) -> String) -> Result<()> {
    files::write(to, rewrite(&files::read(from)?))
}

/// Returns the paths of all files below `folder`, relative to it, with `below` before them.
fn paths(folder: &Path, below: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in files::list(folder)? {
        let name = files::name(&path)?;
        if path.is_dir() {
            found.extend(paths(&path, &format!("{below}{name}/"))?);
        } else {
            found.push(format!("{below}{name}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_the_order_of_the_contents_with_their_parts() {
        let contents =
            "# Summary\n\n[Front](index.md)\n\n# Part\n\n- [One](a/one.md)\n  - [Two](a/index.md)\n";
        let found = listed(contents);
        let seen: Vec<_> = found.iter().map(|page| (page.part.as_str(), page.rendered())).collect();
        assert_eq!(
            seen,
            [("", "index.html".into()), ("Part", "a/one.html".into()), ("Part", "a/index.html".into())]
        );
    }

    #[test]
    fn links_stay_in_the_site_or_lead_to_the_repository() {
        let rewritten = |text: &str, from: &str, to: &str| rewrite(text, from, to, "https://forge/it");
        assert_eq!(
            rewritten(
                "[a](../security.md#quotas) [b](https://x/y) [c](#here)",
                "docs/guides/g.md",
                "guides/g.md"
            ),
            "[a](../security.md#quotas) [b](https://x/y) [c](#here)"
        );
        assert_eq!(
            rewritten("[a](../ARCHITECTURE.md) [b](../sdk/react/README.md)", "docs/p.md", "p.md"),
            "[a](architecture.md) [b](https://forge/it/tree/main/sdk/react/README.md)"
        );
        assert_eq!(
            rewritten("[a](docs/decisions/README.md)", "ARCHITECTURE.md", "architecture.md"),
            "[a](decisions/index.md)"
        );
    }
}
