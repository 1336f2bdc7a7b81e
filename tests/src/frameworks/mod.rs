//! The scenarios that agents of the common frameworks play, and the content that each must leave in a reader.
//!
//! `tests/interop/frameworks/scenarios.json` holds that content once per scenario, never per framework. What a framework
//! does not pass on (`Limit`, in `servers.json`) is taken out of the expectation, and `docs/frameworks.md` names it.
//!
//! Compared are the texts (each exactly once, the answer as the answer), what the model thinks, the calls of tools with
//! arguments and results, how the run ends, and the question. White space is not compared: frameworks join sentences with
//! and without it. Nor is the role of a text before the answer: that is progress in one framework, speech in another.

mod turn;

pub use turn::Turn;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::turn::bare;

/// What a framework's server does not pass on over its protocol, whatever a gateway does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Neither calls of tools nor their results.
    Tools,
    /// The arguments of a call.
    Arguments,
    /// The result of a call.
    Results,
    /// What the model thinks.
    Thinking,
    /// A tool that waits for an approval: the run ends as if it were complete.
    Questions,
    /// The failure of the model: the run ends as if it were complete.
    Failures,
    /// Text before the answer is complete, so nothing of an answer that fails or is stopped.
    Streaming,
    /// Images of the user.
    Images,
}

impl Limit {
    const ALL: [(&str, Self); 8] = [
        ("tools", Self::Tools),
        ("arguments", Self::Arguments),
        ("results", Self::Results),
        ("thinking", Self::Thinking),
        ("questions", Self::Questions),
        ("failures", Self::Failures),
        ("streaming", Self::Streaming),
        ("images", Self::Images),
    ];

    fn named(name: &str) -> Self {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no limit is called {name}")).1
    }
}

/// One way to serve an agent of a framework: a row of `servers.json`.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name in this suite.
    pub name: String,
    row: Value,
    limits: Vec<Limit>,
}

impl Server {
    /// All servers of the file.
    pub fn all() -> Vec<Self> {
        let rows = read("servers.json");
        rows.as_array().unwrap().iter().map(Self::read).collect()
    }

    /// The server of that name.
    pub fn named(name: &str) -> Self {
        let found = Self::all().into_iter().find(|server| server.name == name);
        found.unwrap_or_else(|| panic!("no server is called {name}"))
    }

    fn read(row: &Value) -> Self {
        let limits = row["limits"].as_array().unwrap().iter();
        let limits = limits.map(|limit| Limit::named(limit.as_str().unwrap())).collect();
        Self { name: row["name"].as_str().unwrap().to_owned(), row: row.clone(), limits }
    }

    /// A member of its row: `framework`, `script`, `variant`, `source`, `a2a`.
    pub fn member(&self, key: &str) -> &str {
        self.row[key].as_str().unwrap_or_else(|| panic!("{} has no {key}", self.name))
    }

    /// Returns whether the server does not pass that on.
    pub fn lacks(&self, limit: Limit) -> bool {
        self.limits.contains(&limit)
    }
}

/// The folder of the suite.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/frameworks")
}

fn read(file: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What a scenario must come to.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name of the scenario, which is also the first prompt.
    pub name: String,
    turns: Vec<Value>,
    tools: Vec<Value>,
}

impl Scenario {
    /// All scenarios that the server can play, without what it does not pass on.
    pub fn all_of(server: &Server) -> Vec<Self> {
        let all = read("scenarios.json");
        let all = all.as_object().unwrap().iter();
        all.filter_map(|(name, row)| Self::read(name, &row["expected"]).within(server)).collect()
    }

    fn read(name: &str, expected: &Value) -> Self {
        let turns = expected["turns"].as_array().unwrap().clone();
        let tools = expected["tools"].as_array().cloned().unwrap_or_default();
        Self { name: name.to_owned(), turns, tools }
    }

    /// Returns `None` if nothing of the scenario remains.
    fn within(mut self, server: &Server) -> Option<Self> {
        let has = |member: &str| self.turns.iter().any(|turn| turn.get(member).is_some());
        let needs = [("stop", Limit::Streaming), ("image", Limit::Images), ("question", Limit::Questions)];
        if needs.iter().any(|(member, limit)| has(member) && server.lacks(*limit)) {
            return None;
        }
        self.turns.iter_mut().for_each(|turn| reduce_turn(turn, server));
        for (limit, piece) in [(Limit::Arguments, "arguments"), (Limit::Results, "result")] {
            for tool in self.tools.iter_mut().filter(|_| server.lacks(limit)) {
                tool.as_object_mut().unwrap().remove(piece);
            }
        }
        if server.lacks(Limit::Tools) {
            self.tools.clear();
        }
        Some(self)
    }

