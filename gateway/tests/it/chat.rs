//! `aqueduct run` at a terminal: a chat with history, questions as forms, widths and colours, Ctrl-C. The terminal is that of
//! `script`, so what is typed goes through a line discipline, as a person's keys do.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long something may take to be shown.
const PATIENCE: Duration = Duration::from_secs(30);

struct Terminal {
    child: Child,
    shown: Arc<Mutex<String>>,
    /// Ends with the output of the terminal, once all of it is in `shown`.
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts `aqueduct run a ARGS` at a terminal of 60 columns.
    fn start(name: &str, script: &str, args: &str, environment: &[(&str, &str)]) -> Self {
        let folder = crate::scratch::folder().join(format!("chat-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.toml"), script).unwrap();
        let config = folder.join("aqueduct.toml");
        std::fs::write(&config, "[agents.a.script]\nfile = \"a.toml\"\n").unwrap();
        let program = env!("CARGO_BIN_EXE_aqueduct");
        let line =
            format!("stty cols 60 rows 24; exec '{program}' run a {args} --config '{}'", config.display());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("XDG_STATE_HOME", &folder).env("TERM", "xterm");
        command.env_remove("NO_COLOR").env_remove("COLUMNS").envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length) = stdout.read(&mut chunk) {
                if length == 0 {
                    return;
                }
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..length]));
            }
        });
        Self { child, shown, reader }
    }

    fn keys(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits until the terminal has shown something `times` times, and gives all of it.
    #[track_caller]
    fn until(&self, words: &str, times: usize) -> String {
        self.wait(&format!("{words:?}, {times} times"), |shown| shown.matches(words).count() >= times)
    }

    /// Waits until the terminal has shown a prompt after `words`. Between two prompts the terminal reads lines: Ctrl-D ends
    /// a line there, which leaves nothing for the prompt.
    #[track_caller]
    fn until_prompt_after(&self, words: &str) {
        self.wait(&format!("a prompt after {words:?}"), |shown| {
            shown.rsplit_once(words).is_some_and(|(_, rest)| rest.contains("> "))
        });
    }

    /// Waits until `is_there` holds for all that the terminal has shown, and gives it. A program that has ended shows nothing more.
    #[track_caller]
    fn wait(&self, wanted: &str, is_there: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let has_ended = self.reader.is_finished();
            let shown = self.shown.lock().unwrap().clone();
            if is_there(&shown) {
                return shown;
            }
            assert!(!has_ended, "the program ended without {wanted}: {shown:?}");
            assert!(Instant::now() < end, "the terminal never showed {wanted}: {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn ends_with(mut self, code: i32) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // What was shown last may still be in the pipe.
                self.reader.join().unwrap();
                let shown = self.shown.lock().unwrap().clone();
                assert_eq!(status.code(), Some(code), "{shown:?}");
                return shown;
            }
            assert!(Instant::now() < end, "it never ended: {:?}", self.shown.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const ECHO: &str = "[[step]]\ntext = \"You said <{prompt}>.\"\n";

#[test]
fn a_chat_goes_on_until_it_is_left_and_brings_earlier_prompts_back() {
    let mut terminal = Terminal::start("loop", ECHO, "", &[]);
    terminal.until("> ", 1);
    terminal.keys("first words\r");
    terminal.until_prompt_after("You said <first words>.");
    terminal.keys("/thread\r");
    terminal.until_prompt_after("cli-");
    // Arrow up, twice: the command, then the words before it.
    terminal.keys("\u{1b}[A\u{1b}[A\r");
    terminal.until("You said <first words>.", 2);
    terminal.until_prompt_after("You said <first words>.");
    terminal.keys("\u{4}");
    terminal.ends_with(0);
}

#[test]
fn a_question_is_answered_by_a_form() {
    let script = "[[step]]\nask = \"Where to?\"\n[step.schema]\ntype = \"object\"\nrequired = [\"name\", \"copies\"]\n\
                  [step.schema.properties.name]\ntype = \"string\"\n[step.schema.properties.copies]\ntype = \"integer\"\n\
                  maximum = 9\n[step.schema.properties.size]\nenum = [\"A4\", \"A5\"]\n[[step]]\ntext = \"Sent {answer}.\"\n";
    let mut terminal = Terminal::start("form", script, "go", &[]);
    terminal.until("Where to?", 1);
    terminal.until("one by one", 1);
    terminal.keys("\r");
    terminal.until("name", 1);
    terminal.keys("Ann\r");
    terminal.until("copies", 1);
    terminal.keys("12\r");
    terminal.until("up to 9", 2);
    terminal.keys("2\r");
    terminal.until("1 A4, 2 A5", 1);
    terminal.keys("2\r");
    let shown = terminal.ends_with(0);
    for part in ["Ann", "\"copies\":2", "A5"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn markdown_is_rendered_and_wrapped_at_the_width() {
    let words = "word ".repeat(40);
    let script = format!("[[step]]\ntext = \"# Title\\n\\nSome **bold** and `code`.\\n\\n{words}\"\n");
    let shown = Terminal::start("markdown", &script, "go", &[]).ends_with(0);
    assert!(shown.contains("\u{1b}[1mTitle") && shown.contains("\u{1b}[1mbold\u{1b}[0m"), "{shown:?}");
    assert!(
        shown.lines().filter(|line| line.contains("word")).all(|line| line.trim_end().len() <= 60),
        "{shown:?}"
    );
    assert_eq!(shown.matches("word").count(), 40);
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = Terminal::start(environment.0, &script, "go", &[environment]).ends_with(0);
        assert!(!shown.contains('\u{1b}') && shown.contains("**bold**"), "{environment:?}: {shown:?}");
    }
}

#[test]
fn ctrl_c_stops_the_run_and_the_chat_goes_on_then_leaves() {
    let script = "[[rule]]\nmatch = { text = \"slow\" }\n[[rule.step]]\ntext = \"begun\"\n[[rule.step]]\nsleep = \"1h\"\n\
                  [[step]]\ntext = \"You said <{prompt}>.\"\n";
    let mut terminal = Terminal::start("stop", script, "slow --chat", &[]);
    terminal.until("begun", 1);
    terminal.keys("\u{3}");
    terminal.until_prompt_after("cancelled");
    terminal.keys("again\r");
    terminal.until_prompt_after("You said <again>.");
    terminal.keys("\u{3}");
    terminal.ends_with(0);
}

#[test]
fn what_takes_longer_than_a_second_shows_progress_that_is_gone_afterwards() {
    let script = "[[step]]\nsleep = \"1800ms\"\n[[step]]\ntext = \"There.\"\n";
    let shown = Terminal::start("progress", script, "go", &[]).ends_with(0);
    let (before, after) = shown.split_once("There.").unwrap();
    assert!(before.contains("waiting for the agent") && before.ends_with("\r\u{1b}[2K"), "{shown:?}");
    assert!(!after.contains("waiting"), "{shown:?}");
    let dumb = Terminal::start("no-progress", script, "go", &[("TERM", "dumb")]).ends_with(0);
    assert!(!dumb.contains("waiting"), "{dumb:?}");
}
