//! Comments name roles and use technical verbs: a few phrases that hide the subject of a sentence must not come back.
//!
//! Checked are the comments of the crates in [`CLEANED`], outside of tests. The list is short on purpose: each phrase has an
//! obvious replacement, which the finding names. The check knows no grammar and judges no names.

use crate::tidy::finding::Finding;
use crate::tidy::model::{Model, TextFile};

/// The crates whose comments are free of the phrases. A crate joins when its comments are.
const CLEANED: [&str; 15] = [
    "adapter-a2a/",
    "adapter-agui/",
    "adapter-magentic/",
    "aqueduct/",
    "benches/",
    "core/",
    "examples/",
    "fuzz/",
    "gateway/",
    "runlog/",
    "runs/",
    "transport-grpc/",
    "transport-http/",
    "transport-ws/",
    "xtask/",
];

/// A phrase in lower case, and its replacement.
const PHRASES: [(&str, &str); 11] = [
    ("whoever", ROLE),
    ("somebody", ROLE),
    ("anybody", ROLE),
    ("everybody", ROLE),
    ("those who", ROLE),
    ("nobody", "name the role: no caller, no watcher, no replica"),
    ("told", "use a technical verb: reported, returned, emitted, notified"),
    ("heard", "use `received`, or name what has arrived"),
    ("takes note of", "use a technical verb: records, adds, restores"),
    ("anew", "use `again`"),
    ("for ever", "use `without end`, or name the limit"),
];

const ROLE: &str = "name the role: caller, client, watcher, owner, publisher, replica";

/// Checks that no comment of a cleaned crate contains one of the phrases.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in model.tree.files.iter().filter(|file| is_checked(file)) {
        for (index, line) in file.text.lines().enumerate() {
            for (phrase, help) in
                PHRASES.iter().filter(|(phrase, _)| comment(line).is_some_and(|c| has(c, phrase)))
            {
                let what = format!("a comment says `{phrase}`");
                findings.push(Finding::error("wording", &file.path, Some(index + 1), what, help));
            }
        }
    }
}

fn is_checked(file: &TextFile) -> bool {
    let is_cleaned = CLEANED.iter().any(|folder| file.path.starts_with(folder));
    // This file contains the phrases.
    let is_list = file.path.ends_with("tidy/checks/wording.rs");
    is_cleaned && file.is_rust() && !file.is_generated() && !file.is_test() && !is_list
}

/// Returns the text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

/// Returns `true` if the text contains the phrase as whole words, in any case.
fn has(text: &str, phrase: &str) -> bool {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + phrase.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    #[test]
    fn every_phrase_is_found_in_comments_of_cleaned_crates() {
        for (phrase, help) in PHRASES {
            let capital: String = phrase.chars().take(1).flat_map(char::to_uppercase).collect();
            let rest: String = phrase.chars().skip(1).collect();
            let text = format!("//! Docs.\nfn f() {{\n    /// {capital}{rest} it is.\n}}\n");
            let found = found(check, &file("core/src/a.rs", &text));
            assert!(found[0].starts_with("core/src/a.rs:3: error[wording]"), "{found:?}");
            assert!(found[0].contains(help), "{found:?}");
        }
    }

    #[test]
    fn longer_words_code_tests_and_other_crates_pass() {
        let text = "//! Returns a value for every renewal.\nlet told = \"whoever\";\n";
        assert_eq!(found(check, &file("core/src/a.rs", text)), [""; 0]);
        for path in ["core/src/tests.rs", "tests/it/a.rs", "core/src/generated/a.rs", "core/README.md"] {
            assert_eq!(found(check, &file(path, "/// Whoever is told.\n")), [""; 0], "{path}");
        }
    }
}
