//! Every Rust file starts with module documentation.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// Checks that the first line of every Rust file is a module comment, also in tests and build scripts.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in model.tree.files.iter().filter(|file| file.is_rust() && !file.is_generated()) {
        if !file.text.starts_with("//!") {
            let what = "the file does not start with `//!`".to_owned();
            let help = "say what the module is for, what holds in it and what it does not do";
            findings.push(Finding::error("module-docs", &file.path, Some(1), what, help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    #[test]
    fn a_file_with_module_docs_passes() {
        assert_eq!(found(check, &file("core/src/a.rs", "//! Something.\n")), [""; 0]);
        assert_eq!(found(check, &file("core/src/generated/a.rs", "// whatever\n")), [""; 0]);
    }

    #[test]
    fn a_file_without_them_is_found_tests_included() {
        for path in ["core/src/a.rs", "tests/it/main.rs", "core/build.rs"] {
            let found = found(check, &file(path, "use std::fmt;\n"));
            assert!(found[0].starts_with(&format!("{path}:1: error[module-docs]")), "{found:?}");
        }
    }
}
