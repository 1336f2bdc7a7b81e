//! Files must be small enough to be read at once.
//!
//! Test code does not count: a long list of cases is easy to read. Generated code is not checked.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// Beyond this a file should be split: the median of well-kept protocol code is far below it.
const ASK_LINES: usize = 400;

/// Beyond this a file does more than one thing.
const MOST_LINES: usize = 600;

const HELP: &str = "split it by responsibility; move its tests to a sibling `tests.rs`";

/// Checks the lines of code of every Rust file.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in
        model.tree.files.iter().filter(|file| file.is_rust() && !file.is_generated() && !file.is_test())
    {
        let lines = lines_without_tests(&file.text);
        let what = |limit| format!("{lines} lines of code outside tests, more than {limit}");
        if lines > MOST_LINES {
            findings.push(Finding::error("file-size", &file.path, None, what(MOST_LINES), HELP));
        } else if lines > ASK_LINES {
            findings.push(Finding::warning("file-size", &file.path, None, what(ASK_LINES), HELP));
        }
    }
}

/// Counts the lines outside `#[cfg(test)] mod … { … }`. The formatter aligns the closing brace of a module with its first
/// letter, so the indentation determines its end.
fn lines_without_tests(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        count += 1;
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        while lines.next_if(|next| next.trim_start().starts_with("#[")).is_some() {}
        if let Some(opening) = lines.next_if(|next| is_module(next)) {
            let indent = opening.len() - opening.trim_start().len();
            let closing = format!("{:indent$}}}", "");
            lines.by_ref().find(|line| *line == closing);
            count -= 1;
        }
    }
    count
}

fn is_module(line: &str) -> bool {
    line.ends_with('{') && line.split_whitespace().any(|word| word == "mod")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    fn lines(count: usize) -> String {
        "x\n".repeat(count)
    }

    #[test]
    fn tests_in_the_file_do_not_count() {
        let text = "a\n#[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\nb\n";
        assert_eq!(lines_without_tests(text), 2);
    }

    #[test]
    fn other_code_for_tests_counts() {
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nfn f() {\n}\nb\n"), 5);
    }

    #[test]
    fn nested_modules_end_at_their_own_indentation() {
        let text =
            "mod a {\n    #[cfg(test)]\n    pub(crate) mod b {\n        mod c {\n        }\n    }\n}\n";
        assert_eq!(lines_without_tests(text), 2);
    }

    #[test]
    fn sizes_up_to_the_limits_pass() {
        assert_eq!(found(check, &file("core/src/a.rs", &lines(400))), [""; 0]);
        let found = found(check, &file("core/src/a.rs", &lines(600)));
        assert!(found[0].starts_with("core/src/a.rs: warning[file-size]: 600 lines"), "{found:?}");
    }

    #[test]
    fn a_file_too_long_is_found() {
        let found = found(check, &file("core/src/a.rs", &lines(601)));
        assert!(found[0].starts_with("core/src/a.rs: error[file-size]: 601 lines"), "{found:?}");
    }

    #[test]
    fn tests_and_generated_code_may_be_long() {
        for path in ["core/src/a/tests.rs", "tests/it/a.rs", "core/src/generated/a.rs", "docs/a.md"] {
            assert_eq!(found(check, &file(path, &lines(5000))), [""; 0]);
        }
    }
}
