//! The real AG-UI clients: one process for all cases of a test (`frontend.mjs`).

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::stage::{script, variable};

/// A version of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::interop) enum Client {
    V1_0,
    V0_0_59,
}

/// A client that plays cases until it is dropped.
pub(in crate::interop) struct Frontend {
    child: Child,
    cases: ChildStdin,
    verdicts: Lines<BufReader<ChildStdout>>,
}

impl Drop for Frontend {
    fn drop(&mut self) {
        // It may have ended by itself, which is a failure that the test has seen already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A case: its name, the agent's address, and the prompt.
pub(in crate::interop) fn case(name: &str, url: &str, turns: &[&str]) -> Value {
    json!({ "name": name, "url": url, "turns": turns })
}

impl Frontend {
    pub(in crate::interop) fn start(client: Client) -> Self {
        let project = variable(match client {
            Client::V1_0 => "AQUEDUCT_INTEROP_AGUI_1_0",
            Client::V0_0_59 => "AQUEDUCT_INTEROP_AGUI_0_0_59",
        });
        let mut command = Command::new("node");
        command.arg(script("frontend.mjs")).arg("--project").arg(project);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let verdicts = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { cases: child.stdin.take().unwrap(), child, verdicts }
    }

    fn begin(&mut self, case: &Value) {
        writeln!(self.cases, "{case}").unwrap();
    }

    fn verdict(&mut self) -> (String, Value) {
        let line = self.verdicts.next().expect("the client ended").unwrap();
        let verdict: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(verdict["warnings"], json!([]), "{}", verdict["name"]);
        (verdict["name"].as_str().unwrap().to_owned(), verdict["turns"].clone())
    }

    /// Plays one case; the turns as the client saw them.
    pub(in crate::interop) fn play(&mut self, case: &Value) -> Value {
        self.begin(case);
        self.verdict().1
    }

    /// Plays several rows of cases at once, each row in its order; the turns by the name of their case.
    pub(in crate::interop) fn play_all(&mut self, rows: Vec<Vec<Value>>) -> HashMap<String, Value> {
        let mut rows: Vec<VecDeque<Value>> = rows.into_iter().map(VecDeque::from).collect();
        let name_of = |case: &Value| case["name"].as_str().unwrap().to_owned();
        let row_of: HashMap<String, usize> = rows
            .iter()
            .enumerate()
            .flat_map(|(number, row)| row.iter().map(move |case| (name_of(case), number)))
            .collect();
        for row in &mut rows {
            row.pop_front().iter().for_each(|case| self.begin(case));
        }
        let mut verdicts = HashMap::new();
        while verdicts.len() < row_of.len() {
            let (name, turns) = self.verdict();
            rows[row_of[&name]].pop_front().iter().for_each(|case| self.begin(case));
            verdicts.insert(name, turns);
        }
        verdicts
    }
}
