//! Real peers as judges: a process that reads cases as JSON lines and writes one verdict per case.
//!
//! `cargo xtask interop` installs the peers and says by environment variables where they are; see
//! `tests/interop/README.md` for the form of cases and verdicts.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A real peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oracle {
    /// npm `@ag-ui/client` 1.0.0.
    Client1_0,
    /// npm `@ag-ui/client` 0.0.59.
    Client0_0_59,
    /// The Python package `ag-ui-protocol` 1.0.0.
    Python,
}

/// The verdict of a peer.
#[derive(Debug, Clone)]
pub struct Verdict(pub Value);

impl Verdict {
    /// True if the peer took the stream to its end.
    pub fn ok(&self) -> bool {
        self.0["ok"].as_bool().expect("a verdict says ok")
    }

    /// The objections of the peer.
    pub fn error(&self) -> &str {
        self.0["error"].as_str().unwrap_or_default()
    }

    /// What it printed.
    pub fn warnings(&self) -> Vec<&str> {
        self.0["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The messages it holds afterwards.
    pub fn messages(&self) -> &[Value] {
        self.0["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

impl Oracle {
    /// Lets the peer judge all cases, and keeps them in a file of that name for a look afterwards.
    pub fn judge(self, file: &str, cases: &[Value]) -> Vec<Verdict> {
        let mut lines = String::new();
        for case in cases {
            writeln!(lines, "{case}").unwrap();
        }
        std::fs::write(folder("AQUEDUCT_INTEROP_CASES").join(format!("{file}.jsonl")), &lines).unwrap();
        let mut process = self.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        // The oracle writes while it reads: feeding it from here alone would fill both pipes.
        let feeder = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let output = process.wait_with_output().unwrap();
        feeder.join().unwrap();
        assert!(output.status.success(), "{self:?} ended with {}", output.status);
        let verdicts: Vec<Verdict> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| Verdict(serde_json::from_str(line).unwrap()))
            .collect();
        assert_eq!(verdicts.len(), cases.len(), "{self:?} must judge every case");
        verdicts
    }

    fn command(self) -> Command {
        let scripts = folder("AQUEDUCT_INTEROP_DIR").join("agui");
        let (program, args) = match self {
            Self::Client1_0 => (PathBuf::from("node"), Some(folder("AQUEDUCT_INTEROP_AGUI_1_0"))),
            Self::Client0_0_59 => (PathBuf::from("node"), Some(folder("AQUEDUCT_INTEROP_AGUI_0_0_59"))),
            Self::Python => (folder("AQUEDUCT_INTEROP_AGUI_PY"), None),
        };
        let mut command = Command::new(program);
        match args {
            Some(project) => command.arg(scripts.join("oracle.mjs")).arg("--project").arg(project),
            None => command.arg(scripts.join("oracle.py")),
        };
        command
    }
}

fn folder(variable: &str) -> PathBuf {
    let value = env::var_os(variable);
    value.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask interop agui`")).into()
}
