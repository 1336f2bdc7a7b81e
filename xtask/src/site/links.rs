//! Links of rendered pages: each leads to a file of the site, and to an element that the file has.
//!
//! mdBook makes the anchors of headings and rewrites `.md` to `.html`, so the sources alone do not show whether a link works. URLs
//! are not requested.

use std::path::Path;

use anyhow::Result;

use super::pages::Page;
use crate::files::read;

/// Returns the links of the rendered pages that have no target, with the page that has them.
pub(super) fn broken(site: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in pages {
        let name = page.rendered();
        let html = read(&site.join(&name))?;
        for target in targets(&html) {
            if !leads_somewhere(site, &name, &html, target) {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    Ok(broken)
}

/// Returns the values of all `href` and `src` attributes that are not URLs.
fn targets(html: &str) -> impl Iterator<Item = &str> {
    let values = [" href=\"", " src=\""]
        .into_iter()
        .flat_map(move |attribute| html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()));
    values.filter(|target| !target.contains(':') && !target.is_empty())
}

fn leads_somewhere(site: &Path, page: &str, html: &str, target: &str) -> bool {
    let (file, element) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() {
        return element.is_empty() || has_element(html, element);
    }
    let folder = Path::new(page).parent().unwrap_or_else(|| Path::new(""));
    let path = site.join(folder).join(file);
    let path = if path.is_dir() { path.join("index.html") } else { path };
    if element.is_empty() {
        return path.is_file();
    }
    read(&path).is_ok_and(|html| has_element(&html, element))
}

fn has_element(html: &str, id: &str) -> bool {
    html.contains(&format!(" id=\"{id}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_left_out_and_attributes_found() {
        let html = r#"<a href="a.html#x">a</a> <img src="b.svg"> <a href="https://c">c</a> <a class="d" href="mailto:e">"#;
        assert_eq!(targets(html).collect::<Vec<_>>(), ["a.html#x", "b.svg"]);
    }

    #[test]
    fn an_element_is_found_by_its_id() {
        let (site, html) = (Path::new("/nowhere"), "<h2 id=\"here\">");
        assert!(leads_somewhere(site, "p.html", html, "#here"));
        assert!(!leads_somewhere(site, "p.html", html, "#there"));
        assert!(!leads_somewhere(site, "p.html", html, "q.html"));
    }
}
