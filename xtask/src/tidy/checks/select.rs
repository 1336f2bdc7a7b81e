//! Every `select!` polls its branches in the order in which they are written.
//!
//! Without `biased;` tokio begins with a random branch, so that a world of the simulation is no longer a function of its seed. The
//! branch that is ready most often belongs at the end.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// Checks that `biased;` follows the opening of every `select!`.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in model.tree.files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let mut lines = (1..).zip(file.text.lines()).peekable();
        while let Some((number, line)) = lines.next() {
            let is_select = line.trim_end().ends_with("select! {");
            let is_biased = lines.peek().is_some_and(|(_, next)| next.trim() == "biased;");
            if is_select && !is_biased {
                let what = "`select!` begins with a random branch".to_owned();
                let help = "write `biased;` as its first line, and the branch that is ready most often last";
                findings.push(Finding::error("select", &file.path, Some(number), what, help));
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
    fn branches_in_order_pass() {
        let text = "//! Docs.\n    tokio::select! {\n        biased;\n        _ = a => {}\n    }\n";
        assert_eq!(found(check, &file("runs/src/a.rs", text)), [""; 0]);
    }

    #[test]
    fn a_random_order_is_found() {
        let text = "//! Docs.\n    let x = tokio::select! {\n        _ = a => {}\n    };\n";
        let found = found(check, &file("runs/src/a.rs", text));
        assert!(found[0].starts_with("runs/src/a.rs:2: error[select]"), "{found:?}");
    }
}
