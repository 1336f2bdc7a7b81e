//! Every snippet of the documentation is good.
//!
//! | language | checked by |
//! |---|---|
//! | `toml` | loaded as a configuration, a script or a manifest, here |
//! | `sh` | read by the command line's own parser, or known by its program, here |
//! | `json` | parsed, and bodies of AG-UI requests read as such, here |
//! | `rust` | doctests of `aqueduct-tests`: that every page is one of them, here |
//! | `python`, `ts`, `jsx` | compiled against the SDKs by `cargo xtask interop snippets` |
//! | `text` | what programs print: commands after `$ ` are checked as those of `sh` |

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
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"]
        .map(|page| root().join(page))
        .to_vec();
    for folder in ["docs", "sdk", "examples"] {
        collect(&root().join(folder), &mut pages);
    }
    for entry in fs::read_dir(root()).unwrap() {
        let page = entry.unwrap().path().join("README.md");
        if page.is_file() && !pages.contains(&page) {
            pages.push(page);
        }
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
    let mut found = all_snippets();
    found.retain(|snippet| snippet.language == language);
    assert!(!found.is_empty(), "no page has a snippet of {language}");
    found
}

fn all_snippets() -> Vec<Snippet> {
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
    found
}

/// The languages that a check exists for: see the table above.
const LANGUAGES: [&str; 8] = ["toml", "sh", "json", "rust", "python", "ts", "jsx", "text"];

#[test]
fn every_snippet_has_a_language_that_is_checked() {
    for snippet in all_snippets() {
        let language = snippet.language.as_str();
        assert!(LANGUAGES.contains(&language), "{}: `{language}` is checked by nothing", snippet.place);
    }
}

#[test]
fn every_page_with_rust_is_a_doctest() {
    let tested = fs::read_to_string(root().join("tests/src/lib.rs")).unwrap();
    for snippet in snippets("rust") {
        let (page, _) = snippet.place.rsplit_once(':').unwrap();
        assert!(
            tested.contains(&format!("\"../../{page}\"")),
            "{}: add the page to tests/src/lib.rs",
            snippet.place
        );
    }
}

#[test]
fn every_json_snippet_is_json() {
    for snippet in snippets("json") {
        let whole = serde_json::from_str::<serde_json::Value>(&snippet.text);
        let lines = || {
            snippet
                .text
                .lines()
                .try_for_each(|line| serde_json::from_str(line).map(|_: serde_json::Value| ()))
        };
        let checked = whole.map(drop).or_else(|_| lines());
        assert!(checked.is_ok(), "{}: {checked:?}", snippet.place);
    }
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

/// Programs of other projects that lines of the documentation begin with. Their options are theirs; paths in their arguments are checked.
const PROGRAMS: [&str; 17] = [
    "apt",
    "cargo",
    "curl",
    "docker",
    "export",
    "grpcurl",
    "kubectl",
    "npm",
    "npx",
    "pip",
    "python",
    "redis-server",
    "sha256sum",
    "systemctl",
    "tar",
    "venv/bin/pip",
    "venv/bin/python",
];

/// Packages that the documentation installs and that `cargo xtask dist` writes.
const PACKAGES: [&str; 4] = ["aqueduct-gateway", "aqueduct-magentic", "aqueduct-agui", "aqueduct-react"];

/// Checks a command that is not of this program.
fn check_foreign(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(|word| *word == "sudo").collect();
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    let is_own = program.ends_with("/aqueduct");
    if is_own {
        let args = std::iter::once("aqueduct").chain(args.iter().copied());
        return Cli::try_parse_from(args).map(drop).map_err(|error| error.to_string());
    }
    if !PROGRAMS.contains(program) {
        return Err(format!("`{program}` is no program that a check knows"));
    }
    let named = args
        .iter()
        .filter(|arg| arg.starts_with("aqueduct-") && !arg.contains(".tar") && !arg.contains(".tgz"));
    for name in named {
        let is_crate = root().join("examples").join(name.trim_start_matches("aqueduct-examples-")).is_dir()
            || root().join(name.trim_start_matches("aqueduct-")).is_dir();
        let (package, _) = name.split_once('[').unwrap_or((name, ""));
        if !PACKAGES.contains(&package) && !is_crate {
            return Err(format!("`{name}` is no package"));
        }
    }
    match args {
        ["xtask", task, ..] => {
            let source = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
            let (first, rest) = task.split_at(1);
            let variant = format!("    {}{rest}", first.to_uppercase());
            let ends = ["(", " {", ","];
            let is_task = ends.iter().any(|end| source.contains(&format!("{variant}{end}")));
            is_task.then_some(()).ok_or_else(|| format!("xtask has no task `{task}`"))
        }
        ["install", .., "--path", path] => {
            root().join(path).is_dir().then_some(()).ok_or_else(|| format!("no folder {path}"))
        }
        _ => Ok(()),
    }
}

/// The commands of a snippet: lines of `sh`, or what stands after `$ ` in `text`, without comments and continued lines joined.
fn lines_of(snippet: &Snippet) -> Vec<String> {
    let joined = snippet.text.replace("\\\n", " ");
    let (mut lines, mut open): (Vec<String>, bool) = (Vec::new(), false);
    for line in joined.lines() {
        // A quotation may go on over lines.
        let quotes = line.matches('\'').count() % 2 == 1;
        if open {
            let last = lines.last_mut().unwrap();
            last.push(' ');
            last.push_str(line.trim());
        } else {
            lines.push(line.trim().to_owned());
        }
        open ^= quotes;
    }
    if snippet.language == "text" {
        return lines.iter().filter_map(|line| line.strip_prefix("$ ").map(str::to_owned)).collect();
    }
    for line in &mut lines {
        let comment = line
            .find(" #")
            .filter(|at| line.get(..*at).is_some_and(|head| head.matches('\'').count() % 2 == 0));
        line.truncate(comment.unwrap_or(line.len()));
    }
    lines.retain(|line| !line.is_empty() && !line.starts_with('#'));
    lines
}

/// Returns `true` for a variable that a shell sets for the command behind it: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

#[test]
fn every_command_of_the_documentation_exists_with_its_options() {
    let mut wrong = Vec::new();
    let mut commands = 0;
    for snippet in ["sh", "text"].into_iter().flat_map(snippets) {
        for line in lines_of(&snippet) {
            // The command may stand behind another one.
            let pieces =
                line.split(" | ").flat_map(|piece| piece.split(" && ")).flat_map(|piece| piece.split("; "));
            for piece in pieces.map(str::trim) {
                let mut words = words(piece);
                let variables = words.iter().take_while(|word| is_assignment(word)).count();
                words.drain(..variables);
                let error = if words.first().is_some_and(|word| word == "aqueduct") {
                    commands += 1;
                    let error = Cli::try_parse_from(&words).err().filter(clap::Error::use_stderr);
                    error.map(|error| error.to_string())
                } else {
                    check_foreign(&words).err()
                };
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
