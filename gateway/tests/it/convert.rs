//! Every recorded stream through every output: it comes out balanced, ended, and as the verifier wants it.

use std::fs;
use std::path::{Path, PathBuf};

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_json_lines, verify_sse};
use aqueduct_gateway::cli::{ConvertArgs, FromDialect, TextView, ToDialect};
use aqueduct_gateway::convert::convert;
use serde_json::Value;

use crate::program::{aqueduct, code, root, text};

/// The streams among the fixtures, with their dialect.
fn fixtures() -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for folder in ["a2a", "agui", "magentic"] {
        let entries = fs::read_dir(root().join("tests/fixtures").join(folder)).unwrap();
        for path in entries.map(|entry| entry.unwrap().path()) {
            let is_stream = path.extension().is_some_and(|ending| ending == "sse" || ending == "jsonl");
            let old = path.file_name().unwrap().to_str().unwrap().starts_with("v03");
            let dialect = if old { "a2a-0.3" } else { folder };
            // Cases for the verifier are no stream.
            let is_stream = is_stream && !path.to_str().unwrap().contains("_cases.");
            // What the recorded workflows come to is no stream.
            if is_stream && !path.ends_with("magentic/expected.jsonl") {
                found.push((path, dialect));
            }
        }
    }
    assert!(found.len() > 150, "the fixtures are there: {}", found.len());
    found.sort();
    found
}

fn args(from: &str, to: ToDialect, sse: bool) -> ConvertArgs {
    let from = match from {
        "a2a" => FromDialect::A2a,
        "a2a-0.3" => FromDialect::A2a03,
        "agui" => FromDialect::Agui,
        _ => FromDialect::Magentic,
    };
    ConvertArgs {
        file: None,
        from,
        to,
        sse,
        subagents: None,
        intermediate: TextView::Reasoning,
        interrupts: None,
        thread: None,
        run: None,
    }
}

fn converted(path: &Path, input: &[u8], args: &ConvertArgs) -> String {
    let mut out = Vec::new();
    let result = convert(args, &mut &*input, &mut out, &mut std::io::sink());
    result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text(&out)
}

/// Starts and ends of blocks, lanes, steps and runs pair up, and nothing follows the end of a run.
fn check_balance(path: &Path, lines: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut runs = 0;
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = event["event"].as_str().unwrap();
        let id = |key: &str| format!("{key} {} {}", event["lane"], event[key]);
        match name {
            "run.started" => {
                assert!(open.is_empty(), "{}: {open:?}", path.display());
                runs += 1;
                open.push("run".to_owned());
            }
            "block.started" => open.push(format!("block {}", event["block"])),
            "lane.opened" => open.push(format!("lane {}", event["lane"])),
            "step.started" => open.push(id("name")),
            "block.ended" => close(path, &mut open, &format!("block {}", event["block"])),
            "lane.closed" => close(path, &mut open, &format!("lane {}", event["lane"])),
            "step.finished" => close(path, &mut open, &id("name")),
            "block.delta" => assert!(open.contains(&format!("block {}", event["block"]))),
            "run.finished" | "run.failed" => close(path, &mut open, "run"),
            _ => {}
        }
        if name.starts_with("run.f") {
            assert!(open.is_empty(), "{}: left open {open:?}", path.display());
        } else {
            assert!(!open.is_empty(), "{}: {line} outside of a run", path.display());
        }
    }
    assert!(runs > 0 && open.is_empty(), "{}", path.display());
}

fn close(path: &Path, open: &mut Vec<String>, what: &str) {
    let at = open.iter().rposition(|open| open == what);
    let at = at.unwrap_or_else(|| panic!("{}: {what} ends without a start", path.display()));
    open.remove(at);
}

#[test]
fn every_fixture_comes_out_balanced_and_ended() {
    for (path, dialect) in fixtures() {
        let input = fs::read(&path).unwrap();
        check_balance(&path, &converted(&path, &input, &args(dialect, ToDialect::Blocks, false)));
    }
}

#[test]
fn every_fixture_comes_out_as_the_verifier_wants_it() {
    for (path, dialect) in fixtures() {
        let input = fs::read(&path).unwrap();
        for (to, judge) in [(ToDialect::Agui, Dialect::V1_0), (ToDialect::Agui0059, Dialect::V0_0_59)] {
            let lines = converted(&path, &input, &args(dialect, to, false));
            let found = verify_json_lines(&lines, judge, Level::Strict);
            assert!(found.is_empty(), "{} as {to:?}: {found:?}", path.display());
            let frames = converted(&path, &input, &args(dialect, to, true));
            let found = verify_sse(frames.as_bytes(), judge, Level::Strict);
            assert!(found.is_empty(), "{} as {to:?}: {found:?}", path.display());
        }
    }
}

/// A cut anywhere ends the stream and is reported; it makes no difference whether it lies in framing or in a payload.
#[test]
fn a_fixture_cut_anywhere_comes_out_ended() {
    for name in
        ["a2a/v1-jsonrpc-default.sse", "agui/agui_agent_tool.sse", "magentic/seq_default.events.jsonl"]
    {
        let path = root().join("tests/fixtures").join(name);
        let input = fs::read(&path).unwrap();
        let dialect = name.split('/').next().unwrap();
        for at in (0..input.len()).step_by(37) {
            let out = converted(&path, &input[..at], &args(dialect, ToDialect::Blocks, false));
            check_balance(&path, &out);
        }
    }
}

#[test]
fn the_program_converts_and_exits_with_0_whatever_the_outcome() {
    for (name, from) in [
        ("a2a/v1-jsonrpc-failed.sse", "a2a"),
        ("a2a/v03-jsonrpc-default.sse", "a2a-0.3"),
        ("agui/agui_wf_error_agent.sse", "agui"),
        ("magentic/error_agent.events.jsonl", "magentic"),
    ] {
        let input = fs::read(root().join("tests/fixtures").join(name)).unwrap();
        let output = aqueduct(&["convert", "--from", from, "--to", "agui"], &input);
        assert_eq!(code(&output), 0, "{name}: {}", text(&output.stderr));
        let found = verify_json_lines(&text(&output.stdout), Dialect::V1_0, Level::Strict);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn what_went_in_comes_out() {
    let path = root().join("tests/fixtures/a2a/v1-jsonrpc-default.sse");
    let input = fs::read(&path).unwrap();
    let out = converted(&path, &input, &args("a2a", ToDialect::Blocks, false));
    let mut answer = String::new();
    let mut blocks = Vec::new();
    for line in out.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["event"] == "block.started" && event["kind"] == "text" && event["channel"] == "answer" {
            blocks.push(event["block"].clone());
        }
        if event["event"] == "block.delta" && blocks.contains(&event["block"]) {
            answer.push_str(event["delta"].as_str().unwrap());
        }
    }
    assert_eq!(answer, "The version is **1.4.2** — tout va bien ✅.\n");
}
