//! No location outside the project appears in it: no path of one machine, no host of a package registry.
//!
//! Such a location works on one machine only. The patterns are concatenated, so that this file does not match itself.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// Absolute folders of one machine. A user name follows the last one.
const FOLDERS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/bash", "_jobs"), concat!("/ho", "me/")];

/// Hosts that package managers know themselves.
const REGISTRIES: [&str; 8] = [
    concat!("registry.np", "mjs.org"),
    concat!("registry.yarn", "pkg.com"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("files.python", "hosted.org"),
    concat!("pypi", ".org/simple"),
    concat!("deb.deb", "ian.org"),
    concat!("/artifact", "ory/api/"),
];

/// Checks that no text file contains a machine's folder or a registry's host, except for cargo's lock file.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in model.tree.files.iter().filter(|file| !file.path.ends_with("Cargo.lock")) {
        for (index, line) in file.text.lines().enumerate() {
            let at = Some(index + 1);
            if let Some(folder) = FOLDERS.iter().find(|folder| names_folder(line, folder)) {
                let what = format!("a path of one machine (`{folder}`)");
                let help = "use a path relative to the project, a temporary folder, or a placeholder";
                findings.push(Finding::error("machine-path", &file.path, at, what, help));
            }
            let lower = line.to_ascii_lowercase();
            if let Some(host) = REGISTRIES.iter().find(|host| lower.contains(*host)) {
                let what = format!("the host of a package registry (`{host}`)");
                let help = "name the package and its version; its manager knows where to get it";
                findings.push(Finding::error("registry-host", &file.path, at, what, help));
            }
        }
    }
}

/// Returns `true` if the folder is the start of a path, not the middle of a longer path or a URL.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + folder.len()..).and_then(|text| text.chars().next());
        let starts_here = before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"_./-}$".contains(c));
        // A bare `/home/` belongs to no machine; `/home/<name>/` in a text is a placeholder.
        let is_real = !folder.starts_with("/h") || after.is_some_and(|c| c.is_ascii_alphanumeric());
        starts_here && is_real
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    #[test]
    fn ordinary_text_passes() {
        let text = "see docs/work/plan.md, https://example.com/home/x, `/home/`, /tmp/x, crates.io\n";
        assert_eq!(found(check, &file("README.md", text)), [""; 0]);
    }

    #[test]
    fn every_machine_path_is_found() {
        for folder in FOLDERS {
            let found = found(check, &file("a/b.json", &format!("\n{{\"file\":\"{folder}ada/x.py\"}}\n")));
            assert!(found[0].starts_with("a/b.json:2: error[machine-path]"), "{found:?}");
        }
    }

    #[test]
    fn every_registry_is_found_in_any_case() {
        for host in REGISTRIES {
            let text = format!("\"resolved\": \"https://{}/x.tgz\"", host.to_uppercase());
            let found = found(check, &file("package-lock.json", &text));
            assert!(found[0].starts_with("package-lock.json:1: error[registry-host]"), "{found:?}");
        }
    }

    #[test]
    fn the_lock_file_of_cargo_is_left_alone() {
        assert_eq!(found(check, &file("Cargo.lock", REGISTRIES[2])), [""; 0]);
    }
}
