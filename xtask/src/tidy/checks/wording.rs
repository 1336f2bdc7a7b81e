//! Comments and pages name roles and use technical verbs: a few phrases that hide the subject of a sentence must not come back.
//!
//! Checked are the comments of the crates in [`CLEANED`], outside of tests, of the .proto file that users generate clients from, and
//! the Markdown of [`PAGES`], outside of snippets. The list is short on purpose: each phrase has an
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

/// Folders and files whose Markdown is free of the phrases.
const PAGES: [&str; 7] =
    ["docs/", "sdk/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"];

/// The definition of `aqueduct.v1`. The other .proto files are those of their protocols.
const PUBLIC_PROTO: &str = "transport-grpc/proto/aqueduct/v1/agent_stream.proto";

/// A phrase in lower case, and its replacement.
const PHRASES: [(&str, &str); 19] = [
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
    ("said", "use a technical verb: sent, emitted, reported"),
    ("tells", "use a technical verb: returns, reports, distinguishes"),
    ("says so", "name the event or the field that reports it"),
    ("spoke", "use a technical verb: sent, emitted"),
    ("taken up", "use `continued`, or `taken over` for a takeover"),
    ("takes up", "use `continues`, or `takes over` for a takeover"),
    ("gives back", "use `returns`, `releases` or `subtracts`"),
    ("in vain", "name the result: it fails, it returns `None`"),
];

const ROLE: &str = "name the role: caller, client, watcher, owner, publisher, replica";

/// Checks that no comment of a cleaned crate and no page contains one of the phrases.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for file in &model.tree.files {
        if is_checked(file) {
            report(file, "a comment", comments(&file.text), findings);
        } else if is_page(file) {
            report(file, "the page", prose(&file.text), findings);
        }
    }
}

/// Reports the phrases in numbered lines of a file.
fn report<'a>(
    file: &TextFile,
    place: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    findings: &mut Vec<Finding>,
) {
    for (number, line) in lines {
        for (phrase, help) in PHRASES.iter().filter(|(phrase, _)| has(line, phrase)) {
            let what = format!("{place} contains `{phrase}`");
            findings.push(Finding::error("wording", &file.path, Some(number), what, help));
        }
    }
}

/// Returns the comments of a Rust file with their line numbers.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| Some((number, comment(line)?)))
}

/// Returns the lines of a page that are not part of a snippet, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_snippet = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_snippet ^= is_fence;
        !in_snippet && !is_fence
    })
}

fn is_checked(file: &TextFile) -> bool {
    let is_cleaned = CLEANED.iter().any(|folder| file.path.starts_with(folder));
    // This file contains the phrases.
    let is_list = file.path.ends_with("tidy/checks/wording.rs");
    let is_read = file.is_rust() && !file.is_generated() && !file.is_test();
    is_cleaned && (is_read || file.path == PUBLIC_PROTO) && !is_list
}

fn is_page(file: &TextFile) -> bool {
    let is_listed = PAGES.iter().any(|page| file.path.starts_with(page));
    is_listed && file.has_extension("md")
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
    fn pages_are_checked_outside_of_snippets() {
        let text = "# Page\n\nWhoever reads it.\n\n```sh\n# told\n```\n\nIt is told.\n";
        let found_now = found(check, &file("docs/guides/a.md", text));
        assert_eq!(found_now.len(), 2, "{found_now:?}");
        assert!(
            found_now[0].starts_with("docs/guides/a.md:3:") && found_now[1].contains("a.md:9:"),
            "{found_now:?}"
        );
        assert_eq!(found(check, &file("CHANGELOG.md", text)), [""; 0]);
    }

    #[test]
    fn longer_words_code_tests_and_other_crates_pass() {
        let text = "//! Returns a value for every renewal.\nlet told = \"whoever\";\n";
        assert_eq!(found(check, &file("core/src/a.rs", text)), [""; 0]);
        let other = "adapter-a2a/proto/a2a.v1.proto";
        for path in ["core/src/tests.rs", "tests/it/a.rs", "core/src/generated/a.rs", "core/README.md", other]
        {
            assert_eq!(found(check, &file(path, "/// Whoever is told.\n")), [""; 0], "{path}");
        }
        assert_eq!(found(check, &file(PUBLIC_PROTO, "// Somebody stopped it.\n")).len(), 1);
    }
}
