//! No unfinished code and no disabled test.
//!
//! The patterns are concatenated, so that this file does not match itself.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// The marks in source files, and the remedies.
const MARKS: [(&str, &str); 6] = [
    (concat!("todo", "!("), "finish it, or leave it out"),
    (concat!("unimplemented", "!("), "finish it, or give an error that says what is not supported"),
    (concat!("FIX", "ME"), "mend it now, or open an issue and say in the comment what holds today"),
    (concat!("#[ign", "ore"), "a test runs or is deleted; assert today's behaviour with a comment"),
    (concat!("pytest.mark.sk", "ip"), "a test runs or is deleted"),
    (concat!("test.sk", "ip("), "a test runs or is deleted"),
];

/// Extensions of source files.
const CODE: [&str; 8] = ["rs", "py", "js", "mjs", "ts", "proto", "toml", "sh"];

/// Checks that no source file contains a mark of unfinished work.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    let is_code = |extension: &&str| CODE.contains(extension);
    for file in model.tree.files.iter().filter(|file| !file.is_generated()) {
        if !file.path.rsplit_once('.').map(|(_, extension)| extension).as_ref().is_some_and(is_code) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            for (mark, help) in MARKS.iter().filter(|(mark, _)| line.contains(mark)) {
                let what = format!("`{mark}` in the code");
                findings.push(Finding::error("unfinished", &file.path, Some(index + 1), what, help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    #[test]
    fn finished_code_passes() {
        assert_eq!(
            found(check, &file("core/src/a.rs", "//! The list of things to do.\nfn todo() {}\n")),
            [""; 0]
        );
        assert_eq!(found(check, &file("README.md", MARKS[2].0)), [""; 0]);
    }

    #[test]
    fn every_mark_is_found() {
        for (mark, _) in MARKS {
            let found = found(check, &file("core/src/a.rs", &format!("//! Docs.\n    {mark}\n")));
            assert!(found[0].starts_with("core/src/a.rs:2: error[unfinished]"), "{found:?}");
        }
    }
}
