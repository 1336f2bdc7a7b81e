//! Every snippet of the documentation is good: configurations are loaded, scripts and manifests parsed, commands read by the
//! command line's own parser.
//!
//! Rust snippets are doctests of `aqueduct-tests`. Snippets in other languages are run by the interop suites.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aqueduct_gateway::cli::Cli;
use aqueduct_gateway::source::script::Script;
use clap::Parser as _;

use crate::program::root;

/// A fenced block of a page.
struct Snippet {
    /// Page and line, for messages.
    place: String,
    language: String,
    text: String,
}

/// All Markdown pages that people read: the front page, the documentation and the SDKs.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("gateway/README.md")];
    for folder in ["docs", "sdk", "examples"] {
        collect(&root().join(folder), &mut pages);
    }
    pages
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "node_modules") {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn snippets(language: &str) -> Vec<Snippet> {
    let mut found = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut open: Option<(Snippet, usize)> = None;
        for (number, line) in text.lines().enumerate() {
            let content = line.trim_start();
            match (&mut open, content.strip_prefix("```")) {
                (None, Some(info)) => {
                    let place = format!("{}:{}", page.strip_prefix(root()).unwrap().display(), number + 1);
                    let language = info.split([',', ' ']).next().unwrap().to_owned();
                    let indent = line.len() - content.len();
                    open = Some((Snippet { place, language, text: String::new() }, indent));
                }
                (Some(_), Some(_)) => found.extend(open.take().map(|(snippet, _)| snippet)),
                (Some((snippet, indent)), None) => {
                    snippet.text.push_str(line.get(*indent..).unwrap_or_default());
                    snippet.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a fence is not closed", page.display());
    }
    found.retain(|snippet| snippet.language == language);
    assert!(!found.is_empty(), "no page has a snippet of {language}");
    found
}

/// The names of the environment's secrets that a configuration reads.
fn secrets(text: &str) -> BTreeSet<&str> {
    let names = text.split("env:").skip(1);
    names.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()).collect()
}

fn check_configuration(snippet: &Snippet) -> Result<(), String> {
    let value = |name: &str| match name {
        "REDIS_URL" => "redis://127.0.0.1:6379".to_owned(),
        _ => format!("a-long-secret-for-{name}-0123456789"),
    };
    let environment: Vec<_> =
        secrets(&snippet.text).into_iter().map(|name| (name.to_owned(), value(name))).collect();
    // A snippet that shows one section has no agents of its own.
    let text = if snippet.text.contains("[agents.") {
        snippet.text.clone()
    } else {
        format!("{}\n[agents.a]\na2a = {{ url = \"http://127.0.0.1:9999\" }}\n", snippet.text)
    };
    let loaded = aqueduct_gateway::config::load(&root().join("aqueduct.toml"), &text, environment);
    loaded.map(drop).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn every_toml_snippet_is_a_good_configuration_script_or_manifest() {
    let mut wrong = Vec::new();
    for snippet in snippets("toml") {
        let checked = if snippet.text.contains("[dependencies]") {
            toml::from_str::<toml::Table>(&snippet.text).map(drop).map_err(|error| error.to_string())
        } else if snippet.text.contains("[[step]]") {
            Script::parse(&snippet.text).map(drop).map_err(|error| format!("{error:?}"))
        } else {
            check_configuration(&snippet)
        };
        wrong.extend(checked.err().map(|error| format!("{}: {error}", snippet.place)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Splits a line as a shell does: quotes join words, redirections and pipes end the command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '<' | '>' | '|' | '&' | '#' | ';') => break,
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_of_the_documentation_exists_with_its_options() {
    let mut wrong = Vec::new();
    let mut commands = 0;
    for snippet in snippets("sh") {
        let text = snippet.text.replace("\\\n", " ");
        for line in text.lines() {
            // The command may stand behind another one, or behind a prompt.
            let pieces = line.split(['|', ';']).map(|piece| piece.trim().trim_start_matches("$ "));
            for piece in pieces.filter(|piece| piece.starts_with("aqueduct ")) {
                commands += 1;
                let error = Cli::try_parse_from(words(piece)).err().filter(clap::Error::use_stderr);
                wrong.extend(error.map(|error| format!("{}: `{piece}`: {error}", snippet.place)));
            }
        }
    }
    assert!(commands > 10, "only {commands} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn words_are_split_as_by_a_shell() {
    assert_eq!(words("aqueduct run a \"two words\" < in"), ["aqueduct", "run", "a", "two words"]);
    assert_eq!(words("aqueduct run a ''"), ["aqueduct", "run", "a", ""]);
}
