//! Every recorded stream has a documented origin.

use std::collections::BTreeSet;

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// The folder of recorded streams, with one folder per protocol or framework.
const FIXTURES: &str = "tests/fixtures/";

/// Checks that each folder under `tests/fixtures` has a README.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    let paths: BTreeSet<&str> = model.tree.files.iter().map(|file| file.path.as_str()).collect();
    let below = paths.iter().filter_map(|path| path.strip_prefix(FIXTURES));
    let folders: BTreeSet<&str> = below.filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    for folder in folders {
        let readme = format!("{FIXTURES}{folder}/README.md");
        if !paths.contains(readme.as_str()) {
            let what = "the folder has fixtures of unknown origin".to_owned();
            let help = "say what was recorded, from which version, and with which command";
            findings.push(Finding::error("fixture-origin", &readme, None, what, help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;
    use crate::tidy::model::{TextFile, Tree};

    #[test]
    fn a_folder_with_a_readme_passes() {
        let paths = ["tests/fixtures/a2a/README.md", "tests/fixtures/a2a/x.sse", "tests/golden/y.trace"];
        let files = paths.map(|path| TextFile { path: path.to_owned(), text: String::new() });
        let tree = Tree { files: files.into() };
        assert_eq!(found(check, &Model { tree, ..Model::default() }), [""; 0]);
    }

    #[test]
    fn a_folder_without_one_is_found() {
        let found = found(check, &file("tests/fixtures/a2a/deep/x.sse", ""));
        assert!(
            found[0].starts_with("tests/fixtures/a2a/deep/README.md: error[fixture-origin]"),
            "{found:?}"
        );
    }
}
