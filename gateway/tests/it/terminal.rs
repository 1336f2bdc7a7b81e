//! `aqueduct run` in pipes: what it shows, asks and stops.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{aqueduct, code, root, text};

/// A configuration with one scripted agent `a`, in a file of its own.
fn scripted(name: &str, script: &str) -> String {
    let folder = std::env::temp_dir().join(format!("aqueduct-terminal-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.toml"), script).unwrap();
    let config = folder.join("aqueduct.toml");
    std::fs::write(&config, "[agents.a.script]\nfile = \"a.toml\"\n").unwrap();
    config.to_str().unwrap().to_owned()
}

#[test]
fn questions_are_answered_from_standard_input() {
    let config = scripted("ask", "[[step]]\nask = \"Which?\"\n[[step]]\ntext = \"You chose {answer}.\"\n");
    let output = aqueduct(&["run", "a", "hi", "--config", &config], b"early\n");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "? Which?\nYou chose early.\n");
    // Without input the run keeps waiting for the reply, and that is not a failure.
    let output = aqueduct(&["run", "a", "hi", "--config", &config], b"");
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "? Which?\n"));
}

#[test]
fn events_are_one_per_line_and_nothing_is_asked() {
    let config = scripted("json", "[[step]]\ntext = \"x\"\n[[step]]\nask = \"Which?\"\n");
    let output = aqueduct(&["run", "a", "hi", "--config", &config, "--events"], b"ignored\n");
    assert_eq!(code(&output), 0);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.first().unwrap()["event"], "run.started");
    assert_eq!(lines.last().unwrap()["outcome"], "interrupted");
}

#[test]
fn json_is_the_run_as_one_value() {
    let config = scripted("value", "[[step]]\ntext = \"x\"\n[[step]]\nask = \"Which?\"\n");
    let output = aqueduct(&["run", "a", "hi", "--config", &config, "--json"], b"ignored\n");
    assert_eq!(code(&output), 0);
    let value: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&value["status"], &value["text"]), (&"interrupted".into(), &"x".into()));
    assert_eq!(value["interrupts"][0]["message"], "Which?");
    let output = aqueduct(&["run", "a", "hi", "--config", &config, "--json", "--events"], b"");
    assert_eq!(code(&output), 2, "one form at a time");
}

#[test]
fn a_team_is_read_line_by_line_without_colours() {
    let config = root().join("scripts/demo-team.toml");
    let config = scripted("team", &std::fs::read_to_string(config).unwrap());
    let output = aqueduct(&["run", "a", "Rust", "--config", &config], b"");
    let shown = text(&output.stdout);
    assert_eq!(code(&output), 0, "{shown}");
    assert!(!shown.contains('\u{1b}'), "colours are for terminals alone: {shown:?}");
    let researcher: Vec<&str> = shown.lines().filter(|line| line.starts_with("[researcher]")).collect();
    assert!(researcher.len() < 12, "a line per word: {shown}");
    assert!(shown.contains("→ search") && shown.contains("← memory safety"), "{shown}");
}

#[test]
fn a_run_that_fails_exits_with_1() {
    let config = scripted("fail", "[[step]]\nfail = \"overloaded\"\n");
    let output = aqueduct(&["run", "a", "hi", "--config", &config], b"");
    assert_eq!(code(&output), 1);
    assert!(text(&output.stdout).contains("failed (agent_failed): overloaded"));
    let output = aqueduct(&["run", "nobody", "hi", "--config", &config], b"");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("it has a"), "{}", text(&output.stderr));
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Ctrl-C cancels the task at an A2A agent, and the run.
#[cfg(unix)]
#[test]
fn ctrl_c_cancels_at_the_agent() {
    let config = scripted("slow", "[[step]]\ntext = \"begun\"\n[[step]]\nsleep = \"1h\"\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    command.args(["run", "a", "hi", "--config", &config]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "cancelled\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Ctrl-C while a stream is recorded stops the agent too, whatever it speaks; its last words are in the recording.
#[cfg(unix)]
#[test]
fn ctrl_c_while_recording_cancels_at_the_agent() {
    let config = scripted("record", "[[step]]\ntext = \"begun\"\n[[step]]\nsleep = \"1h\"\n");
    let script = config.replace("aqueduct.toml", "a.toml");
    let mut mock = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    mock.args(["mock", &script, "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut mock = mock.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(mock.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().split("/agents/").next().unwrap().to_owned();
    for (target, last) in [("a", "cancelled"), (address.as_str(), "TASK_STATE_CANCELED")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
        command.args(["record", target, "hi", "--config", &config]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("begun")), "{target}");
        interrupt(&child);
        let rest: Vec<String> = lines.collect();
        let [.., told, end] = rest.as_slice() else { panic!("{target}: {rest:?}") };
        assert!(told.contains(last) && end.contains("closed"), "{target}: {told}\n{end}");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{target}");
    }
    mock.kill().unwrap();
    mock.wait().unwrap();
}

/// Prompts of a pipe are a chat too: one thread, each with the history of those before.
#[test]
fn lines_of_a_pipe_are_prompts_of_one_thread() {
    let config = scripted("chat", "[[step]]\ntext = \"You said {prompt}.\"\n");
    let output = aqueduct(&["run", "a", "--config", &config], b"one\n\ntwo\n/thread\n");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], ["You said one.", "You said two."]);
    assert!(lines[2].starts_with("cli-"), "{shown}");
    let output = aqueduct(&["run", "a", "--config", &config, "--thread", "mine"], b"/thread\n");
    assert_eq!(text(&output.stdout), "mine\n");
}

#[test]
fn an_answer_is_read_as_its_schema_wants_it() {
    let config = scripted(
        "schema",
        "[[step]]\nask = \"How many?\"\nschema = { type = \"integer\", maximum = 9 }\n[[step]]\ntext = \"{answer} it is.\"\n",
    );
    let output = aqueduct(&["run", "a", "hi", "--config", &config], b"4\n");
    assert_eq!(text(&output.stdout), "? How many?\n4 it is.\n", "{}", text(&output.stderr));
    let output = aqueduct(&["run", "a", "hi", "--config", &config], b"12\n");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("up to 9"), "{}", text(&output.stderr));
}

/// Ctrl-C at the prompt leaves, although a thread still reads.
#[cfg(unix)]
#[test]
fn ctrl_c_at_a_question_leaves() {
    let config = scripted("prompt", "[[step]]\nask = \"Which?\"\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    command.args(["run", "a", "hi", "--config", &config]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "? Which?\n");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    stdin.write_all(b"late").ok();
}