    /// What the user does in each turn: the words, and whether an image goes with them.
    pub fn said(&self) -> impl Iterator<Item = (&str, bool)> {
        self.turns
            .iter()
            .map(|turn| (turn["user"].as_str().unwrap_or(&self.name), turn.get("image").is_some()))
    }

    /// The text at which the user stops the run.
    pub fn stop(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| turn["stop"].as_str())
    }

    /// Returns the differences from the expectation. `by_text`: the reader has no interrupts and receives a text
    /// instead.
    pub fn differences(&self, seen: &[Turn], by_text: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if seen.len() != self.turns.len() {
            wrong.push(format!("{} turns, not {}", seen.len(), self.turns.len()));
        }
        for (number, (seen, expected)) in seen.iter().zip(&self.turns).enumerate() {
            let found = differences_of_turn(seen, expected, by_text);
            wrong.extend(found.iter().map(|found| format!("turn {}: {found}", number + 1)));
        }
        wrong.extend(differences_of_tools(seen, &self.tools));
        wrong
    }
}

fn reduce_turn(turn: &mut Value, server: &Server) {
    let fails = turn["outcome"] == "error";
    if fails && server.lacks(Limit::Streaming) {
        turn["texts"] = json!([]);
    }
    if fails && server.lacks(Limit::Failures) {
        turn["outcome"] = json!("success");
    }
    if server.lacks(Limit::Thinking) {
        turn.as_object_mut().unwrap().remove("thinking");
    }
}

fn differences_of_turn(seen: &Turn, expected: &Value, by_text: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |what: &str, is_right: bool, seen: &str, expected: &str| {
        if !is_right {
            wrong.push(format!("{what}: {seen:?}, not {expected:?}"));
        }
    };
    let question = expected["question"].as_str();
    let outcome = expected["outcome"].as_str().unwrap_or("success");
    let outcome = if question.is_some() && by_text { "success" } else { outcome };
    check("outcome", seen.outcome == outcome, &format!("{} {}", seen.outcome, seen.cause), outcome);
    check("cause", outcome != "error" || !seen.cause.is_empty(), &seen.cause, "words");
    if let Some(stop) = expected["stop"].as_str() {
        check("text", seen.said(Some(true)).starts_with(&bare(stop)), &seen.said(None), stop);
        return wrong;
    }
    if let Some(question) = question {
        let asked = if by_text { seen.said(None) } else { bare(&seen.questions.concat()) };
        check("question", asked.contains(&bare(question)), &asked, question);
        if by_text {
            return wrong;
        }
    }
    let thinking = bare(expected["thinking"].as_str().unwrap_or_default());
    let texts: Vec<&str> = expected["texts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let whole = format!("{thinking}{}", bare(&texts.concat()));
    let answer = bare(texts.last().copied().unwrap_or_default());
    let mut said = seen.said(None);
    if outcome == "error" {
        // Some frameworks also tell the failure as a text; and what is cut off may have become progress.
        let cause = bare(&seen.cause);
        said = said.strip_suffix(&cause).filter(|_| !cause.is_empty()).unwrap_or(&said).to_owned();
    } else {
        let spoken = seen.said(Some(true));
        check("answer", spoken.ends_with(&answer), &spoken, &answer);
    }
    check("texts", said == whole, &said, &whole);
    check("thinking", seen.said(Some(false)).starts_with(&thinking), &seen.said(Some(false)), &thinking);
    wrong
}

/// Compares the calls of all turns: an approved call may be shown before the question or after it.
fn differences_of_tools(turns: &[Turn], expected: &[Value]) -> Vec<String> {
    let calls: Vec<&(String, String)> = turns.iter().flat_map(|turn| &turn.calls).collect();
    let results: Vec<&(String, String)> = turns.iter().flat_map(|turn| &turn.results).collect();
    let mut wrong = Vec::new();
    if calls.len() != expected.len() {
        wrong.push(format!("calls: {calls:?}, not {}", json!(expected)));
    }
    for ((name, arguments), expected) in calls.iter().zip(expected) {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
        let is_right =
            expected["name"] == **name && expected.get("arguments").is_none_or(|wanted| arguments == *wanted);
        if !is_right {
            wrong.push(format!("call: {name}({arguments}), not {expected}"));
        }
        let Some(wanted) = expected["result"].as_str() else { continue };
        // A protocol may not name the tool beside a result; its call may stand in an earlier turn.
        let is_of = |tool: &str| tool.is_empty() || tool == name;
        if !results.iter().any(|(tool, result)| is_of(tool) && result.contains(wanted)) {
            wrong.push(format!("result: {results:?} without {wanted:?}"));
        }
    }
    wrong
}
