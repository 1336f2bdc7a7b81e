//! The program itself: arguments, streams, exit codes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Runs `aqueduct` with this standard input.
pub(crate) fn aqueduct(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The program writes while it reads: feeding it from here alone could fill both pipes.
    let feeder = std::thread::spawn(move || stdin.write_all(&input).ok());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every command there is, as the program lists them itself.
fn commands() -> Vec<Vec<&'static str>> {
    let names = [
        "serve",
        "demo",
        "run",
        "convert",
        "verify",
        "diff",
        "doctor",
        "health",
        "record",
        "replay",
        "mock",
        "bench",
        "completions",
        "man",
        "init",
    ];
    let mut all: Vec<Vec<&str>> = names.iter().map(|name| vec![*name]).collect();
    all.extend(["check", "print", "schema"].map(|name| vec!["config", name]));
    all.extend(["check", "repair"].map(|name| vec!["log", name]));
    all
}

/// Returns the exit codes in the help of a command, with their meanings.
fn exit_codes(help: &str) -> Vec<(String, String)> {
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let lines = codes.lines().map_while(|line| line.trim().split_once("  "));
    lines.map(|(code, meaning)| (code.to_owned(), meaning.to_owned())).collect()
}

/// `docs/cli.md` contains each exit code and meaning of each command's help. `UPDATE_EXPECT=1` writes it.
#[test]
fn the_exit_codes_of_every_command_are_documented() {
    let mut table = String::from("\n| command | code | meaning |\n|---|---|---|\n");
    for args in commands() {
        let help = text(&aqueduct(&[&args[..], &["--help"]].concat(), b"").stdout);
        let codes = exit_codes(&help);
        assert!(help.contains("Examples:\n  "), "{args:?}: {help}");
        assert!(codes.len() > 1, "{args:?}: {help}");
        for (code, meaning) in codes {
            use std::fmt::Write as _;
            writeln!(table, "| `{}` | {code} | {meaning} |", args.join(" ")).unwrap();
        }
    }
    table.push('\n');
    crate::docs::page_has("docs/cli.md", "exit codes", &table);
}

#[test]
fn bench_prints_its_figures() {
    let args = ["bench", "--json", "--chunks", "200", "--streams", "3", "--seconds", "1", "--idle", "5"];
    let output = aqueduct(&args, b"");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["figures"]["chunks"], 200, "nothing is lost or joined while nobody is slow");
    assert!(lines[1]["figures"]["chunks"].as_u64().unwrap() > 50, "{}", lines[1]);
    assert!(lines[1]["figures"]["p99Microseconds"].is_number());
    assert_eq!(lines[2]["figures"]["streams"], 5);
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = aqueduct(&["completions", shell], b"");
        assert_eq!(code(&output), 0, "{shell}");
        let script = text(&output.stdout);
        for args in commands() {
            assert!(script.contains(args[0]), "{shell}: {args:?}");
        }
    }
    assert_eq!(code(&aqueduct(&["completions", "abacus"], b"")), 2);
}

#[test]
fn every_command_has_help_with_examples_and_exit_codes() {
    for args in commands() {
        let output = aqueduct(&[&args[..], &["--help"]].concat(), b"");
        assert_eq!(code(&output), 0, "{args:?}");
        let help = text(&output.stdout);
        assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{args:?}: {help}");
        assert!(!help.contains('\u{1b}'), "colours are for terminals alone");
    }
    let help = text(&aqueduct(&["--help"], b"").stdout);
    for args in commands() {
        assert!(help.contains(&format!("  {}", args[0])), "{args:?}: {help}");
    }
    assert_eq!(code(&aqueduct(&["--version"], b"")), 0);
}

#[test]
fn wrong_arguments_are_told_and_exit_with_2() {
    for args in [
        &["convert"][..],
        &["convert", "--from", "x", "--to", "agui"],
        &["convert", "--from", "agui", "--to", "html"],
        &["verify", "there-is-no-such-file"],
        &["config", "check", "--config", "there-is-no-such-file"],
        &["frobnicate"],
        &["replay", "there-is-no-such-file"],
        &["mock", "there-is-no-such-file"],
        &["replay", "x", "--speed", "0"],
        &["record", "nobody", "hello", "--config", "there-is-no-such-file"],
        &["run", "nobody", "hello", "--config", "there-is-no-such-file"],
    ] {
        let output = aqueduct(args, b"");
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn unreadable_input_exits_with_1_and_names_line_and_column() {
    let output = aqueduct(&["convert", "--from", "agui", "--to", "agui"], b"{\"type\":\"RAW\"\n}}\n");
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("line 2, column 2"), "{}", text(&output.stderr));
    let output = aqueduct(&["convert", "--from", "a2a", "--to", "agui"], b"<html>\n");
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("line 1, column 1"), "{}", text(&output.stderr));
}

#[test]
fn verify_reports_event_rule_and_fix() {
    let bad = b"data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"x\"}\n\n";
    let output = aqueduct(&["verify", "-"], bad);
    let report = text(&output.stdout);
    assert_eq!(code(&output), 1, "{report}");
    for part in ["event 1 TEXT_MESSAGE_CONTENT", "text-not-open", "fix: ", "missing-terminal"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let output = aqueduct(&["verify", "--json", "-"], bad);
    for line in text(&output.stdout).lines() {
        let finding: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(finding["index"].is_u64() && finding["fix"].is_string(), "{line}");
    }
}

#[test]
fn verify_finds_nothing_in_a_good_stream_and_cannot_read_a_page() {
    let good = root().join("tests/fixtures/agui/good.jsonl");
    let output = aqueduct(&["verify", good.to_str().unwrap()], b"");
    assert_eq!((code(&output), text(&output.stdout).trim()), (0, "nothing found"));
    assert_eq!(code(&aqueduct(&["verify", "-"], b"<html></html>\n")), 2);
}
